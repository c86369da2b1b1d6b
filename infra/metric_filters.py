"""Metrics in CloudWatch that are counted from the lines of a log."""

from dataclasses import dataclass
from typing import Final

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
) -> None:
    """Count the lines about this account's queue or stream, as a metric with that dimension."""
    whose = f'$.account = "{account}" && $.queue = "{name}"'
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
                    logs.CfnMetricFilter.DimensionProperty(key=dimension, value="$.queue"),
                ],
            )
        ],
    )
