import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from control_plane.last_known import FRESH_US_MAX, PATIENCE_US
from control_plane.metadata_cache import cached_cell
from control_plane.metadata_cache.cached_cell import (
    AHEAD_US_MAX,
    ENTRY_TTL_S,
    MARK_TTL_S,
    SERVES_US,
    CachedCell,
)
from control_plane.metadata_cache.nodes import Held
from data_plane.ports import Attributes, CellUnavailableError, Equals, Key, Update
from tests.unit.control_plane.metadata_cache.cache_in_memory import Ground
from tests.unit.repeatable import HandClock

KEY = Key("Q|111122223333|eu-west-1", b"jobs")
OTHER = Key("A|", b"111122223333")
OLD: Attributes = {"w": b"old"}
NEW: Attributes = {"w": b"new"}


@pytest.fixture(params=["sharded", "whole-copy"])
def ground(request: pytest.FixtureRequest) -> Ground:
    made = Ground(whole_copy=request.param == "whole-copy")
    asyncio.run(made.cell.put(KEY, OLD))
    return made


def recent(front_end: CachedCell, *keys: Key) -> list[Attributes | None]:
    items = asyncio.run(front_end.recent(keys or (KEY,))).items
    return [items.get(key) for key in keys or (KEY,)]


def interlude(ground: Ground, call: Coroutine[Any, Any, object]) -> None:
    """Let this happen while the next read of the cell is under way."""

    async def meanwhile() -> None:
        await call

    ground.cell.meanwhile = meanwhile


def test_what_one_front_end_has_read_the_others_need_not_read(ground: Ground) -> None:
    assert [recent(ground.front_end()) for _ in range(9)] == [[OLD]] * 9
    assert ground.cell.reads == 1
    assert ground.total("hits") == 8


def test_an_answer_is_as_old_as_the_read_it_comes_from(ground: Ground) -> None:
    asked_us = ground.clock.now_us()
    recent(ground.front_end())
    ground.clock.advance(2)
    asyncio.run(ground.cell.put(OTHER, NEW))
    both = asyncio.run(ground.front_end().recent([KEY, OTHER]))
    assert both.asked_us == asked_us, "the oldest counts"
    assert both.items == {KEY: OLD, OTHER: NEW}
    assert asyncio.run(ground.front_end().recent([OTHER])).asked_us == asked_us + 2_000_000


def test_after_three_seconds_the_cell_is_asked(ground: Ground) -> None:
    recent(ground.front_end())
    asyncio.run(ground.cell.put(KEY, NEW))
    ground.clock.time_us += SERVES_US - 1
    assert recent(ground.front_end()) == [OLD]
    ground.clock.time_us += 1
    assert recent(ground.front_end()) == [NEW]
    assert ground.total("outdated") == 1
    assert recent(ground.front_end()) == [NEW]
    assert ground.cell.reads == 2


def test_no_answer_of_a_front_end_gets_older_than_five_seconds() -> None:
    assert SERVES_US + cached_cell.SPREAD_US + PATIENCE_US < FRESH_US_MAX
    for seed in range(50):
        ground = Ground()
        ground.opened = seed
        after_us = ground.front_end().refresh_after_us
        assert SERVES_US <= after_us < SERVES_US + cached_cell.SPREAD_US
    assert len({ground.front_end().refresh_after_us for _ in range(9)}) == 9


def test_nodes_forget_soon_after_an_entry_serves_no_more(ground: Ground) -> None:
    front_end = ground.front_end()
    recent(front_end)
    asyncio.run(front_end.put(KEY, NEW))
    ttls_s = {ttl_s for node in ground.nodes for ttl_s in node.ttls_s}
    assert ttls_s == {ENTRY_TTL_S, MARK_TTL_S}
    assert SERVES_US < ENTRY_TTL_S * 1_000_000 < FRESH_US_MAX


def test_what_is_absent_is_looked_up_every_time(ground: Ground) -> None:
    assert [recent(ground.front_end(), OTHER) for _ in range(3)] == [[None]] * 3
    assert ground.cell.reads == 3
    asyncio.run(ground.cell.put(OTHER, NEW))
    assert recent(ground.front_end(), OTHER) == [NEW]


