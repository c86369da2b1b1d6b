"""The child process that interprets the state machine for a server."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from control_plane.cluster.interpreter import Interpreter, InterpreterError

CELLS = {"tasks": [], "cells": True}


class Tasks:
    """Does what it is asked for, and fails as often as it is told to."""

    def __init__(self, *actions: Mapping[str, Any]) -> None:
        self.actions = actions
        self.asked: list[Any] = []
        self.failures: dict[Any, list[Exception]] = {}
        self.is_asked = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def __call__(self, event: Mapping[str, Any]) -> dict[str, Any]:
        task = event["task"]
        self.asked.append(task)
        self.is_asked.set()
        name = task if isinstance(task, str) else task["act"]
        if self.failures.get(name):
            raise self.failures[name].pop(0)
        await self.goes_on.wait()
        match name:
            case "observe":
                return {"observed": {"at_us": 1}}
            case "plan":
                assert event["observed"] == {"at_us": 1}
                return {"tasks": [*self.actions, *event["tasks"]]}
            case "verify":
                return {"met": len(event["results"]) == len(self.actions)}
        return {"task": task, "outcome": "done", "more": False}


async def closing(interpreter: Interpreter, work: Any) -> Any:
    try:
        return await work
    finally:
        await interpreter.close()


def test_it_executes_the_state_machine_asks_for_its_tasks_and_ends() -> None:
    admit = {"act": "admit", "group": "g3.01", "epoch": 1, "cell": "c"}
    tasks = Tasks(admit, {**admit, "cell": "d"})

    async def both() -> None:
        interpreter = Interpreter(tasks)

        async def work() -> None:
            one, other = await asyncio.gather(*(interpreter.execute(CELLS) for _ in range(2)))
            assert one.succeeded
            assert other.succeeded
            assert [result["task"]["cell"] for result in one.results] == ["c", "d"]
            assert len(tasks.asked) == 2 * 5
            tasks.failures = {"admit": [KeyError("a mistake")]}
            failed = await interpreter.execute(CELLS)
            assert (failed.status, failed.error) == ("FAILED", "TaskFailed")
            assert "KeyError" in failed.cause
            # A server that ends leaves no child, whatever that is doing.
            tasks.goes_on.clear()
            tasks.is_asked.clear()
            running = asyncio.create_task(interpreter.execute(CELLS))
            await tasks.is_asked.wait()
            child = interpreter._child
            assert child is not None
            await interpreter.close()
            with pytest.raises(InterpreterError):
                await running
            assert child.returncode == 0

        await closing(interpreter, work())

    asyncio.run(both())


def test_a_child_that_dies_cuts_off_what_it_did_and_another_one_follows() -> None:
    tasks = Tasks()

    async def dies() -> None:
        tasks.goes_on.clear()
        interpreter = Interpreter(tasks)

        async def work() -> None:
            await interpreter.start()
            cut_off = asyncio.create_task(interpreter.execute(CELLS))
            await tasks.is_asked.wait()
            child = interpreter._child
            assert child is not None
            child.kill()
            with pytest.raises(InterpreterError):
                await cut_off
            tasks.goes_on.set()
            assert (await interpreter.execute(CELLS)).succeeded

        await closing(interpreter, work())

    asyncio.run(dies())


def test_an_execution_that_was_cut_off_may_end() -> None:
    """As when a server stops while its manager has just done its work."""
    tasks = Tasks()
    tasks.goes_on.clear()

    async def cut_off() -> None:
        interpreter = Interpreter(tasks)

        async def work() -> None:
            running = asyncio.create_task(interpreter.execute(CELLS))
            await tasks.is_asked.wait()
            running.cancel()
            await asyncio.wait([running])
            tasks.goes_on.set()
            while interpreter._runs:  # the other one may take longer than one that began later
                another = await interpreter.execute(CELLS)
                assert another.succeeded

        await closing(interpreter, work())

    asyncio.run(cut_off())
