"""Who may still write when the disk is full: what adds stops first, what frees goes on last.

A store that cannot grow keeps a reserve (store.py, `StoreSizes.reserve`). Each write must leave a
part of it, which is the greater, the less the write helps to free room:

| grade | leaves, of 16 MiB | what |
|---|---|---|
| adds | all of it | messages that are sent; new queues, accounts, users, keys |
| moves | 12 MiB | messages that move: a dead letter must not end in a refused receive; in groups |
| serves | 4 MiB | leases, markers, low-water marks, whatever else is written beside messages |
| frees | nothing | deletes, purges, deletions of queues, notes for these; what is no bigger |

How big each has to be. LMDB copies each page that it changes, and what a commit has freed is used
by the next but one: so a store that only replaces things needs the pages of three commits. On a
full disk a commit is `full_batch_bytes` by our own estimate, a sixteenth of the reserve (1 MiB).
Three of those fit into the 4 MiB that only what frees may use, with a quarter left for LMDB's list
of free pages: 8 bytes for each, 16 KiB for the 2,048 pages of three such commits, once for the tree
and once for its copy. A lease takes 40 to 90 bytes: the 8 MiB between moves and what frees are
90,000 messages in flight that were not when the disk got full. Between what is sent and what moves
lie 4 MiB: copies of 4,000 messages of 1 KB, or 4 of 1 MiB. What they run out of is there again when
the blocks that the messages came from are collected, 20 s after they are done.

In a group of cells all have to take what is sent, or it is half way: in a chain nothing follows in
that log, a purge neither, and nobody knows for a while what was sent of a standard queue. So each
takes it like what moves, and nothing is sent, and no record put, where one does not say before that
it `has_room`. Between the two lies what was under way when the first of them got full. A store that
could still grow has room for twice what one transaction writes: so who was told that a great record
has room finds it, also where the disk was filled by others since.
"""

from typing import Final

from data_plane.ports import Append, Attributes, Key, Update
from data_plane.stored.keys import is_of_shard

ADDS: Final = 16
MOVES: Final = 12
SERVES: Final = 4
FREES: Final = 0
"""Sixteenths of the reserve that a write of this grade leaves."""

WRITE_BYTES: Final = 16 * 1024
"""What a write costs besides its value: copies of tree pages, generously."""

_GROWTH_BYTES: Final = 32
"""An item that grows by no more, a number or a member of a set, has not grown."""

_MESSAGES: Final = ("B|", "G|")
_STATES: Final = ("S|", "F|")
_DEFINED: Final = ("A|", "I|", "N|", "Q|")
_TO_BE_DROPPED: Final = ("X|", "Z|")
_SENDS: Final = "M|sends"
_NOTED: Final = "d"
"""What was sent, as noted before it is dropped: of the partition above, what has this attribute."""

_MESSAGE: Final = "s"
_PURGE: Final = "p"
_SEGMENTS: Final = "B|"
_REVISION: Final = "R"
"""Segments that are put, not appended, and items with a revision are of a group of cells."""


def kept_bytes(grade: int, reserve_bytes: int) -> int:
    """What of the reserve a write of this grade must leave."""
    return reserve_bytes * grade // ADDS


def full_batch_bytes(reserve_bytes: int) -> int:
    """How much one commit may write while the store cannot grow."""
    return reserve_bytes // 16


def cost_bytes(size_bytes: int) -> int:
    """What a write of a value takes, with what is copied for it: about, and rather too much."""
    return size_bytes + size_bytes // 32 + WRITE_BYTES


def grade_of_append(record: Append) -> int:
    """That of an append."""
    return _grade_of_new(record.attributes)


def grade_of_put(key: Key, attributes: Attributes, before_bytes: int, after_bytes: int) -> int:
    """That of a put, from the sizes of the item before (0: none) and after."""
    if before_bytes and after_bytes <= before_bytes + _GROWTH_BYTES:
        return FREES
    if key.partition.startswith(_TO_BE_DROPPED) or _is_noted(key, attributes):
        return FREES
    if key.partition.startswith(_MESSAGES):
        grade = _grade_of_new(attributes)
        is_let_in = key.partition.startswith(_SEGMENTS) or _REVISION in attributes
        return MOVES if grade == ADDS and is_let_in else grade
    if not before_bytes and _REVISION in attributes and is_of_shard(key.partition):
        return MOVES
    if not before_bytes and key.partition.startswith(_DEFINED):
        return ADDS
    return SERVES


def grade_of_update(key: Key, change: Update, before_bytes: int, after_bytes: int) -> int:
    """That of an update: of the state of a block, by whether messages are leased or done."""
    if key.partition.startswith(_STATES):
        leases = any(name.startswith("m") for name in change.assign)
        if not leases or (before_bytes and after_bytes <= before_bytes):
            return FREES
        return SERVES
    if before_bytes and after_bytes <= before_bytes + _GROWTH_BYTES:
        return FREES
    return FREES if _is_noted(key, change.assign) else SERVES


def _is_noted(key: Key, attributes: Attributes) -> bool:
    return _NOTED in attributes and key.partition.startswith(_SENDS)


def _grade_of_new(attributes: Attributes) -> int:
    """That of a new item among messages, by its kind."""
    kind = attributes.get("k", _MESSAGE)
    if kind == _MESSAGE:
        return MOVES if attributes.get("r") == 0 else ADDS
    return FREES if kind == _PURGE else SERVES
