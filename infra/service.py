"""The service: doors, the functions behind them, the functions that follow what they wrote."""

import json
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_logs_destinations as logs_destinations
from aws_cdk import aws_sqs as sqs

from infra import permissions
from infra.bundle import FunctionCode
from infra.doors import RestDoor, add_function_url
from infra.findings import accept
from infra.functions import Function, FunctionShape
from infra.options import StageOptions
from infra.state import USAGE_PREFIX, StateStack

USAGE_PATTERN: Final = '"tidegate.usage"'
"""Lines of the doors' logs that are usage records: control_plane/serverless/usage.py."""

STREAM_FILTER: Final = {
    "eventName": ["REMOVE"],
    "dynamodb": {"OldImage": {"o": {"S": [{"exists": True}]}}},
}
"""Records that a function is called for: control_plane/serverless/stream.py."""

_FOLLOWER_MEMORY_MB: Final = 512
_FOLLOWER_TIMEOUT_S: Final = 60
_STREAM_BATCH: Final = 1000
_STREAM_WINDOW_S: Final = 5
_STREAM_RETRIES: Final = 10
_USAGE_RETRIES: Final = 2
_UNDELIVERED_DAYS: Final = 14

_ITSELF: Final = {"AwsSolutions-SQS3": "This is the dead-letter queue."}


