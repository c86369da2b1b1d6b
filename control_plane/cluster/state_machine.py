"""State machines in Amazon States Language, each from the one place where it is written."""

import json
from importlib.resources import files
from typing import Any, Final

START_EXECUTION: Final = "arn:aws:states:::states:startExecution"
"""How a state machine starts another one; `aws` is the partition."""

_MANAGER: Final = "state_machine.asl.json"
_BEAT: Final = "beat.asl.json"


def definition(task_function_arn: str) -> dict[str, Any]:
    """The cluster manager, whose tasks this Lambda function does (entry point `app.task`)."""
    return _filled(_MANAGER, {"${TaskFunctionArn}": task_function_arn})


def beat_definition(
    task_function_arn: str, manager_arn: str, start_execution: str = START_EXECUTION
) -> dict[str, Any]:
    """What looks whether the manager has anything to do, and starts it if so."""
    filled = {
        "${TaskFunctionArn}": task_function_arn,
        "${ManagerArn}": manager_arn,
        "${StartExecution}": start_execution,
    }
    return _filled(_BEAT, filled)


def _filled(file: str, values: dict[str, str]) -> dict[str, Any]:
    text = files(__package__).joinpath(file).read_text(encoding="utf-8")

    def with_values(member: dict[str, Any]) -> dict[str, Any]:
        return {name: _with(value, values) for name, value in member.items()}

    machine: dict[str, Any] = json.loads(text, object_hook=with_values)
    return machine


def _with(value: Any, values: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, filled in values.items():
            value = value.replace(name, filled)
    return value
