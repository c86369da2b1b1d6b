"""Metrics for owners of streams, from the usage records in the doors' logs.

They have the names that Kinesis gives them. How old what readers get is (IteratorAgeMilliseconds)
is in no usage record.
"""

from collections.abc import Iterable
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.metric_filters import NAMESPACE, LineMetric, add_filter
from infra.monitoring_options import StreamOptions

_PUTS: Final = '($.operation = "kinesis:PutRecord" || $.operation = "kinesis:PutRecords")'
_PUT_RECORDS: Final = '$.operation = "kinesis:PutRecords"'
_GETS: Final = '$.operation = "kinesis:GetRecords*"'
"""Those of records that are older than a week have another name in usage records."""
_DONE: Final = '$.status = "2xx"'

METRICS: Final = (
    LineMetric("IncomingBytes", f"{_PUTS} && {_DONE}", "$.bytes"),
    LineMetric("IncomingRecords", f"{_PUTS} && {_DONE}", "$.messages"),
    LineMetric("PutRecords.FailedRecords", f"{_PUT_RECORDS} && {_DONE}", "$.failed_entries"),
    LineMetric("GetRecords.Bytes", f"{_GETS} && {_DONE}", "$.bytes"),
    LineMetric("GetRecords.Records", f"{_GETS} && {_DONE}", "$.messages"),
)


def add_filters(scope: Construct, id: str, group: logs.ILogGroup, stream: StreamOptions) -> None:
    """Count what a door's log says of a stream."""
    for one in METRICS:
        add_filter(scope, id, group, one, stream.account, stream.stream, "StreamName")


def widgets(streams: Iterable[StreamOptions]) -> list[list[cloudwatch.IWidget]]:
    """A row of a dashboard for each stream."""
    return [
        [
            cloudwatch.GraphWidget(
                title=f"{stream.stream}: {what}",
                width=12,
                left=[_metric(stream, name) for name in names],
            )
            for what, names in (
                ("records", ("IncomingRecords", "GetRecords.Records", "PutRecords.FailedRecords")),
                ("bytes", ("IncomingBytes", "GetRecords.Bytes")),
            )
        ]
        for stream in streams
    ]


def _metric(stream: StreamOptions, name: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"Account": stream.account, "StreamName": stream.stream},
        statistic="Sum",
        period=cdk.Duration.minutes(1),
    )
