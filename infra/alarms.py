"""Alarms of a stack, and whom they tell: one message for an incident, however many go off."""

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.monitoring_options import MonitoringOptions
from infra.options import StageOptions

PERIOD: Final = cdk.Duration.minutes(5)
_DYNAMODB: Final = "AWS/DynamoDB"
_OPERATIONS: Final = (
    *("BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"),
)


class Alarms:
    """Makes alarms in a stack, and remembers them in `made`."""

    def __init__(self, scope: Construct, stage: StageOptions) -> None:
        self._scope = scope
        self._stage = stage
        self.made: list[cloudwatch.Alarm] = []

    def above(self, id: str, metric: cloudwatch.IMetric, threshold: float) -> None:
        """Alarm when a metric is above a threshold for one period."""
        if self._stage.emulator and isinstance(metric, cloudwatch.MathExpression):
            return  # emulators know no alarms on expressions
        self.made.append(
            cloudwatch.Alarm(
                self._scope,
                id,
                alarm_description=f"Tidegate {self._stage.name}: docs/operations.md, Alarms, {id}",
                metric=metric,
                threshold=threshold,
                evaluation_periods=1,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
                treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            )
        )

    def watch_table(self, table: str, number: int) -> None:
        """Alarm when DynamoDB throttles or fails requests to the table, the `number`th of them."""
        place = "Table" if number == 1 else f"Table{number}"
        self.above(f"{place}Throttles", table_sum(table, "ThrottledRequests"), 0)
        self.above(f"{place}SystemErrors", table_sum(table, "SystemErrors"), 0)

    def tell(self, topic: sns.ITopic) -> None:
        """Publish to the topic when any of the alarms goes off."""
        if self._stage.emulator:
            # Emulators know no composite alarms.
            for alarm in self.made:
                alarm.add_alarm_action(actions.SnsAction(topic))
            return
        cloudwatch.CompositeAlarm(
            self._scope,
            "Unwell",
            alarm_rule=cloudwatch.AlarmRule.any_of(*self.made),
            alarm_description=f"Tidegate {self._stage.name} is not well",
        ).add_alarm_action(actions.SnsAction(topic))


def topic(scope: Construct, options: MonitoringOptions) -> sns.ITopic | None:
    """The topic of the operators; None: nobody is told."""
    if options.topic:
        return sns.Topic.from_topic_arn(scope, "Topic", options.topic)
    if not options.email:
        return None
    made = sns.Topic(scope, "Topic", enforce_ssl=True)
    made.add_subscription(subscriptions.EmailSubscription(options.email))
    return made


def table_sum(table: str, name: str, number: int = 1) -> cloudwatch.MathExpression:
    """A metric that DynamoDB has for each operation, of all that are used.

    Two of them can be in one graph if their `number` differs.
    """
    by_operation = {
        f"{name.lower()}{number}_{at}": table_metric(table, name, Operation=operation)
        for at, operation in enumerate(_OPERATIONS)
    }
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({one}, 0)" for one in by_operation),
        label=f"{table}: {name}",
        period=PERIOD,
        using_metrics=by_operation,
    )


def table_metric(table: str, name: str, **dimensions: str) -> cloudwatch.Metric:
    """A metric of a table, summed up."""
    return cloudwatch.Metric(
        namespace=_DYNAMODB,
        metric_name=name,
        dimensions_map={"TableName": table, **dimensions},
        statistic="Sum",
        period=PERIOD,
    )
