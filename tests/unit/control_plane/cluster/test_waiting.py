"""What the manager waits for, case by case; tests/property/test_planning.py looks for gaps."""

import pytest
from msgspec import structs

from control_plane.cluster.observation import Observation, Options, Removal, Report
from control_plane.cluster.waiting import waits_for
from tests.unit.control_plane.cluster.test_planning import (
    NOW_US,
    SECOND_US,
    answers,
    fails,
    group,
    seen,
)

WELL = group("g3.00", "a", "b", "c")


def waits(observation: Observation) -> list[str]:
    return waits_for(observation, Options(), NOW_US)


def test_where_all_is_well_nothing_is_waited_for() -> None:
    assert waits(seen(WELL)) == []
    # A cell that drains leaves this one by itself.
    four = group("g4.00", "a", "b", "c", "d", factor=4)
    assert waits(seen(four, cells="abcd", states={"d": "draining"})) == []


@pytest.mark.parametrize(
    ("observation", "line"),
    [
        (
            seen(
                group("g2.00.0123456789abcdef", "a", "b", factor=2, chosen=("d", "a")),
                cells="abcd",
                states={"d": "draining"},
            ),
            (
                "g2.00.0123456789abcdef is to move to d: d drains (`tidegate cells restore d`);"
                " `tidegate cells move-queue` chooses others"
            ),
        ),
        (
            seen(group("g2.00.0123456789abcdef", "a", "b", factor=2, chosen=("e",)), cells="ab"),
            (
                "g2.00.0123456789abcdef is to move to e: there is no such cell;"
                " `tidegate cells move-queue` chooses others"
            ),
        ),
        (
            seen(group("g3.00", "a", "b"), cells="ab", states={"b": "draining"}),
            (
                "b drains, and g3.00 cannot leave it: every other cell has a copy already, and"
                " without it they would keep 1 of 3 copies, fewer than half;"
                " `tidegate cells add` gives them another cell"
            ),
        ),
        (
            seen(
                structs.replace(group("g2.00", "a", "b", factor=2), empty=True),
                group("g3.00", "a", "b"),
                group("g4.00", "a", "b", factor=4),
                cells="ab",
                states={"b": "draining"},
                probes=(fails("a"),),
            ),
            (
                "b drains, and 2 groups (g3.00, ...) cannot leave it: every other cell has a copy"
                " already, and without it they would keep 1 of 3 or 1 of 4 copies, fewer than half;"
                " `tidegate cells add` gives them another cell"
            ),
        ),
        (
            seen(
                group("g3.00", "a", "b", "c"),
                cells="abcd",
                states={"c": "draining", "d": "full"},
            ),
            (
                "c drains, and g3.00 cannot leave it: d is full;"
                " `tidegate cells add` gives them another cell"
            ),
        ),
        (
            seen(WELL, states={"c": "draining"}, probes=(fails("a"), fails("b"))),
            (
                "c drains, and g3.00 cannot leave it: every other cell has a copy already;"
                " `tidegate cells add` gives them another cell"
            ),
        ),
        (
            seen(group("g3.00", "a", "b"), states={"c": "draining"}),
            (
                "a copy of g3.00 is missing: c drains (`tidegate cells restore c`);"
                " `tidegate cells add` gives them another cell"
            ),
        ),
        (
            seen(group("g3.00", "a", "b"), cells="ab"),
            (
                "a copy of g3.00 is missing: every other cell has a copy already;"
                " `tidegate cells add` gives them another cell"
            ),
        ),
        (
            seen(group("g3.00", "a", "b"), states={"c": "failed"}),
            (
                "a copy of g3.00 is missing: c has failed (`tidegate cells restore c`);"
                " `tidegate cells add` gives them another cell"
            ),
        ),
        (
            structs.replace(seen(group("g3.00", "a", "b")), probes=(answers("a"), answers("b"))),
            (
                "a copy of g3.00 is missing: this server is not told of c"
                " (`tidegate cells remove c`); `tidegate cells add` gives them another cell"
            ),
        ),
        (
            seen(group("g3.00", "a", "b"), probes=(Report("c", None, NOW_US - SECOND_US),)),
            (
                # Another cell would have to wait as long.
                "a copy of g3.00 is missing: to get copies c must have answered for 10 s"
            ),
        ),
        (
            seen(
                WELL,
                cells="abcde",
                states={"a": "draining"},
                probes=(Report("d", None, NOW_US), Report("e", None, NOW_US)),
            ),
            "a drains, and g3.00 cannot leave it: to get copies d, e must have answered for 10 s",
        ),
        (
            seen(group("g1.00", "c", factor=1), probes=(fails("c"),)),
            (
                "c is down, and without it g1.00 would keep less than half of the copies: "
                "`tidegate cells restore c` brings it back, with its directory as it was last;"
                " if it is lost, "
                "`tidegate cells remove c --lose-messages`, which loses what no other cell has"
            ),
        ),
        (
            seen(WELL, probes=(fails("b"),), removal=Removal("x", NOW_US - 20 * SECOND_US)),
            (
                "b looks down, and is taken out in 40 s, a minute after x was: if you know that it"
                " is lost, `tidegate cells fail b`"
            ),
        ),
        (
            seen(WELL, probes=(fails("a"), fails("b"))),
            (
                "a looks down, and so do most cells, so nothing is taken out: if you know that it"
                " is lost, `tidegate cells fail a`"
            ),
        ),
        (
            seen(group("g3.00", "a", "b", joining="c", since_us=NOW_US - 590 * SECOND_US)),
            "c joins g3.00: it is copied to in 10 s, when no front end goes by an older map",
        ),
    ],
    ids=[
        "chosen",
        "not there",
        "too few",
        "of several factors",
        "full",
        "others down",
        "drained",
        "removed",
        "failed",
        "not told of",
        "unsteady",
        "just added",
        "last copy",
        "a minute",
        "blind",
        "grace",
    ],
)
def test_a_reason_is_told_with_the_command_that_ends_it(
    observation: Observation, line: str
) -> None:
    assert line in waits(observation)


def test_groups_whose_turn_is_not_yet_are_told() -> None:
    joining = [group(f"g3.{at:02}", "a", "b", joining="c", since_us=NOW_US) for at in range(16)]
    told = "g2.00 come next: 16 groups are copied at a time"
    assert told in waits(seen(*joining, group("g2.00", "a", factor=2)))
    assert told not in waits(seen(*joining[1:], group("g2.00", "a", factor=2)))


def test_a_map_that_lacks_a_cell_is_told_alone() -> None:
    assert waits(seen(WELL, cells="ab")) == ["the registry does not list c: nothing is planned"]


def test_groups_without_queues_wait_for_no_cell_that_was_removed() -> None:
    four = group("g4.00", "a", "b", "c", factor=4)
    lacks = "a copy of g4.00 is missing: every other cell has a copy already;"
    assert waits(seen(four))[0].startswith(lacks)
    assert waits(seen(structs.replace(four, empty=True))) == []
    assert waits(seen(group("registry", "a", "b", "c", factor=4))) == []