class ServiceStack(cdk.Stack):
    """What answers requests. It holds no data: it may be destroyed and made anew."""

    def __init__(
        self,
        scope: cdk.App,
        id: str,
        stage: StageOptions,
        state: StateStack,
        code: FunctionCode,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        self._stage = stage
        self._state = state
        self._code = code
        self.undelivered = self._queue()
        self.doors: dict[str, Function] = {}
        self.rest: RestDoor | None = None
        if stage.service.rest_api:
            self.doors["App"] = self._door("App", "app.app", "Answers API Gateway")
            self.rest = RestDoor(self, "Rest", stage, self.doors["App"].function)
            cdk.CfnOutput(self, "RestUrl", value=self.rest.api.url)
        if stage.service.function_url:
            self.doors["Url"] = self._door("Url", "app.url", "Answers its own URL")
            url = add_function_url(self.doors["Url"].function)
            cdk.CfnOutput(self, "FunctionUrl", value=url.url)
        self.task = self._task()
        self.stream = self._follow_stream()
        self.usage = self._follow_usage()

    def functions(self) -> dict[str, Function]:
        """All functions by their names."""
        return {**self.doors, "Task": self.task, "Stream": self.stream, "Usage": self.usage}

    def _door(self, id: str, handler: str, description: str) -> Function:
        service = self._stage.service
        return self._function(
            id,
            FunctionShape(
                handler=handler,
                description=f"Tidegate {self._stage.name}: {description}",
                memory_mb=service.memory_mb,
                timeout_s=service.timeout_s,
                environment={
                    **self._environment(),
                    **({"TIDEGATE_BASE_URL": service.base_url} if service.base_url else {}),
                    "TIDEGATE_LONG_POLL_S_MAX": str(service.long_poll_s_max),
                    "TIDEGATE_USAGE": self._usage_place(),
                },
                statements=[
                    *permissions.use_cell(self._state, service.queue_keys),
                    permissions.mark_usage(self._state, USAGE_PREFIX),
                ],
                reserved_concurrency=service.reserved_concurrency or None,
            ),
        )

    def _task(self) -> Function:
        cluster, service = self._stage.cluster, self._stage.service
        return self._function(
            "Task",
            FunctionShape(
                handler="app.task",
                description=f"Tidegate {self._stage.name}: tasks of the cluster manager",
                memory_mb=cluster.memory_mb,
                timeout_s=cluster.timeout_s,
                environment=self._environment(),
                statements=permissions.use_cell(self._state, service.queue_keys),
            ),
        )

    def _follow_stream(self) -> Function:
        """What was written to the cell, in the order of each partition."""
        stream_arn = self._state.cell.table.attr_stream_arn
        function = self._function(
            "Stream",
            FunctionShape(
                handler="app.stream",
                description=f"Tidegate {self._stage.name}: follows the cell's stream",
                memory_mb=_FOLLOWER_MEMORY_MB,
                timeout_s=_FOLLOWER_TIMEOUT_S,
                environment=self._environment(),
                statements=[
                    *permissions.use_cell(self._state, self._stage.service.queue_keys),
                    permissions.read_stream(stream_arn),
                    permissions.send_to(self.undelivered),
                ],
            ),
        )
        lambda_.CfnEventSourceMapping(
            self,
            "StreamMapping",
            function_name=function.function.function_name,
            event_source_arn=stream_arn,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON.value,
            batch_size=_STREAM_BATCH,
            maximum_batching_window_in_seconds=_STREAM_WINDOW_S,
            maximum_retry_attempts=_STREAM_RETRIES,
            bisect_batch_on_function_error=True,
            function_response_types=["ReportBatchItemFailures"],
            filter_criteria=lambda_.CfnEventSourceMapping.FilterCriteriaProperty(
                filters=[
                    lambda_.CfnEventSourceMapping.FilterProperty(pattern=json.dumps(STREAM_FILTER))
                ]
            ),
            destination_config=lambda_.CfnEventSourceMapping.DestinationConfigProperty(
                on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(
                    destination=self.undelivered.queue_arn
                )
            ),
        ).node.add_dependency(function.role)
        return function

    def _follow_usage(self) -> Function:
        """What the doors served, from their logs."""
        function = self._function(
            "Usage",
            FunctionShape(
                handler="app.usage",
                description=f"Tidegate {self._stage.name}: writes usage records",
                memory_mb=_FOLLOWER_MEMORY_MB,
                timeout_s=_FOLLOWER_TIMEOUT_S,
                environment={
                    **self._everywhere(),
                    "TIDEGATE_USAGE": self._usage_place(),
                },
                statements=[
                    permissions.write_usage(self._state, USAGE_PREFIX),
                    permissions.send_to(self.undelivered),
                ],
            ),
            self._code.usage,
        )
        lambda_.CfnEventInvokeConfig(
            self,
            "UsageInvocations",
            function_name=function.function.function_name,
            qualifier="$LATEST",
            maximum_retry_attempts=_USAGE_RETRIES,
            destination_config=lambda_.CfnEventInvokeConfig.DestinationConfigProperty(
                on_failure=lambda_.CfnEventInvokeConfig.OnFailureProperty(
                    destination=self.undelivered.queue_arn
                )
            ),
        ).node.add_dependency(function.role)
        for name, door in self.doors.items():
            # Lines of new doors are for a function that reads them; it reads those of old doors.
            _after(door.function, function.function)
            logs.SubscriptionFilter(
                self,
                f"UsageOf{name}",
                log_group=door.logs,
                destination=logs_destinations.LambdaDestination(function.function),
                filter_pattern=logs.FilterPattern.literal(USAGE_PATTERN),
            )
        return function

    def _function(
        self, id: str, shape: FunctionShape, code: lambda_.Code | None = None
    ) -> Function:
        function = Function(self, id, self._stage, code or self._code.all, shape)
        accept(function.role, permissions.reasons(self._state, USAGE_PREFIX))
        return function

    def _environment(self) -> dict[str, str]:
        """What functions are told that open the service; serverless/settings.py reads it."""
        state = self._state
        return {
            **self._everywhere(),
            "TIDEGATE_TABLE": state.cell.table.ref,
            **self._cell_name(),
            "TIDEGATE_BLOBS": f"s3://{state.cell.bodies.bucket_name}",
            "TIDEGATE_KMS_KEY": state.master_key.key_arn,
            "TIDEGATE_ACCOUNT": self._stage.service.operator,
            **self._dropping(),
            **self._strict_streams(),
            **self._cells(),
            **self._metadata_cache(),
        }

    def _cell_name(self) -> dict[str, str]:
        state = self._stage.state
        return {"TIDEGATE_CELL_NAME": state.table} if state.restored_table else {}

    def _dropping(self) -> dict[str, str]:
        pace = self._stage.cluster.drop_pace
        return {"TIDEGATE_DROP_PACE": str(pace)} if pace else {}

    def _strict_streams(self) -> dict[str, str]:
        seconds = self._stage.service.strict_streams_s
        return {"TIDEGATE_STRICT_STREAMS": str(seconds)} if seconds >= 0 else {}

    def _cells(self) -> dict[str, str]:
        """The further ones."""
        further = [table.ref for table in self._state.further]
        if not further:
            return {}
        return {
            "TIDEGATE_CELLS": ",".join(further),
            "TIDEGATE_GRACE_S": str(self._stage.cluster.grace_s),
        }

    def _metadata_cache(self) -> dict[str, str]:
        service = self._stage.service
        if not service.metadata_cache:
            return {}
        return {
            "TIDEGATE_METADATA_CACHE": ",".join(service.metadata_cache),
            "TIDEGATE_METADATA_CACHE_LAYOUT": service.metadata_cache_layout,
            "TIDEGATE_METADATA_CACHE_TLS": "on" if service.metadata_cache_tls else "off",
        }

    def _usage_place(self) -> str:
        return f"s3://{self._state.usage.bucket_name}/{USAGE_PREFIX}"

    def _everywhere(self) -> dict[str, str]:
        service = self._stage.service
        return {
            "TIDEGATE_LOG_LEVEL": service.log_level,
            **({"TIDEGATE_ENDPOINT": service.endpoint} if service.endpoint else {}),
        }

    def _queue(self) -> sqs.Queue:
        """Where events go that a follower could not handle."""
        queue = sqs.Queue(
            self,
            "Undelivered",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(_UNDELIVERED_DAYS),
        )
        accept(queue, _ITSELF)
        return queue


def _after(function: lambda_.Function, first: lambda_.Function) -> None:
    """Deploy one function when the other is there in its new form."""
    later, earlier = function.node.default_child, first.node.default_child
    assert isinstance(later, lambda_.CfnFunction)  # noqa: S101 - what a function is made of
    assert isinstance(earlier, lambda_.CfnFunction)  # noqa: S101 - likewise
    later.add_dependency(earlier)