def test_what_expires_by_itself_is_not_cached(ground: Ground) -> None:
    asyncio.run(ground.cell.put(KEY, {"x": 2_000_000_000}))
    recent(ground.front_end())
    asyncio.run(ground.cell.put(KEY, NEW))
    assert recent(ground.front_end()) == [NEW]


@pytest.mark.parametrize("write", ["put", "update", "delete"])
def test_a_change_shows_to_who_made_it_and_to_others(ground: Ground, write: str) -> None:
    writer, other = ground.front_end(), ground.front_end()
    recent(other)
    call: Coroutine[Any, Any, object] = {
        "put": lambda: writer.put(KEY, NEW),
        "update": lambda: writer.update(KEY, Update(assign={"w": b"new"})),
        "delete": lambda: writer.delete(KEY),
    }[write]()
    asyncio.run(call)
    expected = None if write == "delete" else NEW
    assert recent(writer) == [expected]
    assert recent(other) == [expected]


def test_a_change_shows_to_who_made_it_even_without_the_nodes(ground: Ground) -> None:
    writer = ground.front_end()
    recent(writer)
    for node in ground.nodes:
        node.is_away = True
    asyncio.run(writer.put(KEY, NEW))
    for node in ground.nodes:
        node.is_away = False
    assert recent(writer) == [NEW]
    assert recent(ground.front_end()) == [OLD], "for three seconds in all"
    ground.clock.advance(3)
    assert recent(ground.front_end()) == [NEW]


def test_a_write_that_failed_may_have_been_applied(ground: Ground) -> None:
    writer = ground.front_end()
    recent(writer)

    class Lossy(type(ground.cell)):  # type: ignore[misc]
        async def put(self, *args: Any) -> None:
            await super().put(*args)
            raise CellUnavailableError("the answer was lost")

    ground.cell.__class__ = Lossy
    with pytest.raises(CellUnavailableError):
        asyncio.run(writer.put(KEY, NEW))
    assert recent(writer) == [NEW]
    assert recent(ground.front_end()) == [NEW]


def test_a_read_that_began_before_a_change_does_not_bring_the_old_back(ground: Ground) -> None:
    writer, reader = ground.front_end(), ground.front_end()
    interlude(ground, writer.put(KEY, NEW))
    assert recent(reader) == [OLD]
    assert recent(ground.front_end()) == [NEW]


def test_nor_does_it_where_an_older_entry_was_seen_before(ground: Ground) -> None:
    writer, reader = ground.front_end(), ground.front_end()
    recent(reader)
    ground.clock.advance(3)
    interlude(ground, writer.put(KEY, NEW))
    assert recent(reader) == [OLD]
    assert recent(ground.front_end()) == [NEW]


def test_conditions_are_decided_by_the_cell_alone(ground: Ground) -> None:
    front_end = ground.front_end()
    recent(front_end)
    asyncio.run(ground.cell.put(KEY, NEW))
    written = asyncio.run(front_end.put(KEY, {"w": b"mine"}, ((Equals("w", b"old"),),)))
    assert not written.applied
    assert written.before == NEW
    assert asyncio.run(front_end.get(KEY)) == NEW
    assert asyncio.run(front_end.get_many([KEY])) == {KEY: NEW}
    queried = asyncio.run(front_end.query(KEY.partition, limit=5))
    assert [item.attributes for item in queried] == [NEW]


def test_without_nodes_everything_goes_on(ground: Ground) -> None:
    for node in ground.nodes:
        node.is_away = True
    front_end = ground.front_end()
    assert recent(front_end) == [OLD]
    asyncio.run(front_end.put(KEY, NEW))
    assert recent(front_end) == recent(ground.front_end()) == [NEW]


def test_nodes_that_forgot_everything_are_filled_again(ground: Ground) -> None:
    recent(ground.front_end())
    for node in ground.nodes:
        node.values.clear()
    assert [recent(ground.front_end()) for _ in range(5)][-1] == [OLD]
    assert ground.cell.reads == 2


