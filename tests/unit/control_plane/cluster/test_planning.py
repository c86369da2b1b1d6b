"""What is planned, case by case; tests/property/test_planning.py has what never is."""

from typing import Any

import pytest
from msgspec import structs

from control_plane.cluster.actions import (
    Action,
    Admit,
    ChangeCell,
    Complete,
    Reconcile,
    Release,
    Retire,
    Split,
    TakeOut,
    action_of,
)
from control_plane.cluster.internal import FRONT_ENDS_MAX
from control_plane.cluster.observation import (
    CellRecord,
    FrontEnd,
    Group,
    Logs,
    Observation,
    Options,
    Removal,
    Report,
    observation_of,
    to_json,
)
from control_plane.cluster.planning import in_own_order, plan
from control_plane.cluster.waiting import waits_for
from data_plane.replication.placement import Member

SECOND_US = 1_000_000
NOW_US = 1_000 * SECOND_US
LONG_AGO_US = NOW_US - 900 * SECOND_US
OPTIONS = Options()


def group(name: str, *cells: str, factor: int = 3, joining: str = "", **changed: Any) -> Group:
    members = [Member(cell) for cell in cells]
    if joining:
        members.append(Member(joining, 7, full=False))
    made = Group(name, 7, tuple(members), LONG_AGO_US, factor)
    return structs.replace(made, **changed)


def answers(cell: str, **seen: Any) -> Report:
    return Report(cell, None, LONG_AGO_US, **seen)


def fails(cell: str, for_s: float = 5) -> Report:
    return Report(cell, NOW_US - int(for_s * SECOND_US))


def front_end(*reports: Report, age_s: int = 1) -> FrontEnd:
    return FrontEnd("f", NOW_US - age_s * SECOND_US, reports)


def seen(*groups: Group, cells: str = "abc", **others: Any) -> Observation:
    states = others.pop("states", {})
    records = tuple(CellRecord(name, states.get(name, "active"), LONG_AGO_US) for name in cells)
    told = {report.cell for report in others.get("probes", ())}
    probes = (*others.pop("probes", ()), *(answers(name) for name in cells if name not in told))
    given = {"cells": records, "probes": probes, **others}
    return Observation(at_us=NOW_US, groups=groups, **given)


def planned(observation: Observation, **options: Any) -> list[Any]:
    # As the state machine hands them over.
    carried = observation_of(to_json(observation))
    actions = plan(carried, structs.replace(OPTIONS, **options), NOW_US)
    assert [action_of(to_json(action)) for action in actions] == actions
    return actions


def test_where_all_is_well_nothing_is_done() -> None:
    assert planned(seen(group("g", "a", "b", "c"))) == []


@pytest.mark.parametrize(
    "observation",
    [
        Observation(at_us=NOW_US),
        seen(cells="abc"),
        seen(group("g", "a", "b", "c"), cells=""),
        seen(group("g", "a", "b", "c"), cells="ab", probes=(fails("a"),)),
        structs.replace(seen(group("g", "a", "b", "c"), probes=(fails("a"),)), at_us=LONG_AGO_US),
    ],
    ids=["nothing", "no groups", "no cells", "a cell is missing", "seen long ago"],
)
def test_from_too_little_nothing_follows(observation: Observation) -> None:
    assert planned(observation) == []


def test_a_cell_that_is_down_leaves_its_groups() -> None:
    groups = group("g", "a", "b", "c"), group("h", "b", "c", "a", epoch=9), group("i", "b", "c")
    expected = TakeOut("a", {"g": 7, "h": 9})
    assert planned(seen(*groups, probes=(fails("a"),)))[0] == expected


def test_a_hiccup_is_no_failure() -> None:
    assert planned(seen(group("g", "a", "b", "c"), probes=(fails("a", for_s=1),))) == []


