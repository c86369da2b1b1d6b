"""The state machine in Amazon States Language, from the one place where it is written."""

import json
from importlib.resources import files
from typing import Any, Final

_FILE: Final = "state_machine.asl.json"
_TASK_FUNCTION: Final = "${TaskFunctionArn}"


def definition(task_function_arn: str) -> dict[str, Any]:
    """The state machine whose tasks this Lambda function does (entry point `app.task`)."""
    text = files(__package__).joinpath(_FILE).read_text(encoding="utf-8")
    machine: dict[str, Any] = json.loads(text, object_hook=_with(task_function_arn))
    return machine


def _with(task_function_arn: str) -> Any:
    def filled(member: dict[str, Any]) -> dict[str, Any]:
        return {
            name: task_function_arn if value == _TASK_FUNCTION else value
            for name, value in member.items()
        }

    return filled
