"""A deployment under moto: tables, a bucket, a key, the state machine, and a sandbox for its tasks.

What stands between state machine and sandbox is replaced: moto would run functions in Docker.
Errors reach the state machine as Lambda tells them, by the names of exceptions.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto import mock_aws
from moto.awslambda_simple.models import LambdaSimpleBackend
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.state.exec.state_task.service import (
    state_task_service_sfn as nested,
)

import app
from control_plane.cluster.state_machine import beat_definition, definition
from control_plane.serverless.opening import Opened
from control_plane.serverless.sandbox import Sandbox
from data_plane.dynamodb.opening import make_table
from data_plane.ports import Key
from data_plane.protocol.operation import Call, Params
from data_plane.stored import keys
from data_plane.stored.bodies import blob_name
from tests.unit.data_plane.dynamodb.scripted import answered, failure

ACCOUNT, REGION = "123456789012", "eu-west-1"
FUNCTION = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:tidegate-task"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/tidegate-manager"
WITHIN_S = 60
AMPLE_MS, ONE_STEP_MS = 300_000, 5_000


class Site:
    """A table, further `cells`, a bucket, a key, a state machine, and a sandbox for its tasks."""

    def __init__(self, *cells: str) -> None:
        self.tables = boto3.client("dynamodb", region_name=REGION)
        for name in ("tidegate", *cells):
            make_table(self.tables, name)
        boto3.client("s3", region_name=REGION).create_bucket(
            Bucket="bodies", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        key = boto3.client("kms", region_name=REGION).create_key()["KeyMetadata"]["Arn"]
        self.sandbox = Sandbox(
            {
                "TIDEGATE_TABLE": "tidegate",
                "TIDEGATE_REGION": REGION,
                "TIDEGATE_BLOBS": "s3://bodies",
                "TIDEGATE_KMS_KEY": key,
                "TIDEGATE_LOG_LEVEL": "error",
                "TIDEGATE_CELLS": ",".join(cells),
                "TIDEGATE_GRACE_S": "0",
            }
        )
        self.steps = boto3.client("stepfunctions", region_name=REGION)
        self.machine = self.steps.create_state_machine(
            name="tidegate", definition=json.dumps(definition(FUNCTION)), roleArn=ROLE
        )["stateMachineArn"]
        # It is an Express one where it is deployed; of those nobody can ask how they ended.
        beat = json.dumps(beat_definition(FUNCTION, self.machine))
        self.beat_machine = self.steps.create_state_machine(
            name="tidegate-beat", definition=beat, roleArn=ROLE
        )["stateMachineArn"]
        self.remaining_ms = AMPLE_MS
        self.invoked: list[dict[str, Any]] = []
        self.waited_s: list[float] = []
        self._executions = self._deleted = 0
        # Lambda would start another sandbox; one that takes turns is enough here.
        self._turn = Lock()

    @property
    def opened(self) -> Opened:
        return self.sandbox.opened

    def invoke(self, body: str, response_headers: dict[str, str]) -> bytes:
        """Do what Lambda does with an event."""
        event = json.loads(body)
        self.invoked.append(event)
        context = SimpleNamespace(get_remaining_time_in_millis=lambda: self.remaining_ms)
        try:
            with self._turn:
                return json.dumps(app.task(event, context)).encode()
        except Exception as error:  # noqa: BLE001 - Lambda tells of every one
            response_headers["x-amz-function-error"] = "Unhandled"
            told = {"errorMessage": str(error), "errorType": type(error).__name__}
            return json.dumps(told).encode()

    def execute(self, *tasks: str) -> dict[str, Any]:
        """The execution's description, when it has ended; of all tasks, if none are named."""
        return self.execute_with({"tasks": tasks} if tasks else {})

    def execute_with(self, given: dict[str, Any]) -> dict[str, Any]:
        """As `execute`, with this input."""
        return self._executed(self.machine, given)

    def beat(self, *tasks: str, cells: bool = False) -> list[dict[str, Any]]:
        """What the manager is started with, which then does it, by a look for these tasks."""
        before = {one["executionArn"] for one in self._of_manager()}
        given = {"tasks": tasks, "cells": cells} if cells else {"tasks": tasks}
        described = self._executed(self.beat_machine, given)
        assert described["status"] == "SUCCEEDED", described
        started = [
            self._ended(one["executionArn"])
            for one in self._of_manager()
            if one["executionArn"] not in before
        ]
        return [json.loads(one["input"]) for one in started]

    def _of_manager(self) -> list[Any]:
        return list(self.steps.list_executions(stateMachineArn=self.machine)["executions"])

    def _executed(self, machine: str, given: dict[str, Any]) -> dict[str, Any]:
        return self._ended(self.start(machine, json.dumps(given)))

    def start(self, machine: str, given: str) -> str:
        """An execution of a state machine."""
        self._executions += 1
        name = f"execution-{self._executions}"
        started = self.steps.start_execution(stateMachineArn=machine, name=name, input=given)
        return str(started["executionArn"])

    def _ended(self, execution: str) -> dict[str, Any]:
        until = monotonic() + WITHIN_S
        while monotonic() < until:
            described: dict[str, Any] = self.steps.describe_execution(executionArn=execution)
            if described["status"] != "RUNNING":
                return described
            sleep(0.01)  # between two looks at an execution
        raise AssertionError("the execution did not end")

    def call(self, action: str, **params: Any) -> Params:
        async def call() -> Params:
            service, several = self.opened.service, self.opened.several
            if several is not None:
                await several.freshen()
            known = {one.name: one for one in service.operations}
            operation = known.get(action) or service.streams.service.operations[action]
            queue = None
            if "QueueUrl" in params:
                queue = await service.registry.find(ACCOUNT, REGION, params["QueueUrl"])
            now_us = self.opened.clock.now_us()
            made = Call("r", ACCOUNT, REGION, "", now_us, params, queue)
            answer = await operation.perform(made)
            if several is not None:
                await several.ship()
            return answer

        return self.opened.run(call())

    def delete_a_queue(self) -> None:
        self._deleted += 1
        name = f"gone-{self._deleted}"
        self.call("CreateQueue", QueueName=name)
        self.call("DeleteQueue", QueueUrl=name)

    def orphan(self, count: int) -> None:
        """Bodies that no segment names."""

        async def put() -> None:
            for number in range(count):
                key = Key(keys.segments("00112233445566aa", 0, 0), keys.be64(number) + bytes(11))
                await self.opened.ground.bodies["tidegate"]._blobs.put(blob_name(key), b"body")

        self.opened.run(put())

    def left(self) -> tuple[int, int]:
        """Deleted and purged queues that were not swept, and bodies."""

        async def count() -> tuple[int, int]:
            registry = self.opened.service.registry
            dropped = [*await registry.dropped(10), *await registry.purges(10)]
            blobs = await self.opened.ground.bodies["tidegate"]._blobs.names(limit=1000)
            return len(dropped), len([blob for blob in blobs if blob.name != "cell"])

        return self.opened.run(count())

    @contextmanager
    def throttled(self, waits: float) -> Iterator[Counter[str]]:
        """Let DynamoDB throttle until the state machine has waited so often; what it throttled."""
        cell: Any = self.opened.ground.control
        events = cell._requests._client.meta.events
        counted = Counter[str]()

        def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
            if len(self.waited_s) >= waits:
                return None
            counted["requests"] += 1
            return answered(request, failure("ProvisionedThroughputExceededException"))

        events.register_first("before-send.dynamodb", answer)
        yield counted
        events.unregister("before-send.dynamodb", answer)


