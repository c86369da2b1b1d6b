"""Metrics and alarms for owners of queues, from the usage records in the doors' logs.

A filter for each metric and queue, for CloudWatch bills metrics by their number. They have the
names that SQS gives them. Depth and age come from the log of the function that does tasks, which is
asked for them every five minutes: it costs reads, and alarms look at five minutes (docs/cost.md).
"""

from collections.abc import Iterable
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.metric_filters import NAMESPACE, LineMetric, add_filter, alarm_above
from infra.monitoring_options import QueueOptions

_SENDS: Final = '($.operation = "SendMessage" || $.operation = "SendMessageBatch")'
_DELETES: Final = '($.operation = "DeleteMessage" || $.operation = "DeleteMessageBatch")'
_RECEIVES: Final = '($.operation = "ReceiveMessage")'
_MEASURED: Final = '$.event = "queue measured"'
_GROWTH_MINUTES: Final = 60
MEASURED_MINUTES: Final = 5
_FAILURES_MINUTES: Final = 5


METRICS: Final = (
    LineMetric("NumberOfMessagesSent", f'{_SENDS} && $.status = "2xx"', "$.messages"),
    LineMetric("SentMessageSize", f'{_SENDS} && $.status = "2xx"', "$.bytes"),
    LineMetric("NumberOfMessagesReceived", f'{_RECEIVES} && $.status = "2xx"', "$.messages"),
    LineMetric("NumberOfEmptyReceives", f'{_RECEIVES} && $.status = "2xx" && $.messages = 0', "1"),
    LineMetric("NumberOfMessagesDeleted", f'{_DELETES} && $.status = "2xx"', "$.messages"),
    LineMetric("FailedRequests", '$.status = "5xx" && $.operation != "kinesis:*"', "1"),
)

AGE: Final = "ApproximateAgeOfOldestMessage"
DEPTH: Final = "ApproximateNumberOfMessagesVisible"
GAUGES: Final = (
    LineMetric(AGE, _MEASURED, "$.age_s"),
    LineMetric(DEPTH, _MEASURED, "$.visible"),
)


def metric(
    queue: QueueOptions, name: str, minutes: int, statistic: str = "Sum"
) -> cloudwatch.Metric:
    """A metric of a queue, summed up."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"Account": queue.account, "QueueName": queue.queue},
        statistic=statistic,
        period=cdk.Duration.minutes(minutes),
    )


def gauge(queue: QueueOptions, name: str) -> cloudwatch.Metric:
    """Depth or age of a queue, at its worst."""
    return metric(queue, name, MEASURED_MINUTES, "Maximum")


def add_filters(
    scope: Construct,
    name: str,
    group: logs.ILogGroup,
    queue: QueueOptions,
    metrics: Iterable[LineMetric] = METRICS,
) -> None:
    """Count what a log says of a queue: the usage records of a door's, if nothing else is named."""
    for one in metrics:
        add_filter(scope, name, group, one, queue.account, queue.queue, "QueueName")


def alarms(scope: Construct, queue: QueueOptions, id: str) -> list[cloudwatch.Alarm]:
    """The alarms that a queue's owner asked for."""
    made = []
    if queue.age_s_max:
        what = f"a message of {queue.queue} waits for long"
        made.append(alarm_above(scope, f"{id}Age", gauge(queue, AGE), queue.age_s_max, what))
    if queue.depth_max:
        what = f"many messages of {queue.queue} wait"
        made.append(alarm_above(scope, f"{id}Depth", gauge(queue, DEPTH), queue.depth_max, what))
    if queue.growth_max:
        growth = cloudwatch.MathExpression(
            expression="FILL(sent, 0) - FILL(deleted, 0)",
            label="messages sent beyond those deleted",
            period=cdk.Duration.minutes(_GROWTH_MINUTES),
            using_metrics={
                "sent": metric(queue, "NumberOfMessagesSent", _GROWTH_MINUTES),
                "deleted": metric(queue, "NumberOfMessagesDeleted", _GROWTH_MINUTES),
            },
        )
        made.append(
            alarm_above(scope, f"{id}Growth", growth, queue.growth_max, f"{queue.queue} grows")
        )
    if queue.failures_max:
        failures = metric(queue, "FailedRequests", _FAILURES_MINUTES)
        made.append(
            alarm_above(
                scope, f"{id}Failures", failures, queue.failures_max, f"{queue.queue} fails"
            )
        )
    return made


def widgets(queues: Iterable[QueueOptions]) -> list[list[cloudwatch.IWidget]]:
    """A row of a dashboard for each queue."""
    return [
        [
            cloudwatch.GraphWidget(
                title=f"{queue.queue}: messages",
                width=8,
                left=[
                    metric(queue, "NumberOfMessagesSent", 1),
                    metric(queue, "NumberOfMessagesReceived", 1),
                    metric(queue, "NumberOfMessagesDeleted", 1),
                ],
            ),
            cloudwatch.GraphWidget(
                title=f"{queue.queue}: waiting",
                width=8,
                left=[gauge(queue, DEPTH)],
                right=[gauge(queue, AGE)],
            ),
            cloudwatch.GraphWidget(
                title=f"{queue.queue}: requests",
                width=8,
                left=[
                    metric(queue, "NumberOfEmptyReceives", 1),
                    metric(queue, "FailedRequests", 1),
                ],
                right=[metric(queue, "SentMessageSize", 1)],
            ),
        ]
        for queue in queues
    ]
