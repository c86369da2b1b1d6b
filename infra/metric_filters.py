"""Metrics in CloudWatch that are counted from the lines of a log, and their alarms."""

from dataclasses import dataclass
from typing import Final

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct

NAMESPACE: Final = "Tidegate/Queues"


@dataclass(frozen=True, slots=True)
class LineMetric:
    """A metric: which lines count for it, and by what."""

    name: str
    pattern: str
    value: str


def add_filter(  # noqa: PLR0913, PLR0917 - whose lines, in which log, and what they become
    scope: Construct,
    id: str,
    group: logs.ILogGroup,
    metric: LineMetric,
    account: str,
    name: str,
    dimension: str,
    told_as: str = "queue",
) -> None:
    """Count the lines that tell of this account's queue, say, as a metric with that dimension.

    Streams are `told_as` queues, as in usage records.
    """
    whose = f'$.account = "{account}" && $.{told_as} = "{name}"'
    logs.CfnMetricFilter(
        scope,
        f"{id}{metric.name.replace('.', '')}",
        log_group_name=group.log_group_name,
        filter_pattern=f"{{ {whose} && {metric.pattern} }}",
        metric_transformations=[
            logs.CfnMetricFilter.MetricTransformationProperty(
                metric_namespace=NAMESPACE,
                metric_name=metric.name,
                metric_value=metric.value,
                dimensions=[
                    logs.CfnMetricFilter.DimensionProperty(key="Account", value="$.account"),
                    logs.CfnMetricFilter.DimensionProperty(key=dimension, value=f"$.{told_as}"),
                ],
            )
        ],
    )


def alarm_above(
    scope: Construct,
    id: str,
    what: cloudwatch.IMetric,
    threshold: int,
    description: str,
) -> cloudwatch.Alarm:
    """Alarm when a metric is above a threshold for one period."""
    return cloudwatch.Alarm(
        scope,
        id,
        alarm_description=description,
        metric=what,
        threshold=threshold,
        evaluation_periods=1,
        comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
    )