def test_a_plan_that_comes_late_takes_nothing_for_what_went_on_meanwhile() -> None:
    """A probe that failed once has not failed since, and front ends that were heard still are."""
    hiccup = structs.replace(fails("a"), failing_since_us=NOW_US - SECOND_US)
    told = seen(group("g", "a", "b", "c"), front_ends=(front_end(answers("a")),), probes=(hiccup,))
    steady = Report("d", None, NOW_US - 5 * SECOND_US)
    lacks = seen(group("g", "a", "b"), cells="abd", probes=(steady,))
    for late_s in (0, 5, 30, 110):
        now_us = NOW_US + late_s * SECOND_US
        assert plan(told, OPTIONS, now_us) == plan(lacks, OPTIONS, now_us) == []


def test_front_ends_decide_and_the_managers_probe_where_they_do_not() -> None:
    def takes_out(*front_ends: FrontEnd, probe: Report) -> bool:
        told = seen(group("g", "a", "b", "c"), front_ends=front_ends, probes=(probe,))
        return planned(told) == [TakeOut("a", {"g": 7})]

    reached, not_reached = front_end(answers("a")), front_end(fails("a"))
    assert not takes_out(reached, probe=fails("a"))
    assert not takes_out(reached, reached, not_reached, probe=fails("a"))
    assert takes_out(not_reached, probe=answers("a"))
    assert takes_out(reached, not_reached, probe=fails("a"))
    assert not takes_out(reached, not_reached, probe=answers("a"))
    # Those that are not heard any more have no say.
    assert takes_out(front_end(answers("a"), age_s=30), probe=fails("a"))
    # Nor do those of the future: their clocks say nothing of the present.
    assert takes_out(front_end(answers("a"), age_s=-30), probe=fails("a"))


def test_copies_are_compared_for_front_ends_that_are_gone() -> None:
    def reconciles(*ages_s: int, **others: Any) -> list[Any]:
        front_ends = tuple(
            FrontEnd(
                f"f{n}", NOW_US - age_s * SECOND_US, (), told_us=NOW_US - 2 * age_s * SECOND_US
            )
            for n, age_s in enumerate(ages_s)
        )
        told = seen(group("g", "a", "b", "c"), front_ends=front_ends, **others)
        return [one for one in planned(told) if isinstance(one, Reconcile)]

    assert reconciles(0, 29) == []
    (wanted,) = reconciles(0, 30, 50)
    assert wanted.front_ends == {"f1": NOW_US - 30 * SECOND_US, "f2": NOW_US - 50 * SECOND_US}
    assert wanted.since_us == NOW_US - 100 * SECOND_US
    assert reconciles(0, 30, probes=(fails("a"),)) == []
    # Of one that has no copies nobody is to be told; it may be away for weeks.
    assert reconciles(0, 30, cells="abcd", probes=(fails("d"),)) == [
        Reconcile({"f1": NOW_US - 30 * SECOND_US}, NOW_US - 60 * SECOND_US)
    ]
    (wanted,) = reconciles(*range(1_000, 1_000 + 2 * FRONT_ENDS_MAX))
    assert len(wanted.front_ends) == FRONT_ENDS_MAX


def test_no_group_falls_below_half_of_its_copies() -> None:
    groups = group("g", "a", "b"), group("h", "a", factor=1), group("i", "a", "b", factor=4)
    assert planned(seen(*groups, cells="ab", probes=(fails("a"),))) == []
    joining = group("g", "a", "b", joining="c")
    assert planned(seen(joining, probes=(fails("a"),)), grace_us=10**12) == []


def test_one_cell_at_a_time() -> None:
    groups = group("g", "a", "b", "c"), group("h", "b", "c", "d"), group("i", "d", "e", "c")
    two_down = seen(*groups, cells="abcde", probes=(fails("a", 4), fails("d", 5)))
    (first, *_) = planned(two_down)
    assert first == TakeOut("d", {"h": 7, "i": 7})
    after = structs.replace(two_down, removal=Removal("a", NOW_US - 30 * SECOND_US))
    assert planned(after)[0] == TakeOut("a", {"g": 7})
    of_another = structs.replace(two_down, removal=Removal("x", NOW_US - 30 * SECOND_US))
    assert planned(of_another) == []
    long_ago = structs.replace(two_down, removal=Removal("x", NOW_US - 60 * SECOND_US))
    assert planned(long_ago)[0] == first


