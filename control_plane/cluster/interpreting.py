"""The process that interprets the state machine where no Step Functions is: moto's does it.

It speaks JSON lines with the server that started it (interpreter.py). It reads
`{"run": <id>, "input": {...}}` and `{"answer": <id>, "result": {...}}`, or with `error` and
`message` for a task that failed. It writes `{"ready": true}`, `{"task": <id>, "event": {...}}` and
`{"finished": <id>, "status": ..., ...}`. It ends with its input.
"""

import json
import logging
import os
import sys
import time
from itertools import count
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TextIO

import boto3
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend

from control_plane.cluster.state_machine import definition

_REGION: Final = "eu-west-1"
_ACCOUNT: Final = "123456789012"
_FUNCTION: Final = f"arn:aws:lambda:{_REGION}:{_ACCOUNT}:function:tidegate-task"
_ROLE: Final = f"arn:aws:iam::{_ACCOUNT}:role/tidegate-manager"
_LOOK_S: Final = 0.1
_MOTO: Final = {
    "stepfunctions": {"execute_state_machine": True},
    "lambda": {"use_docker": False},
}


class _Server:
    """The other side of the pipes: does the tasks."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._turn = Lock()
        self._ids = count(1)
        self._waiting: dict[int, SimpleQueue[dict[str, Any]]] = {}

    def tell(self, **line: Any) -> None:
        with self._turn:
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()

    def ask(self, event: dict[str, Any]) -> dict[str, Any]:
        """What the server answers; called by the thread of a state."""
        number = next(self._ids)
        answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._waiting[number] = answers
        self.tell(task=number, event=event)
        return answers.get()

    def answered(self, line: dict[str, Any]) -> None:
        self._waiting.pop(line["answer"]).put(line)


def main() -> None:
    """Serve until the input ends."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no line for the server
    # Moto logs the paths that a Choice asks for and that are not there.
    logging.getLogger("moto").setLevel(logging.CRITICAL)
    server = _Server(out)

    def invoke(
        _backend: Any, _name: str, _qualifier: Any, body: str, _headers: Any, response: Any
    ) -> bytes:
        line = server.ask(json.loads(body))
        if "error" not in line:
            return json.dumps(line["result"]).encode()
        response["x-amz-function-error"] = "Unhandled"
        told = {"errorType": line["error"], "errorMessage": line["message"]}
        return json.dumps(told).encode()

    backend: Any = LambdaSimpleBackend
    backend.invoke = invoke
    config: Any = _MOTO
    with mock_aws(config=config):
        steps = boto3.client(
            "stepfunctions",
            region_name=_REGION,
            aws_access_key_id="none",
            aws_secret_access_key="none",  # noqa: S106 - moto asks for one
        )
        machine = steps.create_state_machine(
            name="tidegate", definition=json.dumps(definition(_FUNCTION)), roleArn=_ROLE
        )["stateMachineArn"]
        server.tell(ready=True)
        for text in sys.stdin:
            line = json.loads(text)
            if "run" in line:
                Thread(target=_run, args=(server, steps, machine, line), daemon=True).start()
            else:
                server.answered(line)
        os._exit(0)  # executions under way have nobody to do their tasks


def _run(server: _Server, steps: Any, machine: str, line: dict[str, Any]) -> None:
    number = line["run"]
    started = steps.start_execution(
        stateMachineArn=machine, name=f"execution-{number}", input=json.dumps(line["input"])
    )
    while True:
        told = steps.describe_execution(executionArn=started["executionArn"])
        if told["status"] != "RUNNING":
            break
        time.sleep(_LOOK_S)  # noqa: TID251 - between two looks; this process has nothing else
    server.tell(
        finished=number,
        status=told["status"],
        output=json.loads(told.get("output") or "{}"),
        error=told.get("error", ""),
        cause=told.get("cause", ""),
    )


if __name__ == "__main__":
    main()
