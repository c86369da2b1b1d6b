"""What is stored, opened by docs/storage.md alone: the oracle does not trust the shipped reader."""

from functools import lru_cache
from typing import Final

from data_plane.core.sealing import DataSeal, derive, place
from data_plane.ports import Attributes, Key
from data_plane.stored.segment import number

ACCOUNT: Final = "123456789012"
REGISTRY_SECRET: Final = bytes(range(32))


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
    return _seal(uid, key_id).unseal(sealed, where)


@lru_cache(64)
def _seal(uid: str, key_id: bytes) -> DataSeal:
    secret = derive(REGISTRY_SECRET, "queue", uid)
    return DataSeal(derive(secret, "messages", str(int.from_bytes(key_id[2:], "big"))))
