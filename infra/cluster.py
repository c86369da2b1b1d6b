"""The cluster manager: a state machine that schedules start, its tasks a function's."""

import json
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as stepfunctions

from control_plane.cluster.state_machine import definition
from infra.findings import accept
from infra.functions import retention
from infra.options import StageOptions

OFTEN: Final = ("move_messages", "sweep_dropped")
"""Tasks of which somebody waits for the outcome."""

SELDOM: Final = ("sweep_bodies",)
"""Tasks that read everything once."""

_TASK_FUNCTION: Final = "TaskFunctionArn"

_NO_OTHER_WAY: Final = {
    "AwsSolutions-IAM5[Resource::*]": "Actions that deliver a state machine's logs and traces are"
    " not restricted to resources: AWS documents them with all.",
}
_ERRORS_ALONE: Final = {
    "AwsSolutions-SF1": "Executions keep their history for 90 days; the log is for their errors.",
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
        role = iam.Role(
            self,
            "ManagerRole",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
            inline_policies=_may("lambda:InvokeFunction", tasks.function_arn),
        )
        self.machine = stepfunctions.StateMachine(
            self,
            "Manager",
            definition_body=stepfunctions.DefinitionBody.from_string(
                json.dumps(definition(f"${{{_TASK_FUNCTION}}}"))
            ),
            definition_substitutions={_TASK_FUNCTION: tasks.function_arn},
            role=role,
            tracing_enabled=True,
            logs=stepfunctions.LogOptions(
                # With this prefix, log groups take no room in the account's one policy for logs.
                destination=logs.LogGroup(
                    self,
                    "Logs",
                    log_group_name=f"/aws/vendedlogs/states/tidegate-{stage.name}",
                    retention=retention(stage),
                    removal_policy=cdk.RemovalPolicy.DESTROY,
                ),
                level=stepfunctions.LogLevel.ERROR,
            ),
        )
        accept(role, _NO_OTHER_WAY)
        accept(self.machine, _ERRORS_ALONE)
        self._starter = iam.Role(
            self,
            "StarterRole",
            assumed_by=iam.ServicePrincipal("events.amazonaws.com"),
            inline_policies=_may("states:StartExecution", self.machine.state_machine_arn),
        )
        cells = {"cells": True} if stage.state.cells or stage.further_regions else {}
        often = {"tasks": OFTEN, **cells}
        self._schedule("Often", often, _rate(stage.cluster.period_minutes, "minute"))
        self._schedule("Seldom", {"tasks": SELDOM}, _rate(stage.cluster.sweep_hours, "hour"))
        cdk.CfnOutput(self, "StateMachine", value=self.machine.state_machine_arn)

    def _schedule(self, id: str, given: dict[str, Any], rate: str) -> None:
        events.CfnRule(
            self,
            id,
            description=f"Starts the cluster manager for {', '.join(given['tasks'])}",
            schedule_expression=rate,
            state="ENABLED",
            targets=[
                events.CfnRule.TargetProperty(
                    id="Manager",
                    arn=self.machine.state_machine_arn,
                    role_arn=self._starter.role_arn,
                    input=json.dumps(given),
                )
            ],
        )


def _may(action: str, resource: str) -> dict[str, iam.PolicyDocument]:
    """A role's only right."""
    statement = iam.PolicyStatement(actions=[action], resources=[resource])
    return {"Work": iam.PolicyDocument(statements=[statement])}


def _rate(number: int, unit: str) -> str:
    return f"rate({number} {unit if number == 1 else unit + 's'})"
