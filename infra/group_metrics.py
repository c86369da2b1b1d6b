"""Metrics and alarms for owners of consumer groups: how far these are behind, over all streams.

They come from the log of the function that does tasks, as depth and age of queues do.
"""

from collections.abc import Iterable
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.metric_filters import NAMESPACE, LineMetric, add_filter, alarm_above
from infra.monitoring_options import GroupOptions
from infra.queue_metrics import MEASURED_MINUTES

_MEASURED: Final = '$.event = "group measured"'

RECORDS: Final = "GroupLagRecords"
BEHIND: Final = "GroupLagMilliseconds"
GAUGES: Final = (
    LineMetric(RECORDS, _MEASURED, "$.records"),
    LineMetric(BEHIND, _MEASURED, "$.behind_ms"),
)


def add_filters(scope: Construct, id: str, log: logs.ILogGroup, group: GroupOptions) -> None:
    """Take the lags of a group out of the log."""
    for one in GAUGES:
        add_filter(scope, id, log, one, group.account, group.group, "GroupName", "group")


def alarms(scope: Construct, group: GroupOptions, id: str) -> list[cloudwatch.Alarm]:
    """The alarms that a group's owner asked for."""
    return [
        alarm_above(scope, f"{id}{what}", _gauge(group, name), threshold, f"{group.group} {told}")
        for what, name, threshold, told in (
            ("Records", RECORDS, group.lag_records_max, "has many records to read"),
            ("Behind", BEHIND, group.lag_ms_max, "has not read a record for long"),
        )
        if threshold
    ]


def widgets(groups: Iterable[GroupOptions]) -> list[list[cloudwatch.IWidget]]:
    """A row of a dashboard for each group."""
    return [
        [
            cloudwatch.GraphWidget(
                title=f"{group.group}: lag",
                width=24,
                left=[_gauge(group, RECORDS)],
                right=[_gauge(group, BEHIND)],
            )
        ]
        for group in groups
    ]


def _gauge(group: GroupOptions, name: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"Account": group.account, "GroupName": group.group},
        statistic="Maximum",
        period=cdk.Duration.minutes(MEASURED_MINUTES),
    )
