"""What every adapter of the Cell port must do.

A test module for an adapter derives a class from `CellSuite` and defines its fixture `opened`.
Where the port leaves something open, attributes of the class say how the adapter takes it.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import pairwise

import pytest

from data_plane.ports import (
    ITEM_ABSENT,
    Absent,
    Append,
    Appended,
    Attributes,
    Cell,
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
from tests.conformance.condition_cases import CONDITIONS, ITEM
from tests.conformance.on_driver import run_as, side_by_side

NOON_US = 1_700_000_000_000_000
STORE_CLOCK_MS_MAX = 60_000
KEY = Key("P|1", b"a")


class ManualClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.time_us = NOON_US

    def now_us(self) -> int:
        return self.time_us


Opened = Callable[[ManualClock], AbstractAsyncContextManager[Cell]]
Scenario = Callable[[Cell, ManualClock], Awaitable[None]]


def run(opened: Opened, scenario: Scenario) -> None:
    """Open a cell, play the scenario on it, close it."""

    async def play() -> None:
        clock = ManualClock()
        async with opened(clock) as cell:
            await scenario(cell, clock)

    run_as(opened, play())


def entry(partition: str, suffix: bytes = b"s", *, delay_us: int = 0, body: bytes = b"") -> Append:
    """An append of a small item."""
    return Append(partition, suffix, {"v": 1, "z": body}, NOON_US, delay_us)


async def fill(cell: Cell, partition: str, sorts: list[bytes], **attributes: Value) -> None:
    """Put items with these sort keys."""
    for sort in sorts:
        await cell.put(Key(partition, sort), {"v": 1, **attributes})


def sorts_of(page: list[Item]) -> list[bytes]:
    """The sort keys of a page."""
    return [item.key.sort for item in page]


def number(item: Attributes) -> int:
    """What a counter item says."""
    value = item["n"]
    assert isinstance(value, int)
    return value


class CellSuite:
    """The contract, as tests."""

    by_manual_clock = True
    """Whether the clock that `opened` is given is the store's clock, too."""

    value_sizes_bytes: tuple[int, ...] = (30_000, 400_000, 1_048_576, 2_097_152)
    """The last one is about the biggest that the cell takes."""

    items_in_a_page: tuple[int, ...] = (6,)
    """How many items of 200,000 bytes it may be after which a page of a query ends."""

    async def count(self, cell: Cell, counter: Key) -> int | None:
        """What a counter says when everything moved so far has arrived; None: it is absent."""
        item = await cell.get(counter)
        return None if item is None else number(item)

    @pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
    def test_conditions_decide_every_kind_of_write(
        self, opened: Opened, condition: Condition, *, expected: bool
    ) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            await cell.put(KEY, ITEM)
            changed = await cell.update(KEY, Update(assign={"w": 1}), condition)
            assert changed.applied is expected
            assert changed.before == ITEM
            after = {**ITEM, "w": 1} if expected else ITEM
            assert await cell.get(KEY) == after
            replaced = await cell.put(KEY, {"v": 2}, (*condition, (LessThan("v", 2),)))
            assert (replaced.applied, replaced.before) == (expected, after)
            await cell.put(KEY, ITEM)
            removed = await cell.delete(KEY, condition)
            assert (removed.applied, removed.before) == (expected, ITEM)
            assert await cell.get(KEY) == (None if expected else ITEM)

        run(opened, scenario)

    def test_values_of_different_types_have_no_order(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            await cell.put(KEY, ITEM)
            for clause in (LessThan("n", "6"), LessThan("t", b"u"), LessThan("s", 9)):
                assert not (await cell.update(KEY, Update({"w": 1}), ((clause,),))).applied

        run(opened, scenario)

    def test_conditions_on_an_absent_item(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            refusing: list[Condition] = [((Equals("n", 1),),), ((LessThan("n", 1),),)]
            for condition in refusing:
                for written in (
                    await cell.put(KEY, {"v": 1}, condition),
                    await cell.update(KEY, Update(assign={"v": 1}), condition),
                    await cell.delete(KEY, condition),
                ):
                    assert (written.applied, written.before) == (False, None)
            assert await cell.get(KEY) is None
            assert (await cell.put(KEY, {"v": 1}, ((Lacks("d", 1),),))).applied
            await cell.delete(KEY)
            first = await cell.put(KEY, {"v": 1, "n": 1}, ITEM_ABSENT)
            second = await cell.put(KEY, {"v": 1, "n": 2}, ITEM_ABSENT)
            assert (first.applied, first.before) == (True, None)
            assert (second.applied, second.before) == (False, {"v": 1, "n": 1})

        run(opened, scenario)

    def test_put_replaces_the_whole_item_and_answers_the_stores_time(self, opened: Opened) -> None:
        async def scenario(cell: Cell, clock: ManualClock) -> None:
            clock.time_us = NOON_US + 5_000_999
            await cell.put(KEY, ITEM)
            written = await cell.put(KEY, {"v": 2})
            assert written.before == ITEM
            if self.by_manual_clock:
                assert written.time_ms == (NOON_US + 5_000_999) // 1000
            else:
                assert_near_the_machines(written.time_ms)
            assert await cell.get(KEY) == {"v": 2}

        run(opened, scenario)

    @pytest.mark.parametrize(
        ("before", "change", "after"),
        [
            (None, Update(assign={"v": 1, "b": b"x"}), {"v": 1, "b": b"x"}),
            (None, Update({"v": 1}, {"n": 3, "s": frozenset({7})}), {"v": 1, "n": 3, "s": {7}}),
            (None, Update({"v": 1}, remove=frozenset({"q"})), {"v": 1}),
            (ITEM, Update(assign={"n": 9, "t": "new"}), {**ITEM, "n": 9, "t": "new"}),
            (ITEM, Update(add={"n": 3}), {**ITEM, "n": 8}),
            (ITEM, Update(add={"n": -9}), {**ITEM, "n": -4}),
            (ITEM, Update(add={"s": frozenset({2, 127})}), {**ITEM, "s": {1, 2, 127}}),
            (ITEM, Update(remove=frozenset({"n", "b", "t", "q"})), {"v": 1, "s": {1, 2}}),
            (
                ITEM,
                Update({"w": 2**62}, {"s": frozenset({0})}, frozenset({"t", "b"})),
                {"v": 1, "n": 5, "s": {0, 1, 2}, "w": 2**62},
            ),
        ],
    )
    def test_update_changes_single_attributes(
        self,
        opened: Opened,
        before: Attributes | None,
        change: Update,
        after: Mapping[str, object],
    ) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            if before is not None:
                await cell.put(KEY, before)
            written = await cell.update(KEY, change)
            assert (written.applied, written.before) == (True, before)
            assert await cell.get(KEY) == after

        run(opened, scenario)

    def test_delete_of_an_absent_item_is_applied(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            written = await cell.delete(KEY)
            assert (written.applied, written.before) == (True, None)
            await cell.put(KEY, {"v": 1})
            written = await cell.delete(KEY)
            assert (written.applied, written.before) == (True, {"v": 1})
            assert await cell.query(KEY.partition, limit=9) == []

        run(opened, scenario)

    def test_appends_are_ordered_and_stored_under_their_stamp(self, opened: Opened) -> None:
        async def scenario(cell: Cell, clock: ManualClock) -> None:
            appended = []
            for number, step_us in enumerate((0, 0, 1_000_000, -5_000_000, 0, 7)):
                clock.time_us += step_us
                # The suffix keeps a cell that chooses no stamps from storing two under one key.
                suffix = b"s" if cell.chooses_stamps else b"%d" % number
                proposed = Append("Q", suffix, {"v": 1, "z": b"%d" % step_us}, clock.time_us)
                appended.append(await cell.append(proposed))
                assert cell.chooses_stamps or appended[-1].stamp_us == clock.time_us
            check_appended(cell, appended)
            page = await cell.query("Q", limit=100)
            assert [item.key for item in page] == sorted(answer.key for answer in appended)
            stamps = {item.key: item.attributes["t"] for item in page}
            assert stamps == {answer.key: answer.stamp_us for answer in appended}

        run(opened, scenario)

    def test_concurrent_appends_have_keys_of_their_own(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            suffixes = [b"%03d" % number for number in range(100)]
            appended = await side_by_side(opened, [cell.append(entry("Q", s)) for s in suffixes])
            check_appended(cell, appended, *suffixes)
            assert len(await cell.query("Q", limit=1000)) == 100

        run(opened, scenario)

    def test_delay_moves_the_key_and_not_the_stamp(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            late = await cell.append(entry("Q", b"late", delay_us=900_000_000))
            soon = await cell.append(entry("Q", b"soon"))
            assert late.key.sort == (late.stamp_us + 900_000_000).to_bytes(8, "big") + b"late"
            assert [item.key for item in await cell.query("Q", limit=9)] == [soon.key, late.key]
            assert await cell.get(late.key) == {"v": 1, "z": b"", "t": late.stamp_us}

        run(opened, scenario)

    def test_suffix_orders_what_becomes_visible_at_once(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            first = await cell.append(entry("Q", b"b", delay_us=1_000_000))
            second = await cell.append(entry("Q", b"a"))
            shift_us = first.stamp_us + 1_000_000 - second.stamp_us
            await cell.put(Key("Q", (second.stamp_us + shift_us).to_bytes(8, "big") + b"a"), ITEM)
            page = await cell.query("Q", after=second.key.sort, limit=9)
            assert [sort[8:] for sort in sorts_of(page)] == [b"a", b"b"]

        run(opened, scenario)

    def test_the_present_bounds_stamps(self, opened: Opened) -> None:
        async def scenario(cell: Cell, clock: ManualClock) -> None:
            if self.by_manual_clock:
                assert cell.now_us() == NOON_US
            appended = await cell.append(entry("Q"))
            assert cell.now_us() >= appended.stamp_us
            if self.by_manual_clock:
                clock.time_us = NOON_US + 10
                assert cell.now_us() == max(NOON_US + 10, appended.stamp_us)
            else:
                assert_near_the_machines(cell.now_us() // 1000)
            assert cell.settled_us() <= cell.now_us()

        run(opened, scenario)

    def test_query_bounds_limit_and_direction(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            await fill(cell, "Q", [b"a", b"b", b"c", b"d", b"e"])
            query = cell.query
            assert sorts_of(await query("Q", limit=9)) == [b"a", b"b", b"c", b"d", b"e"]
            assert sorts_of(await query("Q", limit=2)) == [b"a", b"b"]
            assert sorts_of(await query("Q", after=b"b", limit=2)) == [b"c", b"d"]
            assert sorts_of(await query("Q", after=b"b", until=b"d", limit=9)) == [b"c", b"d"]
            assert sorts_of(await query("Q", after=b"bb", until=b"dd", limit=9)) == [b"c", b"d"]
            assert sorts_of(await query("Q", until=b"a", limit=9)) == [b"a"]
            assert await query("Q", after=b"c", until=b"c", limit=9) == []
            assert await query("Q", after=b"d", until=b"b", limit=9) == []
            assert await query("Q", after=b"e", limit=9) == []
            assert await query("Q", until=b"A", limit=9) == []
            assert await query("none", limit=9) == []

        run(opened, scenario)

    def test_reverse_query(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            await fill(cell, "Q", [b"a", b"b", b"c", b"d", b"e"])
            await fill(cell, "Q2", [b"a"])

            async def back(
                after: bytes = b"", until: bytes | None = None, limit: int = 9
            ) -> list[bytes]:
                page = await cell.query("Q", after=after, until=until, limit=limit, reverse=True)
                return sorts_of(page)

            assert await back() == [b"e", b"d", b"c", b"b", b"a"]
            assert await back(limit=2) == [b"e", b"d"]
            assert await back(until=b"c") == [b"c", b"b", b"a"]
            assert await back(until=b"cc", limit=1) == [b"c"]
            assert await back(after=b"b", until=b"z") == [b"e", b"d", b"c"]
            assert await back(after=b"c", until=b"c") == []
            assert await back(until=b"A") == []
            assert await cell.query("P", limit=9, reverse=True) == []
            assert sorts_of(await cell.query("Q2", limit=9, reverse=True)) == [b"a"]

        run(opened, scenario)

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_page_ends_by_the_item_past_1_mib(self, opened: Opened, *, reverse: bool) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            sorts = [b"%02d" % number for number in range(10)]
            await fill(cell, "Q", sorts, z=b"x" * 200_000)
            expected = sorts[::-1] if reverse else sorts
            page = sorts_of(await cell.query("Q", limit=10, reverse=reverse))
            assert len(page) in self.items_in_a_page
            assert page == expected[: len(page)]
            if not reverse:
                rest = sorts_of(await cell.query("Q", after=page[-1], limit=10))
                assert rest == sorts[len(page) :][: len(rest)]
                assert len(page) + len(rest) == len(sorts) or len(rest) in self.items_in_a_page

        run(opened, scenario)

    def test_get_many_leaves_out_what_is_absent(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            await fill(cell, "Q", [b"a", b"b"])
            keys = [Key("Q", b"a"), Key("Q", b"x"), Key("R", b"a"), Key("Q", b"b")]
            found = {"v": 1}
            assert await cell.get_many(keys) == {keys[0]: found, keys[3]: found}
            assert await cell.get_many([]) == {}
            assert await cell.get(Key("Q", b"x")) is None

        run(opened, scenario)

    def test_expired_items_go_together_or_stay(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            sorts = [b"%02d" % number for number in range(20)]
            await fill(cell, "Q", sorts)
            cell.expire([Key("Q", sort) for sort in sorts[:15]] + [Key("Q", b"absent")])
            await cell.put(KEY, {"v": 1})
            assert sorts_of(await cell.query("Q", limit=99)) in (sorts[15:], sorts)

        run(opened, scenario)

    def test_tallies_move_counters_with_applied_writes_only(self, opened: Opened) -> None:
        counter, other = Key("T", b"a"), Key("T", b"b")

        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            def one_more(before: Attributes | None) -> list[Tally]:
                return [Tally(counter, 1 if before is None else 10), Tally(other, -1)]

            await cell.put(KEY, {"v": 1}, ITEM_ABSENT, one_more)
            await cell.put(KEY, {"v": 1}, ITEM_ABSENT, one_more)
            assert await self.count(cell, counter) == 1
            await cell.update(KEY, Update(assign={"w": 1}), tallies=one_more)
            await cell.delete(KEY, ITEM_ABSENT, one_more)
            await cell.delete(KEY, tallies=one_more)
            await cell.delete(KEY, tallies=one_more)
            assert await self.count(cell, counter) == 22
            assert await self.count(cell, other) == -4
            zero = [Tally(counter, -20), Tally(counter, -2), Tally(other, 4)]
            appended = await cell.append(
                Append("Q", b"s", {"v": 1}, NOON_US, 0, lambda _stamp: zero)
            )
            assert await self.count(cell, counter) in (None, 0)
            assert await self.count(cell, other) in (None, 0)
            stamped = Append("Q", b"t", {"v": 1}, NOON_US, 0, lambda us: [Tally(other, us)])
            appended = await cell.append(stamped)
            assert await self.count(cell, other) == appended.stamp_us

        run(opened, scenario)

    def test_a_counter_has_sums_of_several_names(self, opened: Opened) -> None:
        counter = Key("T", b"a")

        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            async def move(count: int, size: int) -> None:
                moved = [Tally(counter, count), Tally(counter, size, "y")]
                await cell.put(KEY, {"v": 1, "w": size}, tallies=lambda _before: moved)

            await move(2, 300)
            await move(1, 70_000)
            (item,) = await cell.query("T", limit=9)
            assert (item.attributes["n"], item.attributes["y"]) == (3, 70_300)
            await move(0, -300)
            (item,) = await cell.query("T", limit=9)
            assert (item.attributes["n"], item.attributes["y"]) == (3, 70_000)

        run(opened, scenario)

    def test_keys_and_values_are_binary_safe(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            sorts = [b"\x00", b"\x00\x00", b"\x00\xff", b"\x01", b"a", b"\xff", b"\xff\x00"]
            sorts += [b"\xff\xff", b"\xff" * 40]
            for partition in ("P", "P|1", "P|10", "Q\u00e9\u20ac\U0001f30a"):
                for sort in sorts:
                    await cell.put(Key(partition, sort), {"v": 1, "z": sort, "p": partition})
            for partition in ("P", "P|1", "P|10", "Q\u00e9\u20ac\U0001f30a"):
                page = await cell.query(partition, limit=99)
                assert sorts_of(page) == sorts
                assert all(i.attributes["z"] == i.key.sort for i in page)
                assert all(i.attributes["p"] == partition for i in page)
                assert sorts_of(await cell.query(partition, limit=99, reverse=True)) == sorts[::-1]
            every = bytes(range(256))
            text = "\x00 \u00e9 \U0001f30a"
            item: Attributes = {"v": 1, "z": every, "e": b"", "t": text, "i": -(2**63)}
            await cell.put(KEY, item)
            assert await cell.get(KEY) == item

        run(opened, scenario)

    def test_an_empty_sort_key_is_a_key_like_others(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            await fill(cell, "Q", [b"", b"\x00"])
            assert await cell.get(Key("Q", b"")) == {"v": 1}
            assert sorts_of(await cell.query("Q", limit=9)) == [b"\x00"]
            assert (await cell.delete(Key("Q", b""))).before == {"v": 1}
            assert await cell.get(Key("Q", b"")) is None

        run(opened, scenario)

    def test_partitions_whose_names_begin_alike_are_apart(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            names = ["a", "aa", "aaa", "a|", "a|b", "ab", "b"]
            for name in names:
                await fill(cell, name, [b"1", b"\xff"], p=name)
            for name in names:
                for reverse in (False, True):
                    page = await cell.query(name, limit=99, reverse=reverse)
                    assert [item.attributes["p"] for item in page] == [name, name]
            for sort in (b"1", b"\xff"):
                await cell.delete(Key("aa", sort))
            assert await cell.query("aa", limit=9) == []
            assert len(await cell.query("aaa", limit=9)) == 2

        run(opened, scenario)

    def test_big_values(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            for size_bytes in self.value_sizes_bytes:
                body = bytes(range(256)) * (size_bytes // 256)
                appended = await cell.append(entry("Q", body=body))
                assert await cell.get(appended.key) == {"v": 1, "z": body, "t": appended.stamp_us}
                assert (await cell.query("Q", limit=2))[0].attributes["z"] == body
                await cell.update(appended.key, Update(add={"d": frozenset({1})}))
                await cell.delete(appended.key)
                assert await cell.get(appended.key) is None

        run(opened, scenario)

    def test_of_concurrent_conditional_updates_one_wins(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            await cell.put(KEY, {"v": 1})
            free: Condition = ((Absent("owner"),),)
            written = await side_by_side(
                opened,
                [cell.update(KEY, Update(assign={"owner": n}), free) for n in range(100)],
            )
            winners = [n for n, answer in enumerate(written) if answer.applied]
            assert len(winners) == 1
            assert await cell.get(KEY) == {"v": 1, "owner": winners[0]}
            losers = [answer.before for answer in written if not answer.applied]
            assert losers == [{"v": 1, "owner": winners[0]}] * 99

        run(opened, scenario)

    def test_concurrent_additions_all_count(self, opened: Opened) -> None:
        async def scenario(cell: Cell, _clock: ManualClock) -> None:
            changes = [Update(add={"n": 1, "d": frozenset({n})}) for n in range(100)]
            await side_by_side(opened, [cell.update(KEY, change) for change in changes])
            assert await cell.get(KEY) == {"n": 100, "d": frozenset(range(100))}

        run(opened, scenario)


def check_appended(cell: Cell, appended: list[Appended], *suffixes: bytes) -> None:
    """Keys are distinct and end in their suffixes; stamps follow the order of the calls."""
    assert len({answer.key for answer in appended}) == len(appended)
    for answer, suffix in zip(appended, suffixes, strict=False):
        assert answer.key.sort == answer.stamp_us.to_bytes(8, "big") + suffix
    if cell.chooses_stamps:
        assert all(before.stamp_us < after.stamp_us for before, after in pairwise(appended))


def assert_near_the_machines(time_ms: int) -> None:
    """The store keeps time of its own, and runs on this machine or on one whose clock is right."""
    assert abs(time_ms - time.time() * 1000) < STORE_CLOCK_MS_MAX