def test_where_most_cells_look_down_the_observer_is_doubted() -> None:
    probes = (fails("a"), fails("b"))
    assert planned(seen(group("g", "a", "b", "c"), probes=probes)) == []


def test_a_spare_cell_joins_and_the_least_used_one_first() -> None:
    groups = group("g", "a", "b"), group("h", "a", "b", "c"), group("i", "a", "b", "d")
    assert planned(seen(*groups, cells="abcde")) == [Admit("g", 7, "e")]
    for state in ("failed", "full", "draining", "removed"):
        told = answers("e", full=state == "full")
        observation = seen(*groups, cells="abcde", states={"e": state}, probes=(told,))
        assert planned(observation) == [Admit("g", 7, "c")]
    assert planned(seen(*groups, cells="abcde", probes=(fails("e"),))) == [Admit("g", 7, "c")]


def test_few_groups_have_a_joining_member_at_a_time() -> None:
    groups = [group(f"g{number}", "a", "b") for number in range(5)]
    assert len(planned(seen(*groups), joins_max=2)) == 2
    groups[3] = group("g3", "a", "b", joining="c", since_us=NOW_US)
    assert len(planned(seen(*groups), joins_max=2)) == 1


def test_who_joined_is_copied_to_when_no_older_map_is_in_use() -> None:
    joining = group("g", "a", "b", joining="c", since_us=NOW_US - 600 * SECOND_US)
    assert planned(seen(joining)) == [Complete("g", 7, "c")]
    early = structs.replace(joining, since_us=joining.since_us + 1)
    assert planned(seen(early)) == []


def test_a_joining_member_whose_cell_goes_down_leaves_at_once() -> None:
    joining = group("g", "a", "b", joining="c")
    left = [Release("g", 7, "c")]
    assert planned(seen(joining, probes=(fails("c"),))) == left
    # Of who cannot reach it nothing is acknowledged meanwhile.
    divided = seen(joining, front_ends=(front_end(answers("c")), front_end(fails("c"))))
    assert planned(divided) == left
    for state in ("draining", "failed", "full", "removed"):
        told = answers("c", full=state == "full")
        assert planned(seen(joining, states={"c": state}, probes=(told,))) == left


def test_a_joining_member_stays_where_too_little_is_known_of_its_cell() -> None:
    """A server that has just started has not seen it answer for long; copies take hours."""
    joining = group("g", "a", "b", joining="c")
    just_begun = front_end(*(Report(cell, None, NOW_US - SECOND_US) for cell in "abc"))
    assert planned(seen(joining, front_ends=(just_begun,))) == [Complete("g", 7, "c")]
    unsure = (answers("a"), answers("b"), fails("c", for_s=1))
    assert planned(structs.replace(seen(joining), probes=unsure)) == []
    begun = tuple(Report(cell, None, NOW_US - SECOND_US) for cell in "ab")
    for probes in (begun, ()):
        assert planned(structs.replace(seen(joining), probes=probes)) == []


def test_nobody_waits_for_a_cell_that_no_server_is_told_of_any_more() -> None:
    """All servers were started without a table that the registry has, and groups join there."""
    without = front_end(*map(answers, "ab"))
    joining = group("g", "a", "b", joining="c")
    left = structs.replace(seen(joining, front_ends=(without,)), probes=without.reports)
    assert planned(left) == [Release("g", 7, "c")]
    beside = structs.replace(left, front_ends=(without, front_end(answers("c"))))
    assert planned(beside) == [Complete("g", 7, "c")]
    two = group("h", "a", "b", factor=2)
    drained = seen(two, front_ends=(without,), states={"a": "draining", "b": "draining"})
    drained = structs.replace(drained, probes=without.reports)
    assert planned(drained) == [Release("h", 7, "b")]


def test_a_surplus_member_leaves_but_not_the_one_that_came() -> None:
    four = group("g", "a", "b", "c", members=(*map(Member, "abc"), Member("d", 7)))
    assert planned(seen(four, cells="abcd")) == [Release("g", 7, "c")]
    assert planned(seen(four, cells="abcd", states={"b": "draining"})) == [Release("g", 7, "b")]
    assert planned(seen(four, cells="abcd", states={"d": "draining"})) == [Release("g", 7, "d")]


