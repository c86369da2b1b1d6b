"""Which directories are which cells: a table of cases."""

from collections.abc import Mapping

import pytest

from control_plane.core.identity import Found, Knowledge, Said, Standing, Verdict, judge

OURS, THEIRS = "0" * 16, "1" * 16
NAMES = ("a", "b", "c")
LAST = {"a": 7, "b": 7, "c": 7}
PATHS = {name: f"at-{name}" for name in NAMES}


def knows(
    incarnations: Mapping[str, int] | None = None,
    service: str = OURS,
    epoch: int = 1,
    cells: Mapping[str, str] | None = None,
) -> Knowledge:
    return Knowledge(
        service, cells or PATHS, LAST if incarnations is None else incarnations, (epoch, 0)
    )


def at(path: str, cell: str, incarnation: int = 7, knowledge: Knowledge | None = None) -> Found:
    return Found(f"at-{path}", Said(cell, incarnation, knowledge or knows()))


def standings(verdict: Verdict) -> dict[str, str]:
    return {name: one.standing.value for name, one in verdict.cells.items()}


WHOLE = [at(name, name) for name in NAMES]
EMPTY = Found("at-c")
OLD = knows({"a": 5, "b": 5, "c": 5})
ALL = dict.fromkeys(NAMES, "current")


@pytest.mark.parametrize("manifest", [knows(), None, knows({"a": 3})])
@pytest.mark.parametrize(
    ("c", "expected"),
    [
        (at("c", "c"), "current"),
        (Found("at-c"), "empty"),
        (at("c", "c", 5, OLD), "stale"),
        (at("c", "c", 9, knows(service=THEIRS)), "foreign"),
        (at("c", "z"), "unknown"),
        (at("c", "a"), "unknown"),
        (at("c", "a", 5, OLD), "stale"),
        (Found("at-c", reason="a dead disk"), "failed"),
        (Found("at-c", is_replaced=True), "stale"),
        (at("c", "c", 0, knows({}, service="")), "stale"),
    ],
)
def test_one_directory_beside_two_that_are_whole(
    manifest: Knowledge | None, c: Found, expected: str
) -> None:
    verdict = judge(manifest, [*WHOLE[:2], c])
    assert standings(verdict) == {**ALL, "c": expected}
    assert verdict.service == OURS
    assert verdict.cells["c"].path == "at-c"
    assert verdict.last >= 7
    assert verdict.lost == (["c"] if Standing(expected).is_lost else [])


def test_directories_may_be_swapped_and_moved() -> None:
    verdict = judge(knows(), [at("a", "b"), at("b", "a"), at("elsewhere", "c")])
    assert standings(verdict) == ALL
    assert {name: one.path for name, one in verdict.cells.items()} == {
        "a": "at-b",
        "b": "at-a",
        "c": "at-elsewhere",
    }


def test_a_swapped_directory_leaves_its_place_to_the_one_that_is_gone() -> None:
    verdict = judge(knows(), [Found("at-a"), at("b", "a"), at("c", "c")])
    assert standings(verdict) == {**ALL, "b": "empty"}
    assert verdict.cells["b"].path == "at-a"


def test_a_directory_whose_place_another_cell_has_taken_fails() -> None:
    verdict = judge(knows(), [at("b", "a"), at("c", "c")])
    assert standings(verdict) == {**ALL, "b": "failed"}


def test_of_two_that_are_the_same_the_one_in_its_place_is_the_cell() -> None:
    verdict = judge(knows(), [*(one for one in WHOLE), at("copy", "b")])
    assert standings(verdict) == ALL
    assert verdict.cells["b"].path == "at-b"
    assert [str(one) for one in verdict.others] == ["at-copy is a copy of b"]


@pytest.mark.parametrize(
    ("found", "manifest", "why"),
    [
        ([at(name, name, 8, OLD) for name in NAMES], OLD, "a crash before others knew"),
        ([at("a", "a", 8, OLD), *WHOLE[1:]], knows(), "a crash in between"),
        ([at(name, name, 5, OLD) for name in NAMES], OLD, "a whole backup"),
        ([at(name, name, 5, OLD) for name in NAMES], None, "a backup of all cells"),
        (WHOLE, OLD, "an old manifest"),
        (WHOLE, None, "no manifest"),
    ],
)
def test_nothing_is_stale_after(found: list[Found], manifest: Knowledge | None, why: str) -> None:
    assert standings(judge(manifest, found)) == ALL, why


def test_a_backup_of_the_cells_alone_is_stale() -> None:
    verdict = judge(knows(), [at(name, name, 5, OLD) for name in NAMES])
    assert verdict.lost == ["a", "b", "c"]


def test_the_later_one_says_which_cells_there_are() -> None:
    fewer = knows(epoch=3, cells={"a": "at-a", "b": "at-b"})
    verdict = judge(knows(), [at("a", "a", 7, fewer), *WHOLE[1:]])
    assert standings(verdict) == {"a": "current", "b": "current"}
    assert [str(one) for one in verdict.others] == ["at-c has c, which was removed"]
    assert standings(judge(fewer, WHOLE)) == {"a": "current", "b": "current"}


def test_a_first_start_that_ended_begins_again() -> None:
    verdict = judge(None, [at("a", "a", 7, knows({})), Found("at-b"), EMPTY])
    assert not verdict.cells
    assert [one.path for one in verdict.others] == ["at-a", "at-b", "at-c"]
    assert not judge(None, [Found("at-a")]).cells


def test_the_format_of_before_is_taken_over_also_half_way() -> None:
    before = knows({}, service="")
    assert standings(judge(None, [at(name, name, 0, before) for name in NAMES])) == ALL
    half = [at("a", "a", 7, knows({})), *(at(name, name, 0, before) for name in "bc")]
    verdict = judge(None, half)
    assert (standings(verdict), verdict.service) == (ALL, OURS)


def test_most_cells_say_whose_they_are() -> None:
    theirs = at("c", "c", 9, knows(service=THEIRS))
    assert judge(None, [*WHOLE[:2], theirs]).service == OURS
    assert judge(None, [WHOLE[0], theirs]).refusal.startswith("these are cells of several services")
    assert judge(knows(), [theirs]).lost == ["c"]
