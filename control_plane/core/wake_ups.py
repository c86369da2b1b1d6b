"""What servers on one table tell each other of sends: which queues have something new.

A hint, and no more: it may be lost, late or repeated, and whoever gets it looks for himself. So a
datagram is small, has no answer, and is worth something only to who knows the registry's secret: it
is sealed with a digest, and old ones count for nothing.
"""

import hmac
from collections.abc import Iterable
from hashlib import sha256
from typing import Final, NamedTuple

from data_plane.core.sealing import derive

CHANNELS_MAX: Final = 40
"""In a datagram, which so fits into a packet of any network."""

AGE_MS_MAX: Final = 30_000
"""Clocks of servers may be off by as much."""

EVERY_US: Final = 50_000
"""A queue is told at most so often: 20 times a second, to each server."""

TOLD_MAX: Final = 10_000

_VERSION: Final = b"\1"
_SENDER_BYTES: Final = 8
_TIME_BYTES: Final = 8
_UID_BYTES: Final = 8
_TAG_BYTES: Final = 16
_KINDS: Final = {"bag": b"b", "log": b"l"}
_KIND_OF: Final = {byte[0]: kind for kind, byte in _KINDS.items()}

Channel = tuple[str, str]
"""On which receives of a queue wait: of which engine, and the queue's uid."""


class Told(NamedTuple):
    """What a datagram says."""

    sender: bytes
    channels: list[Channel]


class WakeUpSeal:
    """Makes and reads datagrams of the servers that share the registry's secret.

    `own` are the sender's eight random bytes.
    """

    def __init__(self, registry_secret: bytes, own: bytes) -> None:
        self._key = derive(registry_secret, "wake-ups")
        self._own = own

    def pack(self, channels: Iterable[Channel], now_ms: int) -> bytes:
        """A datagram about up to CHANNELS_MAX channels."""
        told = b"".join(_KINDS[kind] + bytes.fromhex(uid) for kind, uid in channels)
        body = _VERSION + self._own + now_ms.to_bytes(_TIME_BYTES, "big") + told
        return body + self._tag(body)

    def read(self, datagram: bytes, now_ms: int) -> list[Channel]:
        """What another server says; nothing where it is old, one's own, or not a server's."""
        body, tag = datagram[:-_TAG_BYTES], datagram[-_TAG_BYTES:]
        head = len(_VERSION) + _SENDER_BYTES + _TIME_BYTES
        entry_bytes = 1 + _UID_BYTES
        if (
            len(body) < head
            or len(body) > head + CHANNELS_MAX * entry_bytes
            or body[:1] != _VERSION
            or (len(body) - head) % entry_bytes
            or not hmac.compare_digest(tag, self._tag(body))
        ):
            return []
        sent_ms = int.from_bytes(body[head - _TIME_BYTES : head], "big")
        if body[1 : 1 + _SENDER_BYTES] == self._own or abs(now_ms - sent_ms) > AGE_MS_MAX:
            return []
        return [
            (_KIND_OF[body[at]], body[at + 1 : at + entry_bytes].hex())
            for at in range(head, len(body), entry_bytes)
            if body[at] in _KIND_OF
        ]

    def _tag(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, sha256)[:_TAG_BYTES]


class Pending:
    """Which channels are to be told, each at most once in EVERY_US, TOLD_MAX of them at a time."""

    def __init__(self) -> None:
        self._wanted: dict[Channel, None] = {}
        self._told_us: dict[Channel, int] = {}

    def want(self, channel: Channel) -> None:
        """Something was signalled on it here."""
        if len(self._wanted) < TOLD_MAX:
            self._wanted[channel] = None

    def take(self, now_us: int) -> list[list[Channel]]:
        """What is due, in datagrams; the rest stays wanted."""
        due = [one for one in self._wanted if not self._is_recent(one, now_us)]
        for channel in due:
            del self._wanted[channel]
            self._told_us.pop(channel, None)
            self._told_us[channel] = now_us
        while len(self._told_us) > TOLD_MAX:
            del self._told_us[next(iter(self._told_us))]
        return [due[at : at + CHANNELS_MAX] for at in range(0, len(due), CHANNELS_MAX)]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be told."""
        return not self._wanted

    def _is_recent(self, channel: Channel, now_us: int) -> bool:
        told_us = self._told_us.get(channel)
        return told_us is not None and 0 <= now_us - told_us < EVERY_US
