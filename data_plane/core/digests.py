"""Digests: what stands, in stored items, for the names that callers chose (docs/storage.md).

They lie in clear beside sealed messages. Whoever lacks the queue's secret can neither tell what
they stand for nor try names out.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from data_plane.core.queue import DIGESTS_BY_UID, Queue
from data_plane.core.sealing import derive

TAG_BYTES: Final = 8
_HASH_BYTES: Final = 16

KEYS_MAX: Final = 10_000
"""Keys that a process keeps at hand, a few for each queue."""

GROUPS_MAX: Final = 4_000
"""Message groups whose digests a process remembers."""

_GROUPS: Final = "groups"
_DEDUPLICATION: Final = "deduplication"
_TAGS: Final = "tags"
_ATTEMPTS: Final = "attempts"
_CALLS: Final = "calls"
_PRODUCERS: Final = "producers"

_PERSONS_BY_UID: Final = {_GROUPS: b"g", _DEDUPLICATION: b"d", _TAGS: b""}
"""What keeps digests of different names apart where one key, the uid, serves for all."""


class Hashed(Protocol):
    """What names are hashed for: a queue, or a stream."""

    @property
    def uid(self) -> str: ...  # noqa: D102 - see Queue

    @property
    def secret(self) -> bytes: ...  # noqa: D102

    @property
    def digest_version(self) -> int: ...  # noqa: D102


class _Key(NamedTuple):
    key: bytes
    person: bytes


@lru_cache(KEYS_MAX)
def _key(purpose: str, secret: bytes, uid: str, digest_version: int) -> _Key:
    if digest_version == DIGESTS_BY_UID and purpose in _PERSONS_BY_UID:
        return _Key(uid.encode(), _PERSONS_BY_UID[purpose])
    return _Key(derive(secret, purpose), b"")


def _digest(purpose: str, queue: Hashed, name: str, size_bytes: int = _HASH_BYTES) -> bytes:
    key, person = _key(purpose, queue.secret, queue.uid, queue.digest_version)
    return blake2b(name.encode(), digest_size=size_bytes, key=key, person=person).digest()


def group_hash(queue: Queue, group: str) -> bytes:
    """16 bytes that name a message group in the slots of a FIFO queue."""
    key = _key(_GROUPS, queue.secret, queue.uid, queue.digest_version)
    return _group_hash(key, group)


@lru_cache(GROUPS_MAX)
def _group_hash(key: _Key, group: str) -> bytes:
    return blake2b(group.encode(), digest_size=_HASH_BYTES, key=key.key, person=key.person).digest()


def deduplication_hash(queue: Queue, scope: str, deduplication_id: str) -> bytes:
    """16 bytes that messages have in common of which one is a duplicate of the other.

    `scope` is the message group, or "" where duplicates are some across groups.
    """
    # Neither has a line feed: no two pairs are the same text.
    return _digest(_DEDUPLICATION, queue, f"{scope}\n{deduplication_id}")


def group_tag(queue: Queue, group: str) -> bytes:
    """8 bytes that name a message group in the segments of a standard queue."""
    return _digest(_TAGS, queue, group, TAG_BYTES)


def attempt_hash(queue: Queue, attempt: str) -> bytes:
    """16 bytes that name a ReceiveRequestAttemptId."""
    return _digest(_ATTEMPTS, queue, attempt)


def call_hash(queue: Hashed, call: str) -> bytes:
    """16 bytes that name an SDK's call, of which the text says everything."""
    return _digest(_CALLS, queue, call)


def producer_hash(stream: Hashed, producer: str) -> bytes:
    """16 bytes that name who numbers its records, of which the text says everything."""
    return _digest(_PRODUCERS, stream, producer)
