"""The embedded cell does what the memory cell does, in any sequence of calls."""

import asyncio
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.store import StoreSizes
from data_plane.memory.cell import MemoryCell
from data_plane.ports import (
    Absent,
    Append,
    Attributes,
    Condition,
    Equals,
    Item,
    Key,
    Lacks,
    LessThan,
    Tally,
    Update,
    Value,
)
from tests.conformance.cell_suite import ManualClock

T = TypeVar("T")

SIZES = StoreSizes(growth=1 << 20, reserve=1 << 18, batch=1 << 18)
PARTITIONS = ("a", "aa", "b")

partitions = st.sampled_from(PARTITIONS)
sorts = st.sampled_from([b"", b"\x00", b"\x00\x00", b"1", b"1\xff", b"\xff", b"\xff\xff"])
keys = st.builds(Key, partitions, sorts)
numbers = st.integers(-3, 3)
members = st.frozensets(st.integers(0, 4), min_size=1)
scalars = st.one_of(numbers, st.sampled_from([b"", b"\x00", b"\xff"]), st.sampled_from(["", "u"]))
attributes = st.fixed_dictionaries(
    {"v": st.just(1)}, optional={"n": numbers, "s": members, "w": scalars}
)
clauses = st.one_of(
    st.builds(Absent, st.sampled_from("vnsw")),
    st.builds(Equals, st.sampled_from("vnsw"), scalars),
    st.builds(LessThan, st.sampled_from("vnsw"), scalars),
    st.builds(Lacks, st.sampled_from("vnsw"), st.integers(0, 4)),
)
conditions = st.lists(st.lists(clauses, min_size=1, max_size=3).map(tuple), max_size=2).map(tuple)
changes = st.builds(
    Update,
    st.fixed_dictionaries({"v": st.just(1)}, optional={"w": scalars}),
    st.fixed_dictionaries({}, optional={"n": numbers, "s": members}),
    st.frozensets(st.just("q")),
)


def count(before: Attributes | None) -> list[Tally]:
    """Count items, and sum up `n` of what was replaced."""
    counter = Key("T", b"")
    if before is None:
        return [Tally(counter, 1)]
    present = before.get("n", 0)
    return [Tally(Key("T", b"n"), present if isinstance(present, int) else 0), Tally(counter, -1)]


class CellsAgree(RuleBasedStateMachine):
    """Every call goes to both cells and must have the same outcome."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.latest_us = self.clock.time_us
        self.loop = asyncio.new_event_loop()
        self.directory = tempfile.TemporaryDirectory()
        self.memory = MemoryCell(self.clock)
        self.embedded = self.open()

    def open(self) -> EmbeddedCell:
        return EmbeddedCell(Path(self.directory.name), self.clock, SIZES)

    def agree(self, ours: Coroutine[Any, Any, T], theirs: Coroutine[Any, Any, T]) -> None:
        assert self.loop.run_until_complete(ours) == self.loop.run_until_complete(theirs)

    @rule(key=keys, item=attributes, condition=conditions)
    def put(self, key: Key, item: dict[str, Value], condition: Condition) -> None:
        self.agree(
            self.embedded.put(key, item, condition, count),
            self.memory.put(key, item, condition, count),
        )

    @rule(key=keys, change=changes, condition=conditions)
    def update(self, key: Key, change: Update, condition: Condition) -> None:
        self.agree(
            self.embedded.update(key, change, condition, count),
            self.memory.update(key, change, condition, count),
        )

    @rule(key=keys, condition=conditions)
    def delete(self, key: Key, condition: Condition) -> None:
        self.agree(
            self.embedded.delete(key, condition, count),
            self.memory.delete(key, condition, count),
        )

    @rule(partition=partitions, suffix=sorts, delay_us=st.integers(0, 3))
    def append(self, partition: str, suffix: bytes, delay_us: int) -> None:
        def tallies(stamp_us: int) -> list[Tally]:
            return [Tally(Key("T", b"a"), stamp_us % 3)]

        record = Append(partition, suffix, {"v": 1}, 0, delay_us, tallies)
        self.agree(self.embedded.append(record), self.memory.append(record))

    @rule(wanted=st.lists(keys, max_size=5))
    def expire(self, wanted: list[Key]) -> None:
        async def expire_and_write() -> None:
            self.embedded.expire(wanted)
            await self.embedded.put(Key("U", b""), {"v": 1})

        self.loop.run_until_complete(expire_and_write())
        self.memory.expire(wanted)

    @rule(step_us=st.integers(-2, 4))
    def pass_time(self, step_us: int) -> None:
        self.clock.time_us += step_us
        self.latest_us = max(self.latest_us, self.clock.time_us)
        assert self.embedded.now_us() == self.memory.now_us()

    @rule()
    def reopen(self) -> None:
        self.loop.run_until_complete(self.embedded.close())
        self.embedded = self.open()
        # What only the old process knew of time is lost with it: the memory cell's is ahead. But
        # the store knows when it was written to last, though nobody had asked for the time.
        self.clock.time_us = max(self.latest_us, self.memory.now_us() + 1)
        self.latest_us = self.clock.time_us
        assert self.embedded.now_us() == self.memory.now_us() == self.clock.time_us

    @rule(
        partition=partitions,
        after=sorts,
        until=st.none() | sorts,
        limit=st.integers(1, 4),
        reverse=st.booleans(),
    )
    def query(
        self, partition: str, after: bytes, until: bytes | None, limit: int, *, reverse: bool
    ) -> None:
        ours, theirs = (
            cell.query(partition, after=after, until=until, limit=limit, reverse=reverse)
            for cell in (self.embedded, self.memory)
        )
        self.agree(ours, theirs)

    @rule(wanted=st.lists(keys, max_size=5))
    def get_many(self, wanted: list[Key]) -> None:
        self.agree(self.embedded.get_many(wanted), self.memory.get_many(wanted))

    @invariant()
    def same_items(self) -> None:
        stored: list[Item] = [i for i in self.memory.items() if i.key.partition in PARTITIONS]
        stored += [i for i in self.memory.items() if i.key.partition == "T"]
        for item in stored:
            assert self.loop.run_until_complete(self.embedded.get(item.key)) == item.attributes
        held = self.loop.run_until_complete(self.embedded.query("T", limit=9))
        assert held == [i for i in stored if i.key.partition == "T" and i.key.sort]

    def teardown(self) -> None:
        self.loop.run_until_complete(self.embedded.close())
        self.loop.close()
        self.directory.cleanup()


TestCellsAgree = CellsAgree.TestCase
TestCellsAgree.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
