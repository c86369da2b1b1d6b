"""What is stored, opened by docs/storage.md alone: the oracle does not trust the shipped reader."""

import base64
import struct
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from data_plane.core.sealing import DataSeal, NotSealedHereError, TokenSeal, derive, place
from data_plane.ports import Attributes, Key
from data_plane.stored.segment import number

ACCOUNT: Final = "123456789012"
REGION: Final = "eu-west-1"
REGISTRY_SECRET: Final = bytes(range(32))
OF_KMS: Final = b"\1"
"""Ids of data keys begin so that are not managed ones."""
MASTER_KEYS: Final = ("alias/one", "alias/two")
"""KMS keys that queues of universes have."""

_HANDLE: Final = struct.Struct(">BH10sB6s13s3s")
_HANDLE_IN_CLEAR_BYTES: Final = 2


def unseal(key: Key, item: Attributes, sealed: bytes) -> bytes:
    """What is beneath the seal of a segment or a slot."""
    uid, key_id = key.partition.split("|")[1], item["q"]
    assert isinstance(key_id, bytes)
    name: list[str | bytes]
    if key.partition.startswith("G"):
        assert isinstance(item["w"], bytes)
        name = [key.sort, item["w"]]
    else:
        assert isinstance(item["b"], bytes)
        name = [item["b"], str(number(item, "i"))]
    where = place(ACCOUNT, key.partition, *name, f"{number(item, 'e')}|{number(item, 'n')}")
    if key_id[:1] != OF_KMS:
        return _seal(uid, key_id).unseal(sealed, where)
    for master_key_id in MASTER_KEYS:
        with suppress(NotSealedHereError):
            return DataSeal(plain_key(master_key_id)).unseal(sealed, where)
    raise NotSealedHereError


@lru_cache(64)
def _seal(uid: str, key_id: bytes) -> DataSeal:
    secret = derive(REGISTRY_SECRET, "queue", uid)
    return DataSeal(derive(secret, "messages", str(int.from_bytes(key_id[2:], "big"))))


@lru_cache(64)
def plain_key(master_key_id: str) -> bytes:
    """All data keys of a KMS key of universes."""
    return derive(REGISTRY_SECRET, "universe", master_key_id)


@dataclass(frozen=True, slots=True)
class Handle:
    """What a receipt handle says; `lane` and `epoch` are partition and generation of a log."""

    uid: str
    lane: int
    epoch: int
    block: bytes
    index: int
    token: bytes


class Handles:
    """Opens receipt handles of the queues that there were, by name and uid."""

    def __init__(self, queues: Iterable[tuple[str, str]]) -> None:
        self._seals = {uid: (_handle_seal(uid), _bound_to(uid, name)) for name, uid in queues}
        self._opened: dict[str, Handle] = {}

    def open(self, text: str) -> Handle:
        """What the handle says. Raises NotSealedHereError for one of no queue."""
        if text not in self._opened:
            sealed = base64.urlsafe_b64decode(text)[_HANDLE_IN_CLEAR_BYTES:]
            self._opened[text] = self._unseal(sealed)
        return self._opened[text]

    def _unseal(self, sealed: bytes) -> Handle:
        for uid, (seal, bound_to) in self._seals.items():
            try:
                fields = _HANDLE.unpack(seal.unseal(sealed, bound_to))
            except NotSealedHereError:
                continue
            lane, epoch, block, index, _sent, token, _size = fields
            return Handle(uid, lane, epoch, block, index, token)
        raise NotSealedHereError


@lru_cache(64)
def _handle_seal(uid: str) -> TokenSeal:
    return TokenSeal(derive(REGISTRY_SECRET, "queue", uid), "receipt handles")


def _bound_to(uid: str, name: str) -> bytes:
    return place(uid, f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}")
