"""What a purge made superfluous, item by item."""

import asyncio

import pytest

from data_plane.core.dropping import Superfluous
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, Key
from data_plane.stored.keys import be64, moved_block
from data_plane.stored.superfluous import Verdict, _first_kept, stripped, verdict
from tests.unit.repeatable import HandClock

PURGED_US = 1_000
BAG = Superfluous("B|0123456789abcdef|00|0", PURGED_US)
STATES = Superfluous("S|0123456789abcdef|00|0", PURGED_US)
LOG = Superfluous("G|0123456789abcdef|00|0", below=be64(50))
OWN = bytes(10)
MOVED = moved_block("0123456789abcdef", 0, 0, OWN)
LEASE = bytes(34)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"k": "s", "t": 1_000, "b": OWN, "z": b"z"}, Verdict.REMOVE),
        ({"k": "s", "t": 1_001, "b": OWN, "z": b"z"}, Verdict.KEEP),
        ({"k": "m", "t": 10, "b": OWN}, Verdict.KEEP),
        ({"k": "p", "t": 1_000}, Verdict.KEEP),
        ({"k": "s", "t": 10, "b": MOVED, "z": b"z", "e": 16, "q": b"q"}, Verdict.STRIP),
        ({"k": "s", "t": 10, "b": MOVED}, Verdict.KEEP),
    ],
)
def test_segments_go_by_their_stamps(item: Attributes, expected: Verdict) -> None:
    assert verdict(BAG, b"", item) is expected


@pytest.mark.parametrize(
    ("block", "state", "expected"),
    [
        (OWN, {"s0": be64(10), "s3": be64(1_000), "m0": LEASE}, Verdict.REMOVE),
        (OWN, {"s0": be64(10), "s3": be64(1_001), "d": frozenset({0})}, Verdict.KEEP),
        (OWN, {"d": frozenset({0})}, Verdict.KEEP),
        (MOVED, {"s0": be64(10)}, Verdict.KEEP),
        (OWN, {"s0": be64(10), "n0": 2, "d": frozenset({1})}, Verdict.REMOVE),
        (OWN, {"s0": be64(10), "n0": 2, "d": frozenset({2})}, Verdict.KEEP),
        (OWN, {"s0": be64(10), "n0": 2, "m2": LEASE}, Verdict.KEEP),
    ],
)
def test_a_state_goes_if_all_that_it_tells_of_was_purged(
    block: bytes, state: Attributes, expected: Verdict
) -> None:
    assert verdict(STATES, block, state) is expected


def test_slots_go_below_a_block_and_moved_ones_keep_their_place() -> None:
    assert verdict(LOG, be64(49), {"k": "s", "z": b"z"}) is Verdict.REMOVE
    assert verdict(LOG, be64(50), {"k": "s", "z": b"z"}) is Verdict.KEEP
    assert verdict(LOG, be64(49), {"k": "s", "z": b"z", "j": 1}) is Verdict.STRIP
    item: Attributes = {"k": "s", "n": 1, "y": 9, "u": b"u", "j": 1, "z": b"z", "e": 17, "q": b"q"}
    assert stripped(item) == {"k": "s", "n": 1, "y": 9, "u": b"u", "j": 1}


def test_the_block_of_the_purge_is_kept_and_so_is_the_end_of_the_log() -> None:
    cell = MemoryCell(HandClock())
    stamps = {1: (10, 1), 2: (20, 1), 3: (30, 3), 4: (40, 3), 5: (50, 5)}

    async def first_kept(until_us: int) -> int:
        for slot, (stamp_us, block) in stamps.items():
            await cell.put(Key(LOG.partition, be64(slot)), {"t": stamp_us, "b": block})
        return await _first_kept(cell, LOG.partition, until_us)

    expected = {5: 1, 20: 1, 21: 3, 40: 3, 41: 5, 50: 5, 99: 5}
    assert {until: asyncio.run(first_kept(until)) for until in expected} == expected
    empty = MemoryCell(HandClock())
    assert asyncio.run(_first_kept(empty, LOG.partition, 5)) == 0
