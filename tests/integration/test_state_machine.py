"""The state machine, executed by moto's Step Functions with the function's own code."""

import json
from collections.abc import Iterator
from math import inf
from typing import Any

import pytest

from tests.integration.deployed_site import ACCOUNT, ONE_STEP_MS, REGION, Site, deployment, prepare


@pytest.fixture(scope="module")
def deployed() -> Iterator[Site]:
    """Made once, for it takes seconds; each test leaves nothing due behind."""
    with deployment(patience_us=50_000) as made:
        yield made


@pytest.fixture
def site(deployed: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    prepare(deployed, monkeypatch)
    sweep = deployed.opened.service.sweep
    for one in (sweep, sweep._deleted):
        monkeypatch.setattr(one, "_after_us", -10_000_000)
    monkeypatch.setattr("data_plane.stored.bodies.ORPHAN_AGE_US_MIN", -10_000_000)
    return deployed


def results_of(execution: dict[str, Any]) -> dict[str, str]:
    """What became of each task."""
    results = json.loads(execution["output"])["results"]
    return {result["task"]: result["outcome"] for result in results}


def test_all_that_is_due_is_done(site: Site) -> None:
    site.delete_a_queue()
    site.orphan(3)
    assert site.left() == (1, 3)
    execution = site.execute()
    assert execution["status"] == "SUCCEEDED"
    assert results_of(execution) == dict.fromkeys(
        ("move_messages", "sweep_dropped", "sweep_bodies", "keep_streams"), "done"
    )
    assert site.left() == (0, 0)
    told = [event["task"] for event in site.invoked]
    assert (told[:2], len(told), told[-1]) == (["observe", "plan"], 7, "verify")
    assert site.waited_s == []


def test_a_schedule_may_ask_for_some_of_the_tasks(site: Site) -> None:
    site.delete_a_queue()
    site.orphan(3)
    assert results_of(site.execute("sweep_dropped")) == {"sweep_dropped": "done"}
    assert site.left() == (0, 3)
    assert results_of(site.execute("sweep_bodies")) == {"sweep_bodies": "done"}
    assert site.left() == (0, 0)


def test_a_task_goes_on_in_further_rounds(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("data_plane.stored.bodies.SWEPT_NAMES_MAX", 2)
    site.orphan(5)
    site.remaining_ms = ONE_STEP_MS
    execution = site.execute("sweep_bodies")
    (result,) = json.loads(execution["output"])["results"]
    assert (result["rounds"], result["more"], result["after"]) == (4, False, {})
    assert [event.get("rounds") for event in site.invoked] == [None, 1, 2, 3]
    assert site.left() == (0, 0)


def test_a_throttled_task_is_tried_again(site: Site) -> None:
    site.delete_a_queue()
    with site.throttled(waits=2) as throttled:
        execution = site.execute("sweep_dropped")
    assert execution["status"] == "SUCCEEDED"
    assert throttled["requests"] >= 2
    assert (len(site.waited_s), len(site.invoked)) == (2, 3)
    assert site.left() == (0, 0)


def test_a_task_that_fails_for_good_fails_the_execution_and_no_other_task(site: Site) -> None:
    site.delete_a_queue()
    site.orphan(1)
    execution = site.execute("sweep_dropped", "no_such_task", "sweep_bodies")
    assert (execution["status"], execution["error"]) == ("FAILED", "TaskFailed")
    outcomes = {result["task"]: result for result in json.loads(execution["cause"])}
    assert outcomes["no_such_task"]["outcome"] == "failed"
    assert outcomes["no_such_task"]["error"] == "UnknownTaskError"
    assert outcomes["sweep_dropped"]["outcome"] == outcomes["sweep_bodies"]["outcome"] == "done"
    assert site.left() == (0, 0)
    assert site.waited_s == []


def test_a_cell_that_stays_throttled_is_given_up_in_the_end(site: Site) -> None:
    with site.throttled(waits=inf) as throttled:
        execution = site.execute("sweep_dropped")
    assert execution["status"] == "FAILED"
    (result,) = json.loads(execution["cause"])
    assert (result["outcome"], result["error"]) == ("failed", "CellThrottledError")
    assert throttled["requests"] >= len(site.invoked) == 1 + 6
    assert len(site.waited_s) == 6
    assert max(site.waited_s) <= 60


def test_nothing_is_started_where_nothing_is_due(site: Site) -> None:
    assert site.beat("move_messages", "sweep_dropped") == []
    assert [event["task"] for event in site.invoked] == ["look"]


def test_just_what_is_due_is_started(site: Site) -> None:
    site.delete_a_queue()
    started = site.beat("move_messages", "sweep_dropped")
    assert started == [{"tasks": ["sweep_dropped"], "cells": False}]
    assert site.left() == (0, 0)


def test_where_nobody_can_look_all_of_it_is_started(site: Site) -> None:
    """The store throttles the look alone: it is not tried again, and the manager finds out."""
    site.delete_a_queue()
    calls = site.invoked
    with site.throttled(waits=1) as throttled:
        (started,) = site.beat("move_messages", "sweep_dropped")
    assert throttled["requests"] >= 2
    assert [event["task"] for event in calls][:1] == ["look"]
    assert started["tasks"] == ["move_messages", "sweep_dropped"]
    assert started["failure"]["Error"] == "CellThrottledError"
    assert site.left() == (0, 0)


def test_depth_and_age_of_a_queue_are_lines_of_the_log(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.call("CreateQueue", QueueName="watched")
    for number in range(3):
        site.call("SendMessage", QueueUrl="watched", MessageBody=f"{number}")
    capsys.readouterr()
    queues = [{"account": ACCOUNT, "region": REGION, "queue": "watched"}]
    told = site.invoke(json.dumps({"task": "measure_queues", "queues": queues}), {})
    assert json.loads(told)["task"] == "measure_queues"
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (line["event"], line["account"], line["queue"]) == ("queue measured", ACCOUNT, "watched")
    assert line["visible"] == 3
    assert 0 <= line["age_s"] < 300
    site.call("PurgeQueue", QueueUrl="watched")
    assert site.left() == (1, 0)
    assert results_of(site.execute("sweep_dropped")) == {"sweep_dropped": "done"}
    assert site.left() == (0, 0)


def test_the_lag_of_a_group_is_a_line_of_the_log(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.call("CreateStream", StreamName="clicks", ShardCount=1)
    arn = f"arn:aws:kinesis:{REGION}:{ACCOUNT}:stream/clicks"
    position = {"Type": "TRIM_HORIZON"}
    site.call(
        "TidegateCreateGroup", GroupName="billing", StreamARNs=[arn], StartingPosition=position
    )
    for data in (b"one", b"two"):
        site.call("PutRecord", StreamName="clicks", Data=data, PartitionKey="k")
    capsys.readouterr()
    groups = [{"account": ACCOUNT, "region": REGION, "group": "billing"}]
    site.invoke(json.dumps({"task": "measure_queues", "queues": [], "groups": groups}), {})
    (line,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (line["event"], line["account"], line["group"]) == ("group measured", ACCOUNT, "billing")
    assert line["records"] == 2
    assert 0 <= line["behind_ms"] < 300_000
