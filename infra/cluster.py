"""The cluster manager: a state machine, and a cheap one that starts it when anything is due.

Their tasks are a function's. The manager is a Standard workflow, since an execution may take hours;
the beat before it an Express one, of which 44,000 a month cost cents (docs/cost.md).
"""

import json
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as stepfunctions

from control_plane.cluster.state_machine import beat_definition, definition
from infra.findings import accept
from infra.functions import retention
from infra.monitoring_options import MonitoringOptions
from infra.options import StageOptions
from infra.queue_metrics import MEASURED_MINUTES

OFTEN: Final = ("move_messages", "sweep_dropped")
"""Tasks of which somebody waits for the outcome."""

MEASURE: Final = "measure_queues"
"""The task of the function that tells depth and age of queues."""

SELDOM: Final = ("sweep_bodies",)
"""Tasks that read everything once."""

HALF_HOURLY: Final = ("keep_streams",)
"""What is to stay longer, since a retention was raised, has an hour."""

KEEP_MINUTES: Final = 30

_TASK_FUNCTION: Final = "TaskFunctionArn"
_MANAGER: Final = "ManagerArn"
_START: Final = "StartExecution"

_START_AGE_S_MAX: Final = 300
_START_RETRIES: Final = 3
_NOT_STARTED_DAYS: Final = 14

_ITSELF: Final = {"AwsSolutions-SQS3": "This is the dead-letter queue."}
_NO_OTHER_WAY: Final = {
    "AwsSolutions-IAM5[Resource::*]": "Actions that deliver a state machine's logs and traces are"
    " not restricted to resources: AWS documents them with all.",
}
_ERRORS_ALONE: Final = {
    "AwsSolutions-SF1": "Executions keep their history for 90 days; the log is for their errors.",
}
_ERRORS_OF_BEATS: Final = {
    "AwsSolutions-SF1": "A beat has nothing to tell but that it failed; one comes each minute.",
}
_NO_TRACES: Final = {
    "AwsSolutions-SF2": "X-Ray bills traces, of beats 44,000 a month: an option of the stage.",
}


