"""The DynamoDB cell against the contract of cells, on moto in this process."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from data_plane.core.dropping import Dropped, Superfluous
from data_plane.core.limits import DELAY_S_MAX
from data_plane.dynamodb.cell import COUNTER_TTL_S, DynamoCell
from data_plane.dynamodb.requests import ItemTooBigError
from data_plane.ports import Attributes, CellUnavailableError, Key, Tally, Update
from tests.conformance.cell_suite import KEY, ManualClock, Opened, fill, run, sorts_of
from tests.conformance.dynamodb_suite import (
    DynamoCellOnTheBlockingDriver,
    DynamoCellSuite,
    on_a_table_of_its_own,
)


@pytest.fixture(scope="module")
def client(dynamodb: Any) -> Any:
    return dynamodb


class TestDynamoCell(DynamoCellSuite):
    def test_values_of_different_types_have_no_order(self, opened: Opened) -> None:
        del opened
        pytest.skip("moto fails to compare values of different types; other engines are asked")


class TestDynamoCellOnTheBlockingDriver(DynamoCellOnTheBlockingDriver):
    takes_one_call_at_a_time = True

    def test_values_of_different_types_have_no_order(self, opened: Opened) -> None:
        del opened
        pytest.skip("moto fails to compare values of different types; other engines are asked")


def play(client: Any, scenario: Callable[[DynamoCell], Awaitable[None]]) -> None:
    async def on_a_cell(cell: Any, _clock: ManualClock) -> None:
        await scenario(cell)

    run(lambda clock: on_a_table_of_its_own(client, clock), on_a_cell)


def test_what_a_purge_made_superfluous_goes_in_batches_and_nothing_else(client: Any) -> None:
    """In steps of 100 items: a query, and a request for 25 of what goes."""
    purged_us, lane = 1_000_000, "B|0011223344556677|00|0"

    async def drop_all(cell: DynamoCell, part: Superfluous) -> int:
        step, items = await cell.drop_superfluous(part, b""), 0
        while step.position:
            items += step.items
            step = await cell.drop_superfluous(part, step.position)
        return items + step.items

    async def scenario(cell: DynamoCell) -> None:
        async def put(sort_us: int, stamp_us: int, suffix: bytes = bytes(11), **its: Any) -> None:
            attributes = {"v": 1, "k": "s", "t": stamp_us, "b": bytes(10), "z": b"body", **its}
            await cell.put(Key(lane, sort_us.to_bytes(8, "big") + suffix), attributes)

        delayed_us = DELAY_S_MAX * 1_000_000
        for number in range(130):
            await put(number, number)
        await put(purged_us + delayed_us, purged_us)  # as delayed as can be
        await put(7, 7, b"marker", k="m")
        await put(8, 8, b"moved", b=b"\xff" * 10)
        await put(500_000, purged_us + 1, b"late")  # after the purge, under an early key
        await put(purged_us + 1, purged_us + 1)
        await put(purged_us + delayed_us + 2, 1, b"beyond")  # left to its time to live
        before = cell.counters.requests.copy()
        assert await drop_all(cell, Superfluous(lane, purged_us)) == 131
        asked = cell.counters.requests - before
        assert asked == {"query": 3, "batch_write_item": 6}
        kept = [item.key.sort[8:] for item in await cell.query(lane, limit=99)]
        assert sorted(kept) == sorted([bytes(11), b"marker", b"moved", b"late", b"beyond"])
        assert await drop_all(cell, Superfluous(lane, purged_us)) == 0

        states = "S|0011223344556677|00|0"
        await cell.put(Key(states, bytes(10)), {"v": 1, "s0": bytes(8)})
        assert await cell.drop_superfluous(Superfluous(states, purged_us), b"") == Dropped(b"")
        assert len(await cell.query(states, limit=9)) == 1

        slots = "G|0011223344556677|00|0"
        for number in range(5):
            moved = {"j": 1} if number == 1 else {}
            key = Key(slots, number.to_bytes(8, "big"))
            await cell.put(key, {"v": 1, "k": "s", "t": 1, "z": b"body", **moved})
        below = Superfluous(slots, below=(3).to_bytes(8, "big"))
        assert await drop_all(cell, below) == 2
        assert [key[7] for key in sorts_of(await cell.query(slots, limit=9))] == [1, 3, 4]

    play(client, scenario)


def test_drop_removes_a_partition_step_by_step(client: Any) -> None:
    async def scenario(cell: DynamoCell) -> None:
        sorts = [b"", *(b"%02d" % number for number in range(59))]
        await fill(cell, "Q", sorts)
        await fill(cell, "Q2", [b"a"])
        assert await cell.drop("Q", 40) == 40
        assert sorts_of(await cell.query("Q", limit=99)) == sorts[40:]
        assert await cell.drop("Q", 40) == 20
        assert await cell.drop("Q", 40) == 0
        assert len(await cell.query("Q2", limit=9)) == 1
        # 2 and 1 batches of 25 and less, and no request for each item.
        assert cell.counters.requests["batch_write_item"] == 3

    play(client, scenario)


def test_counters_are_summed_up_before_they_are_written(client: Any) -> None:
    counter, other = Key("T", b"a"), Key("T", b"b")

    async def scenario(cell: DynamoCell) -> None:
        def moved(before: Attributes | None) -> list[Tally]:
            amount = 5 if before is None else -2
            return [Tally(counter, amount), Tally(other, 1 if before is None else -1)]

        for _ in range(2):
            await cell.put(KEY, {"v": 1}, tallies=moved)
        writes = cell.counters.requests["update_item"]
        first_s = cell.now_us() // 1_000_000
        await cell.flush()
        await cell.flush()
        assert cell.counters.requests["update_item"] == writes + 1, (
            "what sums up to 0 costs nothing"
        )
        item = await cell.get(counter)
        assert item is not None
        assert item["n"] == 3
        expires_s = item["x"]
        assert isinstance(expires_s, int)
        assert first_s <= expires_s - COUNTER_TTL_S <= cell.now_us() // 1_000_000
        assert await cell.get(other) is None

    play(client, scenario)


def test_what_comes_and_goes_between_two_writes_of_counters_costs_nothing(client: Any) -> None:
    counter = Key("T", b"a")

    def moved(sign: int, _before: object) -> list[Tally]:
        return [Tally(counter, sign), Tally(counter, sign * 70_000, "y")]

    async def scenario(cell: DynamoCell) -> None:
        for sign in (1, -1):
            await cell.put(KEY, {"v": 1}, tallies=partial(moved, sign))
        requests = cell.counters.requests.total()
        await cell.flush()
        assert cell.counters.requests.total() == requests
        # One small message went that was counted before, and a big one came.
        await cell.put(KEY, {"v": 1}, tallies=lambda _before: [Tally(counter, 69_000, "y")])
        await cell.flush()
        assert (await cell.get(counter) or {})["y"] == 69_000

    play(client, scenario)


def test_whoever_asks_for_counters_sees_what_was_moved(client: Any) -> None:
    counter, other = Key("T", b"a"), Key("U", b"a")

    async def scenario(cell: DynamoCell) -> None:
        moved = [Tally(counter, 2), Tally(other, 1)]
        await cell.put(KEY, {"v": 1}, tallies=lambda _before: moved)
        (item,) = await cell.query("T", limit=9)
        assert item.attributes["n"] == 2
        assert await cell.get(other) is None
        writes = cell.counters.requests["update_item"]
        await cell.query("T", limit=9)
        assert cell.counters.requests["update_item"] == writes

    play(client, scenario)


def test_counters_that_could_not_be_written_are_kept(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters = [Key("T", b"%d" % number) for number in range(3)]

    async def scenario(cell: DynamoCell) -> None:
        await cell.put(KEY, {"v": 1}, tallies=lambda _before: [Tally(key, 1) for key in counters])
        update = cell.update
        calls = 0

        async def fail_second(key: Key, change: Update) -> object:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise CellUnavailableError("down")
            return await update(key, change)

        monkeypatch.setattr(cell, "update", fail_second)
        with pytest.raises(CellUnavailableError):
            await cell.flush()
        await cell.flush()
        for key in counters:
            item = await cell.get(key)
            assert item is not None
            assert item["n"] == 1

    play(client, scenario)


def test_items_that_nobody_needs_cost_no_request(client: Any) -> None:
    async def scenario(cell: DynamoCell) -> None:
        await cell.put(KEY, {"v": 1})
        requests = cell.counters.requests.total()
        cell.expire([KEY])
        assert await cell.get_many([]) == {}
        assert await cell.query("P", after=b"b", until=b"b", limit=1) == []
        assert cell.counters.requests.total() == requests
        assert await cell.get(KEY) == {"v": 1}

    play(client, scenario)


def test_an_item_that_dynamodb_does_not_take(client: Any) -> None:
    async def scenario(cell: DynamoCell) -> None:
        with pytest.raises(ItemTooBigError, match="maximum allowed size"):
            await cell.put(KEY, {"v": 1, "z": bytes(410_000)})
        await cell.put(KEY, {"v": 1, "z": bytes(390_000)})
        with pytest.raises(ItemTooBigError, match="maximum allowed size"):
            await cell.update(KEY, Update({"y": bytes(20_000)}))
        assert (await cell.get(KEY) or {}).keys() == {"v", "z"}

    play(client, scenario)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_query_without_a_limit_is_a_mistake(client: Any, limit: int) -> None:
    async def scenario(cell: DynamoCell) -> None:
        with pytest.raises(ValueError, match="at least one item"):
            await cell.query("Q", limit=limit)
        with pytest.raises(ValueError, match="at most 100 items"):
            await cell.get_many([KEY] * 101)

    play(client, scenario)
