"""What writes change of what a cell counts for quotas: bytes stored, definitions of accounts.

docs/storage.md, "Stored bytes" and "Definitions of an account".
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from data_plane.core.undecodable import UNDECODABLE
from data_plane.embedded.encoding import partition_prefix
from data_plane.ports import Value

STORED: Final = "V|"
"""Partition of what each queue's messages, or stream's records, take in this cell, by uid."""

DEFINED: Final = "V|definitions"
"""Partition of what the definitions of each account take, by account and incarnation."""

INCARNATION_MARK: Final = "@"

_STORED_PREFIX: Final = partition_prefix(STORED)
_DEFINED_PREFIX: Final = partition_prefix(DEFINED)
GROWTH_PREFIXES: Final = (_STORED_PREFIX, _DEFINED_PREFIX)
"""Stored keys of counts begin so."""
_OF_MESSAGES: Final = (b"B|", b"G|")
_OF_DEFINITIONS: Final = (b"Q|", b"X|", b"A|")
_OF_RECORDS: Final = b"N|"
"""Access keys begin so, too: behind a uid comes a shard."""
_COUNTED: Final = _OF_MESSAGES + _OF_DEFINITIONS
_UID: Final = slice(2, 18)
_BEHIND_UID: Final = slice(18, 19)
_ACCOUNT: Final = slice(2, 14)
_MARK: Final = INCARNATION_MARK.encode()
_LIVE: Final = {b"Q|": "q", b"A|": "t"}
"""What definitions say of themselves that are there, and no tombstones."""
_COUNT: Final = {b"Q|": "q", b"A|": "s"}
_KIND: Final = slice(2)


class _Kind(msgspec.Struct):
    """The one attribute that tells a queue, or a stream, from what is left of one."""

    k: str = ""


_kind_decoder = msgspec.msgpack.Decoder(_Kind)


def is_counted(stored_key: bytes) -> bool:
    """Whether an item under this stored key counts for a quota."""
    return stored_key.startswith(_COUNTED) or (
        stored_key.startswith(_OF_RECORDS) and stored_key[_BEHIND_UID] == b"|"
    )


def is_definition(stored_key: bytes) -> bool:
    """Whether it counts as a definition, and not as a message or a record."""
    return stored_key.startswith(_OF_DEFINITIONS)


def is_live(stored_key: bytes, value: bytes | memoryview | None) -> bool:
    """Whether this is the definition of a queue, or a stream, that is there."""
    live = _LIVE.get(stored_key[_KIND])
    if value is None or live is None:
        return False
    try:
        return _kind_decoder.decode(value).k == live
    except UNDECODABLE:
        return False


class Growth:
    """What one transaction adds to the counts of a cell."""

    __slots__ = ("_added",)

    def __init__(self) -> None:
        self._added: dict[bytes, dict[str, int]] = {}

    def note(self, stored_key: bytes, size_bytes: int, defined: int = 0) -> None:
        """An item got bigger, or smaller, by so much; so many definitions came, or went."""
        if is_definition(stored_key):
            key = _account_key(stored_key)
            if not key:
                return
        else:
            key = _STORED_PREFIX + stored_key[_UID]
        sums = self._added.setdefault(key, {})
        sums["n"] = sums.get("n", 0) + size_bytes
        if defined:
            name = _COUNT[stored_key[_KIND]]
            sums[name] = sums.get(name, 0) + defined

    def items(self) -> Mapping[bytes, Mapping[str, int]]:
        """What is added, by the stored key of the count and its attributes."""
        return self._added


def grown(before: Mapping[str, Value] | None, added: Mapping[str, int]) -> dict[str, Value]:
    """The count as it will be; nothing where it counts nothing.

    It may have begun after what is removed now was stored: then it stays at 0.
    """
    before = before or {}
    sums: dict[str, Value] = {}
    for name in before.keys() | added.keys():
        known = before.get(name, 0)
        total = (known if isinstance(known, int) else 0) + added.get(name, 0)
        if total > 0:
            sums[name] = total
    return sums


def _account_key(stored_key: bytes) -> bytes:
    """Where its account is counted; b"" for what belongs to none, or to all."""
    partition, _zero, _sort = stored_key.partition(b"\0")
    name, mark, incarnation = partition.partition(_MARK)
    account = name[_ACCOUNT]
    return _DEFINED_PREFIX + account + mark + incarnation if account else b""
