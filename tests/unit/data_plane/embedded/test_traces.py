"""What is left of messages that an embedded cell removed."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.encoding import encode_item
from data_plane.embedded.traces import (
    EXPIRED,
    FINISHED,
    PURGED,
    QUEUE_DELETED,
    TRACE_KEPT_S,
    traces_of,
)
from data_plane.ports import Append, Attributes, Item, Key

UID = "0123456789abcdef"
LANE = f"{UID}|00|0"
BLOCK = b"writer" + (7).to_bytes(4, "big")
NOW_S = 1_800_000_000


class _Clock:
    def now_us(self) -> int:
        return NOW_S * 1_000_000


def _segment(first: int, count: int, **others: int | bytes | str) -> Attributes:
    item: dict[str, int | bytes | str] = {
        "v": 1,
        "k": "s",
        "b": BLOCK,
        "i": first,
        "n": count,
        "y": 10 * count,
        "x": NOW_S - 5,
        "e": 0,
        "z": b"body",
    }
    return item | others


def _stored(partition: str, sort: bytes, item: Attributes) -> tuple[bytes, bytes]:
    return partition.encode() + b"\0" + sort, msgspec.msgpack.encode(item)


async def _traces_after(directory: Path, remove: str, *, done: frozenset[int]) -> list[Item]:
    cell = EmbeddedCell(directory, _Clock())
    keys = []
    for first in (0, 2):
        suffix = BLOCK + bytes((first,))
        appended = await cell.append(Append(f"B|{LANE}", suffix, _segment(first, 2), 0))
        keys.append(appended.key)
    marker: Attributes = {"v": 1, "k": "m", "b": BLOCK, "x": NOW_S - 5}
    await cell.append(Append(f"B|{LANE}", BLOCK + b"\xff", marker, 0))
    if done:
        keys.append(Key(f"S|{LANE}", BLOCK))
        await cell.put(keys[-1], {"v": 1, "d": done, "gd": frozenset({1}), "x": NOW_S + 9})
    if remove == "expire":
        cell.expire(keys)
    elif remove == "collect":
        await cell.collect(NOW_S, 100)
    else:
        await cell.drop(f"B|{LANE}", 100)
    await cell.close()
    again = EmbeddedCell(directory, _Clock())
    traces = await again.query(f"E|{LANE}", limit=100)
    await again.close()
    return traces


def test_a_finished_block_leaves_one_trace_of_its_messages_and_one_of_its_state(
    tmp_path: Path,
) -> None:
    traces = asyncio.run(_traces_after(tmp_path, "expire", done=frozenset(range(4))))
    kinds = {str(trace.attributes["k"]): trace.attributes for trace in traces}
    assert len(traces) == 2
    stamp_us = NOW_S * 1_000_000
    assert kinds["s"] == {
        "v": 1,
        "k": "s",
        "c": FINISHED,
        "b": BLOCK,
        "i": 0,
        "n": 4,
        "y": 40,
        "t": stamp_us,
        "s": stamp_us,
        "u": NOW_S - 5,
        "x": NOW_S + TRACE_KEPT_S,
    }
    assert kinds["d"]["d"] == frozenset(range(4))
    assert kinds["d"]["gd"] == frozenset({1})
    # Above all stamps before, so that an export made earlier does not have them.
    assert all(trace.key.sort[:8] > stamp_us.to_bytes(8, "big") for trace in traces)


def test_what_expired_leaves_a_trace_for_each_segment(tmp_path: Path) -> None:
    traces = asyncio.run(_traces_after(tmp_path, "collect", done=frozenset()))
    told = [(trace.attributes["c"], trace.attributes["i"]) for trace in traces]
    assert told == [(EXPIRED, 0), (EXPIRED, 2)]


def test_what_went_with_its_queue_says_so(tmp_path: Path) -> None:
    traces = asyncio.run(_traces_after(tmp_path, "drop", done=frozenset({0})))
    assert {trace.attributes["c"] for trace in traces} == {QUEUE_DELETED}


def test_of_a_dead_letter_the_trace_says_when_it_was_sent_first() -> None:
    item = _segment(3, 1, v=2, t=50, l=20)
    (trace,) = traces_of([_stored(f"B|{LANE}", bytes(19), item)], EXPIRED, NOW_S)
    assert (trace.attributes["t"], trace.attributes["s"]) == (50, 20)


def test_slots_of_a_log_leave_traces_under_the_first_slot_of_their_block() -> None:
    slots = [
        _stored(f"G|{LANE}", bytes(8), _segment(0, 3, b=41, t=7)),
        _stored(f"G|{LANE}", bytes(8), _segment(3, 1, b=41, t=9, j=1)),
        _stored(f"G|{LANE}", bytes(8), _segment(4, 0, b=41, k="p")),
        _stored(f"F|{LANE}", (41).to_bytes(8, "big"), {"v": 1, "d": frozenset(range(4)), "x": 1}),
    ]
    traces = [trace.attributes for trace in traces_of(slots, FINISHED, NOW_S)]
    block = (41).to_bytes(8, "big")
    found = [(one["b"], one.get("i"), one.get("n"), one.get("j")) for one in traces]
    assert found == [(block, 0, 3, None), (block, 3, 1, 1), (block, None, None, None)]


@pytest.mark.parametrize("cause", [FINISHED, QUEUE_DELETED])
def test_messages_of_two_minutes_have_traces_of_their_own(cause: str) -> None:
    """The ledger of sends counts by minutes, and an audit compares the two."""
    border_us = 28_000_000 * 60_000_000
    removed = [
        *(
            _stored(f"B|{LANE}", bytes(19), _segment(first, 2, t=border_us + first - 4))
            for first in (0, 2, 4, 6)
        ),
        _stored(f"S|{LANE}", BLOCK, {"v": 1, "d": frozenset(range(8))}),
    ]
    traces = [trace.attributes for trace in traces_of(removed, cause, NOW_S)]
    told = [(one["i"], one["n"], one["t"]) for one in traces if one["k"] == "s"]
    assert told == [(0, 4, border_us - 4), (4, 4, border_us)]


def test_segments_with_messages_that_are_not_done_stay_apart() -> None:
    removed = [
        *(_stored(f"B|{LANE}", bytes(19), _segment(first, 2, t=first)) for first in (0, 2, 4, 6)),
        _stored(f"S|{LANE}", BLOCK, {"v": 1, "d": frozenset(range(8)) - {5}}),
    ]
    traces = [trace.attributes for trace in traces_of(removed, EXPIRED, NOW_S)]
    assert [(one["i"], one["n"]) for one in traces if one["k"] == "s"] == [(0, 4), (4, 2), (6, 2)]


@pytest.mark.parametrize("item", [{"n": "many"}, {"d": "all"}, [1, 2]])
def test_what_cannot_be_read_is_named(item: object) -> None:
    removed = [(f"B|{LANE}".encode() + b"\0where", msgspec.msgpack.encode(item))]
    (trace,) = traces_of(removed, EXPIRED, NOW_S)
    assert (trace.attributes["k"], trace.attributes["b"]) == ("u", b"where")


def test_what_was_purged_shares_traces_by_the_minute() -> None:
    """Whatever was done with it: so a purge of many small messages leaves little behind."""
    removed = [
        (
            f"B|{LANE}".encode() + b"\0" + bytes((at,)),
            encode_item({"k": "s", "b": bytes(10), "i": at, "n": 1, "y": 5, "t": stamp_us}),
        )
        for at, stamp_us in enumerate((59_000_000, 59_500_000, 60_000_000, 60_500_000))
    ]
    found = [trace.attributes for trace in traces_of(removed, PURGED, 7)]
    assert [(one["c"], one["i"], one["n"], one["y"]) for one in found] == [
        ("p", 0, 2, 10),
        ("p", 2, 2, 10),
    ]
    assert len(list(traces_of(removed, FINISHED, 7))) == 4
