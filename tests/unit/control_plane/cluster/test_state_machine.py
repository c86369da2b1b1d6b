"""The state machine as a document: sound, bounded, and made for this code's tasks."""

import inspect
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from control_plane.cluster.state_machine import beat_definition, definition
from control_plane.serverless import tasks
from data_plane import ports
from data_plane.replication import member_cell

ARN = "arn:aws:lambda:eu-west-1:123456789012:function:tidegate-task"
MANAGER = "arn:aws:states:eu-west-1:123456789012:stateMachine:tidegate"
MACHINE = definition(ARN)
BEAT = beat_definition(ARN, MANAGER)
EXPRESS_SECONDS_MAX = 300
"""https://docs.aws.amazon.com/step-functions/latest/dg/service-quotas.html"""
LAMBDA_SECONDS_MAX = 900
ABOUT_CELLS_S_MIN = 30
"""Observing, planning and verifying take seconds."""

Machine = dict[str, Any]


def machines(machine: Machine = MACHINE) -> Iterator[Machine]:
    """The state machine, and those inside its states."""
    yield machine
    for state in machine["States"].values():
        for inner in (*state.get("Branches", ()), *filter(None, [state.get("ItemProcessor")])):
            yield from machines(inner)


def states() -> Iterator[tuple[str, Machine]]:
    for machine in machines():
        yield from machine["States"].items()


def following(state: Machine) -> Iterator[str]:
    """Where it goes from a state."""
    for name in ("Next", "Default"):
        if name in state:
            yield state[name]
    for rule in (*state.get("Choices", ()), *state.get("Catch", ())):
        yield rule["Next"]


TASKS = [pytest.param(state, id=name) for name, state in states() if state["Type"] == "Task"]


@pytest.mark.parametrize("machine", [*machines(), BEAT], ids=["outer", "inner", "beat"])
def test_every_state_is_reached_and_every_next_state_exists(machine: Machine) -> None:
    reached, ahead = set[str](), [machine["StartAt"]]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += following(machine["States"][name])
    assert reached == set(machine["States"])


@pytest.mark.parametrize("machine", [*machines(), BEAT], ids=["outer", "inner", "beat"])
def test_every_state_goes_on_or_ends(machine: Machine) -> None:
    for state in machine["States"].values():
        ends = state.get("End") is True or state["Type"] in {"Succeed", "Fail"}
        assert ends != any(following(state))


@pytest.mark.parametrize("task", TASKS)
def test_every_task_is_bounded_and_its_failure_is_caught(task: Machine) -> None:
    assert task["Resource"] == ARN
    about_cells = "task" in task.get("Parameters", {})
    seconds_min = ABOUT_CELLS_S_MIN if about_cells else LAMBDA_SECONDS_MAX + 1
    assert seconds_min <= task["TimeoutSeconds"] < MACHINE["TimeoutSeconds"]
    for retry in task["Retry"]:
        assert 1 <= retry["MaxAttempts"] <= 10
        assert retry["BackoffRate"] >= 2
        assert retry["JitterStrategy"] == "FULL"
        assert retry["IntervalSeconds"] >= 1
    assert task["Catch"][-1]["ErrorEquals"] == ["States.ALL"]


def test_what_passes_by_itself_is_retried_by_the_names_that_exceptions_have() -> None:
    """What a cell says of itself; that it is full, or damaged, does not pass by itself."""
    unavailable = {
        name
        for module in (ports, member_cell)
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, ports.CellUnavailableError)
    }
    (task,) = (state for name, state in states() if name == "Do")
    named = {name for retry in task["Retry"] for name in retry["ErrorEquals"]}
    ours = {name for name in named if "." not in name}
    assert ours == unavailable - {"CellFullError", "DamagedItemError"}


def test_the_tasks_that_are_done_where_none_are_named_are_all_there_are() -> None:
    assert MACHINE["States"]["All"]["Result"]["tasks"] == list(tasks.TASKS)


def test_nothing_but_the_function_is_to_be_filled_in() -> None:
    text = files("control_plane.cluster").joinpath("state_machine.asl.json").read_text()
    assert set(re.findall(r"\$\{\w+", text)) == {"${TaskFunctionArn"}
    assert json.loads(text.replace("${TaskFunctionArn}", ARN)) == MACHINE


def test_rounds_fit_into_the_time_and_the_history_of_an_execution() -> None:
    """Step Functions ends an execution with 25,000 events; a round has nine at most."""
    assert MACHINE["TimeoutSeconds"] > tasks.ROUNDS_MAX * LAMBDA_SECONDS_MAX
    assert tasks.ROUNDS_MAX * 9 * len(tasks.TASKS) < 25_000


def test_a_look_has_what_an_express_workflow_can_do() -> None:
    """Five minutes, no tokens, and nobody waits for who was started."""
    tasks_of = [state for state in BEAT["States"].values() if state["Type"] == "Task"]

    assert {state["Type"] for state in BEAT["States"].values()} <= {"Task", "Choice", "Pass"}
    assert {state["Resource"] for state in tasks_of} == {
        ARN,
        "arn:aws:states:::states:startExecution",
    }
    most_s = sum(
        state["TimeoutSeconds"]
        * (1 + sum(retry["MaxAttempts"] for retry in state.get("Retry", ())))
        for state in tasks_of
    )
    assert BEAT["TimeoutSeconds"] < EXPRESS_SECONDS_MAX
    assert BEAT["States"]["Look"]["TimeoutSeconds"] + most_s // 4 < BEAT["TimeoutSeconds"]


def test_a_look_that_fails_starts_the_manager_with_all_it_was_asked_for() -> None:
    look, everything = BEAT["States"]["Look"], BEAT["States"]["All"]

    assert "Retry" not in look
    assert look["Catch"][-1]["ErrorEquals"] == ["States.ALL"]
    assert look["Catch"][-1]["Next"] == "All"
    assert (everything["Parameters"], everything["Next"]) == ({"input.$": "$"}, "Start")
    assert BEAT["States"]["Start"]["Parameters"] == {
        "StateMachineArn": MANAGER,
        "Input.$": "$.input",
    }