def test_a_draining_cell_is_replaced_in_all_groups() -> None:
    groups = group("g", "a", "b", "c"), group("h", "a", "c", "b"), group("i", "b", "c", "d")
    drained = seen(*groups, cells="abcd", states={"a": "draining"})
    assert planned(drained) == [Admit("g", 7, "d"), Admit("h", 7, "d")]


def test_a_draining_cell_leaves_groups_for_which_too_few_cells_stay() -> None:
    four = group("g", "a", "b", "c", "d", factor=4)
    drained = seen(four, cells="abcd", states={"b": "draining"})
    assert planned(drained) == [Release("g", 7, "b")]
    # Another one that is down may come back; until then no further copy goes. So too where nobody
    # knows yet: a manager that has just begun has not heard of it, or seen it fail for a moment.
    for unsure in ((fails("a"),), (fails("a", for_s=0.1),), ()):
        probes = (*map(answers, "bcd"), *unsure)
        assert Release("g", 7, "b") not in planned(structs.replace(drained, probes=probes))
    # Who may join comes first.
    two = seen(four, cells="abcde", states={"a": "draining", "b": "draining"})
    assert planned(two) == [Admit("g", 7, "e")]
    # Half of the copies stay in any case.
    assert planned(seen(group("g", "a", "b"), cells="ab", states={"b": "draining"})) == []


def test_no_copy_is_given_up_for_one_on_a_cell_that_nobody_has_heard_of() -> None:
    two = group("g", "a", "b", factor=3, empty=True)
    drained = seen(two, cells="abc", states={"a": "draining", "b": "draining"})
    both = structs.replace(drained, probes=(answers("a"), answers("b"), fails("c")))
    assert planned(both) == [Release("g", 7, "b", forced=True)]
    for heard in "ab":
        assert planned(structs.replace(drained, probes=(answers(heard), fails("c")))) == []


def test_a_draining_cell_leaves_no_group_to_those_that_do_not_answer() -> None:
    """The one that joined in its place was lost at once: what drains has the only copy."""
    moved = group("g", "a", factor=1, members=(Member("a"), Member("c", 7)))
    drained = seen(moved, cells="abcd", states={"a": "draining"})
    assert planned(drained) == [Release("g", 7, "a")]
    safe = Removal("d", NOW_US - 30 * SECOND_US)
    for unsure in ((fails("c"),), (fails("c", for_s=1),), ()):
        probes = (*map(answers, "abd"), *unsure)
        unheard = structs.replace(drained, probes=probes, removal=safe)
        assert planned(unheard) == []
        told = waits_for(unheard, OPTIONS, NOW_US)
        assert any(line.startswith("a drains, and g cannot leave it before") for line in told)


def test_no_cell_is_taken_out_for_one_that_nobody_sees_answer() -> None:
    """Who comes back later of two that fail at once may be the one that was given up."""
    two = group("g", "a", "b", factor=2)
    three = group("h", "a", "b", "c")
    for unsure in ((fails("b", for_s=1),), ()):
        for states in ({}, {"a": "failed"}):
            probes = (fails("a"), *map(answers, "cd"), *unsure)
            lacking = structs.replace(seen(two, three, cells="abcd", states=states), probes=probes)
            assert planned(lacking) == [TakeOut("a", {"h": 7})]
            told = waits_for(structs.replace(lacking, groups=(two,)), OPTIONS, NOW_US)
            assert told[0].startswith("a is down, and nobody sees another cell answer that has g")
    # One front end that reaches it is enough.
    reached = seen(two, cells="ab", probes=(fails("a"), fails("b", for_s=1)))
    reached = structs.replace(reached, front_ends=(front_end(fails("a"), answers("b")),))
    assert planned(reached) == [TakeOut("a", {"g": 7})]


