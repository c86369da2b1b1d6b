"""A server's execution and the state machine, interpreted: the same calls, waits and results.

Both do made-up tasks that succeed, ask for further rounds and fail as the test says. What an
interpreter of Step Functions makes of the state machine's file is the truth.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event as Signal
from threading import Lock
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.stepfunctions.parser.asl.component.common.retry import (
    jitter_strategy_decl,
    retrier_decl,
)
from moto.stepfunctions.parser.asl.component.eval_component import EvalComponent

from control_plane.cluster.executing import DO, OBSERVE, VERIFY, Executor, Finished, Step, Steps
from control_plane.cluster.state_machine import definition
from tests.unit.data_plane.runtime.virtual_loop import VirtualLoop, run

REGION = "eu-west-1"
FUNCTION = f"arn:aws:lambda:{REGION}:123456789012:function:tidegate-task"
ROLE = "arn:aws:iam::123456789012:role/tidegate-manager"
WITHIN_S = 60

DONE, MORE, HANGS, UNMET = "done", "more", "hangs", "unmet"
"""What a call may come to, beside an error's name."""

ERRORS = (
    "CellUnavailableError",  # both kinds of retries have their own count
    "StalePlacementError",
    "Sandbox.Timedout",
    "CellFullError",  # no retry is about this one
)


@dataclass(frozen=True)
class Script:
    """What the calls of each task come to, one after the other; then they are done."""

    tasks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    actions: Sequence[Sequence[str]] = ()

    def named(self) -> dict[str, Sequence[str]]:
        return {**self.tasks, **{f"action {n}": one for n, one in enumerate(self.actions)}}


