"""What a shard has is known from two of its slots, however many there are."""

from collections.abc import Sequence
from typing import Any

import pytest

from data_plane.core.record import OutgoingRecord
from data_plane.ports import CellUnavailableError, Item, Key, Update
from data_plane.stored import keys
from data_plane.streams.measuring import Measured
from tests.unit.data_plane.streams.conftest import DAY_S, Bench

HOUR_S = 3_600


def _put(bench: Bench, *sizes_bytes: int) -> None:
    """Records of these sizes, each in a slot of its own, and each by another front end."""
    for size_bytes in sizes_bytes:
        record = OutgoingRecord("", b"d" * size_bytes)
        bench.run(bench.put_records([record], streams=bench.front_end()))


def _measure(bench: Bench, known: Measured | None = None) -> int:
    measured = known or Measured()
    bench.run(bench.streams.measure(bench.stream, {bench.shard: measured}))
    return measured.stored_bytes


def _slots(bench: Bench) -> Sequence[Key]:
    log = keys.records(bench.stream.uid, 0)
    return [item.key for item in bench.run(bench.cell.query(log, limit=1_000))]


def test_a_shard_has_what_came_and_has_not_expired(bench: Bench) -> None:
    assert _measure(bench) == 0
    _put(bench, 100, 200)
    assert _measure(bench) == 300
    bench.clock.advance(DAY_S / 2)
    _put(bench, 1_000)
    assert _measure(bench) == 1_300
    bench.clock.advance(DAY_S / 2 + 1)
    assert _measure(bench) == 1_000
    bench.clock.advance(DAY_S / 2 + 1)
    assert _measure(bench) == 0
    _put(bench, 7)
    assert _measure(bench) == 7


def test_records_of_one_slot_and_a_closed_end_count(bench: Bench) -> None:
    records = [OutgoingRecord("key", b"12"), OutgoingRecord(None, b"345")]
    bench.run(bench.put_records(records))
    assert _measure(bench) == len("key12345")
    bench.run(bench.streams.close(bench.stream, bench.shard))
    assert _measure(bench) == len("key12345")
    bench.clock.advance(DAY_S + 1)
    assert _measure(bench) == 0


def test_what_expires_is_looked_for_every_ten_minutes(bench: Bench) -> None:
    known = Measured()
    _put(bench, 10)
    bench.clock.advance(HOUR_S)
    _put(bench, 20)
    bench.clock.advance(DAY_S - HOUR_S - 1)
    assert _measure(bench, known) == 30
    bench.clock.advance(300)
    assert _measure(bench, known) == 30
    bench.clock.advance(300)
    assert _measure(bench, known) == 20


def test_a_retention_that_is_lowered_frees_at_once(bench: Bench) -> None:
    bench.keep_for(7 * DAY_S)
    known = Measured()
    _put(bench, 10)
    bench.clock.advance(3 * DAY_S)
    _put(bench, 20)
    assert _measure(bench, known) == 30
    bench.keep_for(DAY_S)
    assert _measure(bench, known) == 20


@pytest.mark.parametrize("slots", [10, 300])
def test_a_look_costs_the_same_however_many_slots_there_are(bench: Bench, slots: int) -> None:
    known = Measured()
    for _ in range(slots):
        _put(bench, 5)
        bench.clock.advance(DAY_S / slots)

    async def look() -> None:
        await bench.streams.measure(bench.stream, {bench.shard: known})

    first = bench.run(bench.cost_of(look))
    assert first.keys() == {"query"}
    assert first["query"] <= 8
    assert bench.run(bench.cost_of(look)) == {"query": 1}
    bench.clock.advance(HOUR_S)
    assert bench.run(bench.cost_of(look))["query"] <= 8


def test_a_put_costs_no_request_more(bench: Bench) -> None:
    _put(bench, 1)
    bench.run(bench.put("a:1"))
    assert bench.run(bench.cost_of(lambda: bench.put("a:2"))) == {"put": 1}


def _as_before(bench: Bench, *slots: Key) -> None:
    """Slots as earlier versions wrote them."""
    for key in slots:
        bench.run(bench.cell.update(key, Update(remove=frozenset({"yt"})), ()))


def test_slots_of_before_count_once_another_follows(bench: Bench) -> None:
    _put(bench, 10, 20)
    _as_before(bench, *_slots(bench))
    assert _measure(bench) == 0
    _put(bench, 40, 50)
    assert _measure(bench) == 20 + 40 + 50
    bench.clock.advance(DAY_S + 1)
    _put(bench, 1)
    assert _measure(bench) == 1


def test_who_goes_on_counts_what_an_earlier_version_put_between(bench: Bench) -> None:
    bench.run(bench.put("a:1"))
    _put(bench, 20)
    _as_before(bench, _slots(bench)[-1])
    bench.run(bench.put("a:2"))
    assert _measure(bench) == len("aa:1") + 20 + len("aa:2")


def test_totals_that_began_anew_are_not_below_nothing(bench: Bench) -> None:
    _put(bench, 1_000)
    bench.clock.advance(DAY_S / 2)
    _put(bench, 500, 10)
    _as_before(bench, _slots(bench)[-1])
    bench.clock.advance(DAY_S / 2 + 1)
    _put(bench, 40)
    assert _measure(bench) == 10 + 40


def test_a_shard_that_rested_until_all_was_gone_begins_anew(bench: Bench) -> None:
    _put(bench, 1_000)
    known = Measured()
    assert _measure(bench, known) == 1_000
    for _ in range(2 * 24):
        bench.clock.advance(HOUR_S)
        bench.run(bench.streams.anchor(bench.stream, bench.shard))
    for key in _slots(bench):
        bench.run(bench.cell.delete(key))
    assert _measure(bench, known) == 0
    _put(bench, 3)
    assert _measure(bench, known) == 3


def test_shards_that_can_be_looked_at_are_known_where_others_cannot(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(bench, 10)
    query, broken = bench.cell.query, keys.records(bench.stream.uid, 1)

    async def one_fails(partition: str, **options: Any) -> list[Item]:
        if partition == broken:
            raise CellUnavailableError
        return await query(partition, **options)

    monkeypatch.setattr(bench.cell, "query", one_fails)
    there, away = Measured(), Measured(came_bytes=5)
    both = dict(zip(bench.stream.shards, (there, away), strict=True))
    with pytest.raises(CellUnavailableError):
        bench.run(bench.streams.measure(bench.stream, both))
    assert (there.stored_bytes, away.stored_bytes) == (10, 5)