def test_no_copy_is_given_up_while_a_cell_may_join_soon() -> None:
    """A server that has just started has seen none answer for long enough."""
    two = group("g", "a", "b", factor=2)
    drained = seen(two, cells="abd", states={"a": "draining", "b": "draining"})
    assert planned(drained) == [Admit("g", 7, "d")]
    just_begun = front_end(*(Report(cell, None, NOW_US - SECOND_US) for cell in "abd"))
    soon = structs.replace(drained, front_ends=(just_begun,))
    assert planned(soon) == []
    assert waits_for(soon, OPTIONS, NOW_US)[0].startswith("a drains, and g cannot leave it: to get")
    # One that is down is not waited for.
    down = structs.replace(drained, probes=(answers("a"), answers("b"), fails("d")))
    assert planned(down) == [Release("g", 7, "b")]


def test_groups_without_queues_wait_for_nothing() -> None:
    groups = [group(f"g{number:02}", "a", factor=1, empty=True) for number in range(40)]
    drained = planned(seen(*groups, cells="abc", states={"a": "draining"}))
    assert len(drained) == 40
    assert {action.cell for action in drained} == {"b", "c"}
    # A new cell gets its share of them at once, and no more than that.
    shared = planned(seen(*groups, cells="ab"))
    assert 18 <= len(shared) <= 20
    assert set(shared) <= {Admit(one.name, 7, "b") for one in groups}
    held = [structs.replace(one, empty=False) for one in groups]
    assert len(planned(seen(*held, cells="abc", states={"a": "draining"}))) == 16
    assert len(planned(seen(*held, cells="ab"))) == 1


def test_a_new_cell_gets_its_share_step_by_step() -> None:
    groups = [group(f"g{number}", "a", "b", "c") for number in range(3)]
    assert planned(seen(*groups, cells="abcd")) == [Admit("g0", 7, "d")]
    moving = group("g0", "a", "b", "c", joining="d", since_us=NOW_US)
    assert planned(seen(moving, *groups[1:], cells="abcd")) == []


def test_a_hot_cell_gives_a_group_away() -> None:
    groups = group("g", "a", "b", "c"), group("h", "b", "c", "d"), group("i", "d", "c", "b")
    busy = front_end(answers("a", requests_per_s=3000.0), *map(answers, "bcd"))
    assert planned(seen(*groups, cells="abcd", front_ends=(busy,))) == []  # d has more groups
    quiet = seen(groups[0], group("h", "a", "b", "c"), group("i", "a", "b", "d"), cells="abcd")
    assert planned(structs.replace(quiet, front_ends=(busy,))) == [Admit("g", 7, "d")]


def test_a_group_moves_to_the_cells_that_were_chosen_for_it_and_stays_there() -> None:
    """Step by step, whatever else waits, and no group beside it moves."""

    def moves(members: str, chosen: str, **others: Any) -> list[Any]:
        beside = group("beside", "a", "b", factor=2)
        one = group("own", *members, factor=2, chosen=tuple(chosen))
        return planned(seen(beside, one, cells="abcd", **others))

    assert moves("ab", "dc") == [Admit("own", 7, "d")]
    assert moves("abd", "dc") == [Release("own", 7, "b")]
    assert moves("ad", "dc") == [Admit("own", 7, "c")]
    assert moves("adc", "dc") == [Release("own", 7, "a")]
    assert moves("dc", "dc") == []
    assert moves("ad", "d") == []  # Of two copies one was chosen.
    # Who may not join is waited for; who drains is left, and who is back comes first.
    assert moves("ab", "d", states={"d": "draining"}) == []
    assert moves("ab", "dc", probes=(fails("d"),)) == [Admit("own", 7, "c")]
    assert moves("dc", "dc", states={"d": "draining"}) == [Admit("own", 7, "a")]
    assert moves("d", "dc") == [Admit("own", 7, "c")]
    # It stays, however much its cells have to do.
    busy = front_end(answers("d", requests_per_s=3000.0), *map(answers, "abc"))
    assert moves("dc", "dc", front_ends=(busy,)) == []