class Tasks:
    """Does the tasks of a script, and writes down every call."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.calls: dict[str, list[dict[str, Any]]] = defaultdict(list)
        self._turn = Lock()

    def answer(self, event: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """What the call comes to, and its result."""
        told: dict[str, Any] = json.loads(json.dumps(event))
        task = told["task"]
        name = task if isinstance(task, str) else f"action {task['number']}"
        with self._turn:
            self.calls[name].append(told)
            number = len(self.calls[name]) - 1
        left = self.script.named().get(name, ())
        outcome = left[number] if number < len(left) else DONE
        match name:
            case "observe":
                result: dict[str, Any] = {"observed": {"calls": number}, "more": False}
            case "plan":
                actions = [{"act": "made up", "number": n} for n in range(len(self.script.actions))]
                result = {"tasks": actions, "more": False}
            case "verify":
                result = {"met": outcome != UNMET, "unmet": ["a line"], "more": False}
            case _:
                result = {"task": task, "outcome": DONE, "more": outcome == MORE, "calls": number}
        return outcome, result


@dataclass(frozen=True)
class Execution:
    """All that is to be the same."""

    calls: Mapping[str, Sequence[Mapping[str, Any]]]
    waits_s: Sequence[float]
    error: str
    results: Any


class Interpreted:
    """The state machine, executed by moto with tasks of this process."""

    def __init__(self) -> None:
        self._steps = boto3.client("stepfunctions", region_name=REGION)
        self._made = 0
        self._tasks = Tasks(Script())
        self._waits_s: list[float] = []
        self.machine = self.make(definition(FUNCTION))

    def make(self, document: Mapping[str, Any]) -> str:
        self._made += 1
        made = self._steps.create_state_machine(
            name=f"tidegate-{self._made}", definition=json.dumps(document), roleArn=ROLE
        )
        return str(made["stateMachineArn"])

    def invoke(self, body: str, response_headers: dict[str, str]) -> bytes:
        outcome, result = self._tasks.answer(json.loads(body))
        if outcome == HANGS:
            Signal().wait()  # for ever; threads of moto end with the process
        if outcome in {DONE, MORE, UNMET}:
            return json.dumps(result).encode()
        response_headers["x-amz-function-error"] = "Unhandled"
        return json.dumps({"errorMessage": "made up", "errorType": outcome}).encode()

    def waited(self, seconds: float) -> None:
        self._waits_s.append(round(seconds, 6))

    def execute(self, script: Script, machine: str = "") -> Execution:
        tasks = self._tasks = Tasks(script)
        waits_s = self._waits_s = []
        self._made += 1
        arn = self._steps.start_execution(
            stateMachineArn=machine or self.machine,
            name=f"execution-{self._made}",
            input='{"tasks": [], "cells": true}',
        )["executionArn"]
        until = monotonic() + WITHIN_S
        while (told := self._steps.describe_execution(executionArn=arn))["status"] == "RUNNING":
            assert monotonic() < until
            sleep(0.01)  # between two looks at an execution
        error = told.get("error", "")
        results = json.loads(told["output"])["results"] if not error else None
        if error == "TaskFailed":
            results = json.loads(told["cause"])
        return Execution(dict(tasks.calls), sorted(waits_s), error, results)


@pytest.fixture(scope="module")
def interpreted() -> Iterator[Interpreted]:
    config: Any = {
        "stepfunctions": {"execute_state_machine": True},
        "lambda": {"use_docker": False},
    }
    with pytest.MonkeyPatch.context() as patch, mock_aws(config=config):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        made = Interpreted()
        patch.setattr(
            LambdaSimpleBackend,
            "invoke",
            lambda _self, _name, _qualifier, body, _headers, response: made.invoke(body, response),
        )
        patch.setattr(retrier_decl, "time", SimpleNamespace(sleep=made.waited))
        # The longest wait that jitter may come to, on both sides.
        longest = SimpleNamespace(uniform=lambda _least, most: most)
        patch.setattr(jitter_strategy_decl, "random", longest)
        # Its own is made at first use, by each of two threads that come at once, and one of the
        # two forgets how often it waited.
        patch.setattr(EvalComponent, "heap_key", property(lambda made: str(id(made))))
        yield made


class LongestWaits:
    def random_bytes(self, count: int) -> bytes:
        return b"\xff" * count


def directly(script: Script, executor: type[Executor] = Executor, **changed: Any) -> Execution:
    """As a server executes it, in virtual time."""
    tasks, waits_s = Tasks(script), list[float]()

    async def perform(event: Mapping[str, Any]) -> Mapping[str, Any]:
        outcome, result = tasks.answer(event)
        if outcome == HANGS:
            await asyncio.Event().wait()
        if outcome in {DONE, MORE, UNMET}:
            return result
        raise type(outcome, (Exception,), {})("made up")

    async def wait(seconds: float) -> None:
        waits_s.append(round(seconds, 6))
        await asyncio.sleep(seconds)  # as long as the runner asked for

    async def execute() -> Finished:
        made = executor(perform, changed.get("steps", Steps.read()), LongestWaits(), sleep=wait)
        return await made.execute()

    loop = VirtualLoop()
    finished = run(execute(), loop)
    has_results = finished.error in {"", "TaskFailed"}
    results = json.loads(json.dumps(finished.results)) if has_results else None
    return Execution(dict(tasks.calls), sorted(waits_s), finished.error, results)


OUTCOMES = st.sampled_from((MORE, *ERRORS, *ERRORS))
SCRIPTS = st.builds(
    Script,
    st.fixed_dictionaries(
        {},
        optional={
            "observe": st.lists(st.sampled_from(ERRORS), max_size=4),
            "plan": st.lists(st.sampled_from(ERRORS), max_size=4),
            "verify": st.lists(st.sampled_from((UNMET, *ERRORS)), max_size=4),
        },
    ),
    st.lists(st.lists(OUTCOMES, max_size=9), max_size=6),
)


@given(script=SCRIPTS)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_outcomes_come_to_the_same(interpreted: Interpreted, script: Script) -> None:
    assert directly(script) == interpreted.execute(script)


UNAVAILABLE, CUT_OFF, FULL = "CellUnavailableError", "Sandbox.Timedout", "CellFullError"
EXAMPLES = {
    "nothing to do": Script(),
    "more rounds, side by side": Script(actions=[[MORE] * 3, [], [MORE], [MORE] * 2, [], [MORE]]),
    "retries start again with each round": Script(
        actions=[[*[UNAVAILABLE] * 6, MORE, *[UNAVAILABLE] * 6, MORE, CUT_OFF, CUT_OFF]]
    ),
    "each kind of error has its own count": Script(
        actions=[[UNAVAILABLE, CUT_OFF, *[UNAVAILABLE] * 5, CUT_OFF, MORE], []]
    ),
    "retries end": Script(actions=[[UNAVAILABLE] * 7, [CUT_OFF] * 3, [], [MORE]]),
    "what is not tried again": Script(actions=[[MORE, FULL], [MORE]]),
    "observing fails for good": Script({"observe": [FULL] * 3}, [[MORE]]),
    "planning fails for good": Script({"plan": [UNAVAILABLE] * 3}, [[MORE]]),
    "observing and planning fail twice": Script({"observe": [FULL] * 2, "plan": [FULL] * 2}, [[]]),
    "verifying fails for good": Script({"verify": [UNAVAILABLE] * 3}, [[]]),
    "it is not met": Script({"verify": [UNAVAILABLE, UNMET]}, [[]]),
}


@pytest.mark.parametrize("script", EXAMPLES.values(), ids=EXAMPLES)
def test_examples_come_to_the_same(interpreted: Interpreted, script: Script) -> None:
    assert directly(script) == interpreted.execute(script)


def test_a_step_that_hangs_is_given_up_and_tried_again_alike(interpreted: Interpreted) -> None:
    script = Script({"observe": [HANGS]}, [[MORE, HANGS, HANGS, MORE], [HANGS] * 3])
    document = definition(FUNCTION)
    act = document["States"]["Act"]["ItemProcessor"]["States"]
    document["States"]["Observe"]["TimeoutSeconds"] = act["Do"]["TimeoutSeconds"] = 1
    machine = interpreted.make(document)
    direct = directly(script)
    assert direct == interpreted.execute(script, machine)
    assert direct.results[1]["error"] == "States.Timeout"


def test_two_executions_of_a_script_are_the_same(interpreted: Interpreted) -> None:
    script = EXAMPLES["retries end"]
    assert directly(script) == directly(script)
    assert interpreted.execute(script) == interpreted.execute(script)


class WithoutVerify(Executor):
    async def _step(self, name: str, event: Any) -> Any:
        return {"met": True} if name == VERIFY else await super()._step(name, event)


class OneRound(Executor):
    async def _step(self, name: str, event: Any) -> Any:
        answer = await super()._step(name, event)
        return {**answer, "more": False} if name == DO else answer


class EndsWithTheFirstFailure(Executor):
    async def _act(self, tasks: Any) -> Any:
        done = []
        for task in tasks:
            done.append(await self._do(task))
            if done[-1]["outcome"] != DONE:
                break
        return tuple(done)


def with_retries(name: str, **changed: Any) -> Steps:
    """The steps, with the first retry of one changed."""
    steps = Steps.read()
    first, *others = steps.by_name[name].retries
    step = Step(steps.by_name[name].timeout_s, (replace(first, **changed), *others))
    return replace(steps, by_name={**steps.by_name, name: step})


RETRIES = Script({"observe": [FULL] * 3}), Script(actions=[[UNAVAILABLE] * 7])
PLANTED = {
    "verify is left out": (Script(actions=[[]]), WithoutVerify, Steps.read()),
    "more is not done": (Script(actions=[[MORE]]), OneRound, Steps.read()),
    "a failure ends the others": (
        Script(actions=[[FULL], [MORE]]),
        EndsWithTheFirstFailure,
        Steps.read(),
    ),
    "observe is tried once more": (RETRIES[0], Executor, with_retries(OBSERVE, attempts_max=3)),
    "an action is tried once less": (RETRIES[1], Executor, with_retries(DO, attempts_max=5)),
    "waits are longer": (RETRIES[1], Executor, with_retries(DO, interval_s=3)),
    "waits have no bound": (
        Script(actions=[[UNAVAILABLE] * 6]),
        Executor,
        with_retries(DO, delay_s_max=1e9),
    ),
    "another error is tried again": (
        Script(actions=[[FULL]]),
        Executor,
        with_retries(DO, errors=frozenset({UNAVAILABLE, FULL})),
    ),
}


@pytest.mark.parametrize(("script", "executor", "steps"), PLANTED.values(), ids=PLANTED)
def test_a_planted_difference_shows(
    interpreted: Interpreted, script: Script, executor: type[Executor], steps: Steps
) -> None:
    assert directly(script, executor, steps=steps) != interpreted.execute(script)
    assert directly(script) == interpreted.execute(script)