def test_damaged_entries_are_read_from_the_cell_and_replaced(ground: Ground) -> None:
    recent(ground.front_end())
    for node in ground.nodes:
        damaged = {
            name: Held(held.value[:-1] + b"\0", held.version) for name, held in node.values.items()
        }
        node.values.update(damaged)
    assert recent(ground.front_end()) == [OLD]
    assert ground.total("damaged") == 1
    assert recent(ground.front_end()) == [OLD]
    assert ground.cell.reads == 2


def test_an_entry_put_in_the_place_of_another_is_damage(ground: Ground) -> None:
    asyncio.run(ground.cell.put(OTHER, NEW))
    recent(ground.front_end(), KEY, OTHER)
    key, other = ground.entries.name(KEY), ground.entries.name(OTHER)
    whole = {name: held for node in ground.nodes for name, held in node.values.items()}
    for node in ground.nodes:
        node.values = {key: whole[other], other: whole[key]}
    assert recent(ground.front_end(), KEY, OTHER) == [OLD, NEW]
    assert ground.total("damaged") == 2


def test_an_old_entry_that_somebody_puts_back_does_not_serve(ground: Ground) -> None:
    recent(ground.front_end())
    kept = [dict(node.values) for node in ground.nodes]
    asyncio.run(ground.front_end().put(KEY, NEW))
    ground.clock.advance(3)
    for node, values in zip(ground.nodes, kept, strict=True):
        node.values = dict(values)
    assert recent(ground.front_end()) == [NEW]


def test_another_registry_on_the_same_nodes_finds_nothing_of_this_one(ground: Ground) -> None:
    recent(ground.front_end())
    assert recent(ground.front_end(secret=bytes(32))) == [OLD]
    assert ground.cell.reads == 2


@pytest.mark.parametrize(("ahead_us", "reads"), [(AHEAD_US_MAX, 1), (AHEAD_US_MAX + 1, 2)])
def test_what_is_from_the_future_does_not_serve(ground: Ground, ahead_us: int, reads: int) -> None:
    ahead = HandClock()
    ahead.time_us += ahead_us
    recent(ground.front_end(ahead))
    answer = asyncio.run(ground.front_end().recent([KEY]))
    assert answer.items == {KEY: OLD}
    assert answer.asked_us <= ground.clock.now_us()
    assert ground.cell.reads == reads


def test_while_the_cell_is_away_entries_serve_as_long_as_ever(ground: Ground) -> None:
    recent(ground.front_end())
    ground.cell.is_away = True
    assert recent(ground.front_end()) == [OLD]
    ground.clock.advance(3)
    with pytest.raises(CellUnavailableError):
        recent(ground.front_end())


def test_a_write_that_took_long_counts_from_its_end(ground: Ground) -> None:
    writer = ground.front_end()
    recent(writer)

    class Slow(type(ground.cell)):  # type: ignore[misc]
        async def put(self, *args: Any) -> object:
            ground.clock.advance(11)
            recent_elsewhere = await ground.front_end().recent([KEY])
            assert recent_elsewhere.items == {KEY: OLD}
            return await super().put(*args)

    ground.cell.__class__ = Slow
    for node in ground.nodes:
        node.put = _lose  # type: ignore[method-assign]
    asyncio.run(writer.put(KEY, NEW))
    assert recent(writer) == [NEW]


async def _lose(name: str, value: bytes, ttl_s: int) -> None:
    raise CellUnavailableError(f"{name} {value!r} {ttl_s}")


def test_own_writes_are_remembered_within_bounds(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached_cell, "OWN_WRITES_MAX", 3)
    writer = ground.front_end()
    recent(writer)
    asyncio.run(writer.put(KEY, NEW))
    for number in range(9):
        asyncio.run(writer.put(Key("A|", b"%d" % number), NEW))
    assert len(writer._own_writes_us) == 3
    # The write of KEY is forgotten: so nothing is looked for in the cache until it is long past.
    for node in ground.nodes:
        node.asked = 0
    assert recent(writer) == [NEW]
    assert sum(node.asked for node in ground.nodes) == 0
    ground.clock.advance(10)
    assert recent(writer) == [NEW]
    assert sum(node.asked for node in ground.nodes) > 0
    asyncio.run(writer.put(KEY, NEW))
    assert len(writer._own_writes_us) == 1