def test_cells_become_full_and_have_room_again() -> None:
    def change(state: str, *, full: bool) -> list[Any]:
        cells = (CellRecord("a", state), *map(CellRecord, "bc"))
        told = front_end(answers("a", full=full))
        groups = (group("g", "a", "b", "c"),)
        return planned(Observation(at_us=NOW_US, cells=cells, groups=groups, front_ends=(told,)))

    assert change("active", full=True) == [ChangeCell("a", "active", "full")]
    assert change("active", full=False) == change("full", full=True) == []
    assert change("full", full=False) == [ChangeCell("a", "full", "active")]
    assert not any(isinstance(one, ChangeCell) for one in change("draining", full=True))


def test_a_cell_that_was_down_gets_members_when_it_has_answered_for_a_while() -> None:
    def joins(*reports: Report) -> bool:
        return planned(seen(group("g", "a", "b"), probes=reports)) == [Admit("g", 7, "c")]

    assert joins(answers("c"))
    assert not joins(Report("c", None, NOW_US - 9 * SECOND_US))
    assert not joins(fails("c", for_s=1))


def test_an_operator_may_call_cells_failed_whatever_they_answer_and_however_many() -> None:
    groups = group("g", "a", "b", "c"), group("h", "b", "c")
    called = seen(*groups, states={"a": "failed", "b": "failed"}, probes=(answers("a"),))
    recent = structs.replace(called, removal=Removal("x", NOW_US))
    assert planned(recent) == [TakeOut("a", {"g": 7})]


def test_a_group_without_a_full_member_is_left_to_people() -> None:
    lost = group("g", members=(Member("a", 7, full=False),))
    assert planned(seen(lost, probes=(fails("a"),))) == []


def logs(**changed: Any) -> Logs:
    made = Logs("1", "r", "q.fifo", "u", 2, 8, LONG_AGO_US, 200.0, may_split=True)
    return structs.replace(made, **changed)


def test_a_hot_queue_gets_more_partitions() -> None:
    split = Split("1", "r", "q.fifo", "u", 2)
    assert planned(Observation(at_us=NOW_US, logs=(logs(),))) == [split]
    for changed in (
        {"may_split": False},
        {"appends_per_s": 159.0},
        {"since_us": NOW_US - 599 * SECOND_US},
    ):
        assert planned(Observation(at_us=NOW_US, logs=(logs(**changed),))) == []


def test_drained_generations_are_retired() -> None:
    drained = logs(appends_per_s=0.0, drained_through=1)
    assert planned(Observation(at_us=NOW_US, logs=(drained,))) == [
        Retire("1", "r", "q.fifo", "u", 1)
    ]


def test_managers_copy_groups_in_orders_of_their_own() -> None:
    copies = [Complete(f"g3.{number:02}", 7, "c") for number in range(16)]
    others: list[Action] = [TakeOut("a", {"g1.00": 1}), Release("g2.00", 1, "b")]
    actions: list[Action] = [others[0], *copies[:8], others[1], *copies[8:]]
    orders = [in_own_order(actions, own) for own in ("one", "two", "one")]
    assert orders[0] == orders[2]
    assert all((order[0], order[9]) == (others[0], others[1]) for order in orders)
    assert all({*map(repr, order)} == {*map(repr, actions)} for order in orders)
    halves = [{one.group for one in order[1:9] if isinstance(one, Complete)} for order in orders]
    assert len(halves[0] & halves[1]) < 8, "two who begin together copy different ones first"


def test_a_cell_drains_also_out_of_groups_without_queues_that_want_more_cells_than_there_are() -> (
    None
):
    eight = group("g8.00", "a", "b", "c", "d", factor=8, empty=True)
    three = group("g3.00", "a", "b", "c", factor=3)
    observation = seen(eight, three, cells="abcd", states={"d": "draining"})
    assert planned(observation) == [Release("g8.00", 7, "d", forced=True)]
    assert waits_for(observation, OPTIONS, NOW_US) == []
    with_queues = structs.replace(eight, empty=False)
    observation = seen(with_queues, cells="abcd", states={"d": "draining"})
    assert planned(observation) == []
    assert waits_for(observation, OPTIONS, NOW_US)[0].startswith("d drains, and g8.00 cannot leave")
