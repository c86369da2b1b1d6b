import asyncio

import pytest

from control_plane.places.changes import PlacementChangeError
from control_plane.places.items import (
    ACTIVE,
    DRAINING,
    CellRecord,
    CellSeen,
    Heartbeat,
    StoredPlacement,
)
from control_plane.places.stored import StalePlanError
from data_plane.ports import CellUnavailableError

from .conftest import Site, run

NONCE = b"planned!"


@pytest.fixture
def placed(site: Site) -> Site:
    run(lambda: site.places.make_missing(["a", "b", "c"]))
    return site


def cells_of(stored: StoredPlacement) -> list[str]:
    return [member.cell for member in stored.placement.members]


def test_groups_of_all_factors_are_placed_once(placed: Site) -> None:
    before = placed.cell.items()
    assert len(before) == 48
    run(lambda: placed.other(7).make_missing(["c", "a", "b"]))
    assert placed.cell.items() == before
    run(lambda: placed.places.make_missing(["a", "b", "c", "d"]))
    after = placed.cell.items()
    assert all(item in after for item in before)
    assert len(run(placed.places.read_all).placements) == 64


def test_a_member_is_dropped_by_compare_and_set(placed: Site) -> None:
    stored = run(lambda: placed.places.drop_member("g3.00", "a", epoch=1))
    assert cells_of(stored) == ["b", "c"]
    assert run(lambda: placed.places.read("g3.00")) == stored
    assert placed.noted == [stored]
    with pytest.raises(StalePlanError, match=r"g3\.00 has epoch 2, not 1"):
        run(lambda: placed.other(1).add_joining("g3.00", "a", epoch=1))
    with pytest.raises(PlacementChangeError):
        run(lambda: placed.places.drop_member("g3.00", "b", epoch=2))
    assert run(lambda: placed.places.read("g3.00")) == stored


def test_a_repetition_finds_its_own_nonce(placed: Site) -> None:
    first = run(lambda: placed.places.drop_member("g3.00", "a", epoch=1, nonce=NONCE))
    again = run(lambda: placed.other(1).drop_member("g3.00", "a", epoch=1, nonce=NONCE))
    assert again == first
    assert first.placement.epoch == 2


def test_a_lost_reply_is_found_by_the_repetition(placed: Site) -> None:
    placed.cell.loses_replies = True
    with pytest.raises(CellUnavailableError):
        run(lambda: placed.places.drop_member("g3.00", "a", epoch=1, nonce=NONCE))
    placed.cell.loses_replies = False
    stored = run(lambda: placed.places.drop_member("g3.00", "a", epoch=1, nonce=NONCE))
    assert (cells_of(stored), stored.placement.epoch) == (["b", "c"], 2)


def test_a_write_that_was_repeated_below_recognises_itself(placed: Site) -> None:
    placed.cell.repeats = True
    stored = run(lambda: placed.places.drop_member("g3.00", "a", epoch=1))
    assert stored.placement.epoch == 2
    run(lambda: placed.places.put_cell(CellRecord("a", "embedded", {"path": "x"})))
    assert run(lambda: placed.places.set_state("a", DRAINING)).state == DRAINING
    first = run(lambda: placed.places.note_removal("a", None))
    assert first is not None
    assert run(lambda: placed.places.note_removal("b", first)) is not None


def test_of_two_plans_at_once_one_is_late(placed: Site) -> None:
    async def both() -> list[object]:
        outcomes = await asyncio.gather(
            placed.places.drop_member("g3.00", "a", epoch=1, nonce=b"1" * 8),
            placed.other(1).drop_member("g3.00", "b", epoch=1, nonce=b"2" * 8),
            return_exceptions=True,
        )
        return list(outcomes)

    placed.cell.dawdles = True
    outcomes = run(both)
    assert sum(isinstance(outcome, StalePlanError) for outcome in outcomes) == 1
    assert len(cells_of(run(lambda: placed.places.read("g3.00")))) == 2


def test_a_cell_joins_and_serves(placed: Site) -> None:
    run(lambda: placed.places.drop_member("g3.00", "a", epoch=1))
    joining = run(lambda: placed.places.add_joining("g3.00", "a", epoch=2))
    assert [member.full for member in joining.placement.members] == [True, True, False]
    full = run(lambda: placed.places.make_full("g3.00", "a", epoch=3))
    assert [member.full for member in full.placement.members] == [True, True, True]
    assert full.placement.members[-1].incarnation == 3


def test_cells_and_their_states(site: Site) -> None:
    first = run(lambda: site.places.put_cell(CellRecord("a", "embedded", {"path": "x"})))
    assert run(lambda: site.places.put_cell(CellRecord("a", "embedded", {"path": "y"}))) == first
    drained = run(lambda: site.places.set_state("a", DRAINING))
    assert (drained.state, drained.since_us) == (DRAINING, site.clock.now_us())
    assert run(lambda: site.places.set_state("a", DRAINING)) == drained
    with pytest.raises(KeyError):
        run(lambda: site.places.set_state("b", ACTIVE))


def test_only_one_removal_follows_another(site: Site) -> None:
    assert run(site.places.removal) is None
    first = run(lambda: site.places.note_removal("a", None))
    assert first is not None
    assert run(site.places.removal) == first
    assert run(lambda: site.other(1).note_removal("b", None)) is None
    assert run(lambda: site.other(1).note_removal("b", first)) is not None
    assert run(lambda: site.places.note_removal("c", first)) is None


def test_heartbeats(site: Site) -> None:
    seen = {"a": CellSeen(answers=True, since_us=1)}
    beat = Heartbeat("0123456789ab", 5, seen, told_us=4)
    run(lambda: site.places.beat(beat))
    assert run(site.places.heartbeats) == [beat]
    run(lambda: site.places.forget(beat.front_end, 4))
    assert run(site.places.heartbeats) == [beat]
    run(lambda: site.places.forget(beat.front_end, 5))
    assert run(site.places.heartbeats) == []
    run(lambda: site.places.beat(beat))
    run(lambda: site.places.leave(beat.front_end))
    assert run(site.places.heartbeats) == []