class ClusterStack(cdk.Stack):
    """The state machine, and the schedules that start it."""

    def __init__(
        self,
        scope: cdk.App,
        id: str,
        stage: StageOptions,
        tasks: lambda_.IFunction,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        self._stage = stage
        self._logs = logs.LogGroup(
            self,
            "Logs",
            # With this prefix, log groups take no room in the account's one policy for logs.
            log_group_name=f"/aws/vendedlogs/states/tidegate-{stage.name}",
            retention=retention(stage),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        invoke = _may("lambda:InvokeFunction", tasks.function_arn)
        self.machine = self._machine(
            "Manager",
            stepfunctions.StateMachineType.STANDARD,
            definition(f"${{{_TASK_FUNCTION}}}"),
            {_TASK_FUNCTION: tasks.function_arn},
            [invoke],
        )
        accept(self.machine, _ERRORS_ALONE)
        start = _may("states:StartExecution", self.machine.state_machine_arn)
        self.beat = self._machine(
            "Beat",
            stepfunctions.StateMachineType.EXPRESS,
            beat_definition(f"${{{_TASK_FUNCTION}}}", f"${{{_MANAGER}}}", f"${{{_START}}}"),
            {
                _TASK_FUNCTION: tasks.function_arn,
                _MANAGER: self.machine.state_machine_arn,
                _START: f"arn:{cdk.Aws.PARTITION}:states:::states:startExecution",
            },
            [invoke, start],
        )
        accept(self.beat, _ERRORS_OF_BEATS)
        begin = _may("states:StartExecution", self.beat.state_machine_arn)
        self._starter = iam.Role(
            self,
            "StarterRole",
            assumed_by=iam.ServicePrincipal("events.amazonaws.com"),
            inline_policies=_policy([start, begin]),
        )
        self.not_started = self._queue()
        cells = {"cells": True} if stage.state.cells else {}
        often = {"tasks": OFTEN, **cells}
        minutes, hours = stage.cluster.period_minutes, stage.cluster.sweep_hours
        self._schedule("Often", self.beat, often, _rate(minutes, "minute"))
        self._schedule("Seldom", self.machine, {"tasks": SELDOM}, _rate(hours, "hour"))
        kept = {"tasks": HALF_HOURLY}
        self._schedule("Streams", self.beat, kept, _rate(KEEP_MINUTES, "minute"))
        if stage.monitoring.queues or stage.monitoring.groups:
            self._measure(tasks, stage.monitoring)
        cdk.CfnOutput(self, "StateMachine", value=self.machine.state_machine_arn)

    def _measure(self, tasks: lambda_.IFunction, watched: MonitoringOptions) -> None:
        """Ask for what is gauged, without a state machine: a lost answer is no harm."""
        queues = [
            {"account": one.account, "region": self.region, "queue": one.queue}
            for one in watched.queues
        ]
        groups = [
            {"account": one.account, "region": self.region, "group": one.group}
            for one in watched.groups
        ]
        rule = events.CfnRule(
            self,
            "Measure",
            description="Depth and age of queues, lags of consumer groups",
            schedule_expression=_rate(MEASURED_MINUTES, "minute"),
            state="ENABLED",
            targets=[
                events.CfnRule.TargetProperty(
                    id="Tasks",
                    arn=tasks.function_arn,
                    input=json.dumps({"task": MEASURE, "queues": queues, "groups": groups}),
                    dead_letter_config=events.CfnRule.DeadLetterConfigProperty(
                        arn=self.not_started.queue_arn
                    ),
                    retry_policy=events.CfnRule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=_START_AGE_S_MAX,
                        maximum_retry_attempts=_START_RETRIES,
                    ),
                )
            ],
        )
        lambda_.CfnPermission(
            self,
            "MayMeasure",
            action="lambda:InvokeFunction",
            function_name=tasks.function_arn,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
        )

    def _machine(
        self,
        id: str,
        kind: stepfunctions.StateMachineType,
        document: dict[str, Any],
        values: dict[str, str],
        statements: list[iam.PolicyStatement],
    ) -> stepfunctions.StateMachine:
        role = iam.Role(
            self,
            f"{id}Role",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
            inline_policies=_policy(statements),
        )
        machine = stepfunctions.StateMachine(
            self,
            id,
            state_machine_type=kind,
            definition_body=stepfunctions.DefinitionBody.from_string(json.dumps(document)),
            definition_substitutions=values,
            role=role,
            tracing_enabled=self._stage.service.tracing,
            logs=stepfunctions.LogOptions(
                destination=self._logs, level=stepfunctions.LogLevel.ERROR
            ),
        )
        accept(role, _NO_OTHER_WAY)
        if not self._stage.service.tracing:
            accept(machine, _NO_TRACES)
        return machine

    def _schedule(
        self,
        id: str,
        machine: stepfunctions.StateMachine,
        given: dict[str, Any],
        rate: str,
    ) -> None:
        events.CfnRule(
            self,
            id,
            description=f"The cluster manager: {', '.join(given['tasks'])}",
            schedule_expression=rate,
            state="ENABLED",
            targets=[
                events.CfnRule.TargetProperty(
                    id="Manager",
                    arn=machine.state_machine_arn,
                    role_arn=self._starter.role_arn,
                    input=json.dumps(given),
                    dead_letter_config=events.CfnRule.DeadLetterConfigProperty(
                        arn=self.not_started.queue_arn
                    ),
                    # The next start does what this one would have done.
                    retry_policy=events.CfnRule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=_START_AGE_S_MAX,
                        maximum_retry_attempts=_START_RETRIES,
                    ),
                )
            ],
        )

    def _queue(self) -> sqs.Queue:
        """Where starts go that the schedules could not bring about."""
        queue = sqs.Queue(
            self,
            "NotStarted",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(_NOT_STARTED_DAYS),
        )
        queue.grant_send_messages(
            iam.ServicePrincipal(
                "events.amazonaws.com",
                conditions={"StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID}},
            )
        )
        accept(queue, _ITSELF)
        return queue


def _may(action: str, resource: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=[action], resources=[resource])


def _policy(statements: list[iam.PolicyStatement]) -> dict[str, iam.PolicyDocument]:
    """A role's only rights."""
    return {"Work": iam.PolicyDocument(statements=statements)}


def _rate(number: int, unit: str) -> str:
    return f"rate({number} {unit if number == 1 else unit + 's'})"
