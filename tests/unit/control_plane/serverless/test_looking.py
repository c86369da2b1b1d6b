"""A look: it says what is due, and does nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from control_plane.core.cost import LOOK_READS
from control_plane.message_moves import LEFTOVER_KEPT_US
from tests.unit.control_plane.serverless.test_tasks import Site

OFTEN = ["move_messages", "sweep_dropped"]
REQUESTS = ("get", "get_many", "query", "put", "update", "delete", "append")


@pytest.fixture
def site() -> Site:
    return Site()


def look(site: Site, *tasks: str) -> tuple[bool, list[str]]:
    answer = site.do({"task": "look", "input": {"tasks": tasks or OFTEN}})
    assert (answer["task"], answer["more"]) == ("look", False)
    assert answer["input"]["cells"] is False
    return answer["due"], answer["input"]["tasks"]


def test_nothing_is_due_where_nothing_was_done(site: Site) -> None:
    site.call("CreateQueue", QueueName="kept")
    assert look(site) == (False, [])
    assert site.rig.naps == []


def test_a_look_reads_as_little_as_its_price_says(site: Site) -> None:
    asked = []

    def counted(name: str) -> Callable[..., Any]:
        request = getattr(site.cell, name)

        def ask(*arguments: Any, **options: Any) -> Any:
            asked.append(name)
            return request(*arguments, **options)

        return ask

    for name in REQUESTS:
        setattr(site.cell, name, counted(name))
    look(site)
    assert asked == ["query"] * LOOK_READS


def test_a_move_task_is_due_as_long_as_it_runs(site: Site) -> None:
    site.bury(3)
    assert look(site) == (False, [])
    site.start()
    assert look(site) == (True, ["move_messages"])
    assert site.visible("orders") == 0
    site.do({"task": "move_messages"})
    assert site.status() == "COMPLETED"
    # What leads to it goes with a later step.
    site.clock.advance(LEFTOVER_KEPT_US / 1_000_000)
    site.do({"task": "move_messages"})
    assert look(site) == (False, [])


def test_streams_are_due_where_there_are_any(site: Site) -> None:
    assert look(site, "keep_streams") == (False, [])
    site.make_stream("clicks")
    assert look(site, "keep_streams") == (True, ["keep_streams"])


def test_a_deleted_queue_is_due_when_nobody_writes_to_it_any_more(site: Site) -> None:
    site.delete_queues(1, items=1)
    site.clock.advance(-1)
    assert look(site) == (False, [])
    site.clock.advance(1)
    left = site.left()
    assert look(site) == (True, ["sweep_dropped"])
    assert site.left() == left > 0
    site.do({"task": "sweep_dropped"})
    assert look(site) == (False, [])


def test_what_only_doing_it_can_tell_is_due(site: Site) -> None:
    assert look(site, "sweep_bodies", "sweep_dropped") == (True, ["sweep_bodies"])
