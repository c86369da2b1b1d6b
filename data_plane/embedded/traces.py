"""What is left of messages whose items the cell removed (docs/storage.md, "Trace").

An export shows the cell at one moment. Messages that were sent, and whose items were removed again,
between two exports would be missing without a word; their traces say what became of them.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import msgspec

from data_plane.core.undecodable import UNDECODABLE
from data_plane.ports import Value

FINISHED: Final = "n"
EXPIRED: Final = "x"
QUEUE_DELETED: Final = "q"
PURGED: Final = "p"
"""Why items were removed: nobody needs them, their time to live was over, their queue is gone, or
was purged."""

TRACE_KEPT_S: Final = 3 * 86_400
_FORMAT: Final = 1
_DEAD_LETTER_VERSION: Final = 2
_MESSAGES: Final = (b"B|", b"G|")
_STATES: Final = (b"S|", b"F|")
_TRACED: Final = _MESSAGES + _STATES
_STATE_FIRST: Final = b"\xff"
_ALL_ALIKE: Final = (QUEUE_DELETED, PURGED)
"""Where it does not matter what was done with the messages."""
_MINUTE_US: Final = 60_000_000


class _Removed(msgspec.Struct):
    """What a trace takes from a segment, a slot, or the state of a block; the rest is not read."""

    v: int = 0
    k: str | int = ""
    t: int = 0
    l: int = 0  # noqa: E741 - names of attributes are those of docs/storage.md
    b: int | bytes = b""
    i: int = 0
    n: int = 0
    y: int = 0
    x: int = 0
    j: int = 0
    d: frozenset[int] = frozenset()
    gd: frozenset[int] = frozenset()
    gr: frozenset[int] = frozenset()


class Trace(NamedTuple):
    """A trace: its partition, what follows the stamp in its sort key, and its attributes."""

    partition: str
    suffix: bytes
    attributes: dict[str, Value]


_decoder = msgspec.msgpack.Decoder(_Removed)
_Block = tuple[str, bytes]


def leaves_trace(stored_key: bytes) -> bool:
    """Whether an item under this stored key may have messages, or say what became of some."""
    return stored_key.startswith(_TRACED)


def traces_of(
    removed: Iterable[tuple[bytes, bytes | memoryview]], cause: str, now_s: int
) -> Iterator[Trace]:
    """The traces of items that go together, from their stored keys and values."""
    common: dict[str, Value] = {"v": _FORMAT, "c": cause, "x": now_s + TRACE_KEPT_S}
    segments: dict[_Block, list[_Removed]] = {}
    states: dict[_Block, _Removed] = {}
    for stored_key, value in removed:
        partition, _zero, sort = stored_key.partition(b"\0")
        lane = partition[2:].decode()
        try:
            item = _decoder.decode(value)
        except UNDECODABLE:  # it goes all the same, and the audit is told
            yield Trace(f"E|{lane}", sort, {**common, "k": "u", "b": sort})
            continue
        if partition.startswith(_STATES):
            states[lane, sort] = item
        elif item.k == "s" and item.n:
            segments.setdefault((lane, _block(item)), []).append(item)
    for (lane, block), items in segments.items():
        state = states.get((lane, block))
        done = state.d if state is not None else frozenset()
        for run in _runs(items, done, together=cause in _ALL_ALIKE):
            yield _messages_trace(lane, block, run, common)
    for (lane, block), state in states.items():
        sets = {"d": state.d, "gd": state.gd, "gr": state.gr}
        told: dict[str, Value] = {name: members for name, members in sets.items() if members}
        if told:
            attributes = {**common, "k": "d", "b": block, **told}
            yield Trace(f"E|{lane}", block + _STATE_FIRST, attributes)


def _block(item: _Removed) -> bytes:
    """The name of its block, which is also the sort key of the block's state."""
    return item.b if isinstance(item.b, bytes) else item.b.to_bytes(8, "big")


def _runs(
    items: list[_Removed], done: frozenset[int], *, together: bool
) -> Iterator[list[_Removed]]:
    """Segments by their first messages; those that adjoin and of which all are done, together.

    With `together` also others. All of a run are of one minute, as the ledger of sends counts.
    """
    run: list[_Removed] = []
    was_done = False
    for item in sorted(items, key=lambda segment: (segment.i, segment.t)):
        is_done = done.issuperset(range(item.i, item.i + item.n))
        if run and run[-1].i + run[-1].n == item.i and run[-1].j == item.j:
            same_minute = run[0].t // _MINUTE_US == item.t // _MINUTE_US
            alike = (was_done and is_done) or (together and is_done == was_done)
            if same_minute and alike:
                run.append(item)
                continue
        if run:
            yield run
        run, was_done = [item], is_done
    if run:
        yield run


def _messages_trace(
    lane: str, block: bytes, run: list[_Removed], common: dict[str, Value]
) -> Trace:
    first = run[0]
    attributes: dict[str, Value] = {
        **common,
        "k": "s",
        "b": block,
        "i": first.i,
        "n": sum(item.n for item in run),
        "y": sum(item.y for item in run),
        "t": first.t,
        "s": first.l if first.v == _DEAD_LETTER_VERSION else first.t,
        "u": first.x,
    }
    if first.j:
        attributes["j"] = first.j
    return Trace(f"E|{lane}", block + bytes((first.i,)), attributes)