@contextmanager
def deployment(*cells: str, patience_us: int = 0) -> Iterator[Site]:
    """A site, as long as it is needed; cells are given up after `patience_us` (0: as ever)."""
    config: Any = {
        "stepfunctions": {"execute_state_machine": True},
        "lambda": {"use_docker": False},
    }
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with pytest.MonkeyPatch.context() as environment, mock_aws(config=config):
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.setenv(name, "testing")
        made = Site(*cells)
        tables: Any = (made.opened.ground.control, *made.opened.ground.cells.values())
        for cell in tables if patience_us else ():
            environment.setattr(cell, "_deadline_us", patience_us)
            for part in (cell, cell._requests, cell._time):
                # Nobody waits for a thread, however busy the machine is.
                environment.setattr(part, "_monotonic_us", lambda: 0)
        yield made
    root.handlers[:], root.level = handlers, level


def prepare(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the state machine find the site's function, and wait for nothing."""
    site.invoked, site.waited_s, site.remaining_ms = [], [], AMPLE_MS
    monkeypatch.setattr(app, "sandbox", site.sandbox)
    monkeypatch.setattr(
        LambdaSimpleBackend,
        "invoke",
        lambda _self, _name, _qualifier, body, _headers, response_headers: site.invoke(
            body, response_headers
        ),
    )

    def start(_self: Any, env: Any, normalised_parameters: dict[str, str], **_: Any) -> None:
        # moto hands the names of Step Functions to boto3, which spells them otherwise.
        site.start(normalised_parameters["StateMachineArn"], normalised_parameters["Input"])
        env.stack.append({})

    monkeypatch.setattr(nested.StateTaskServiceSfn, "_eval_service_task", start)
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=site.waited_s.append))
