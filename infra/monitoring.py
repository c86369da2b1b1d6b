"""Dashboards and alarms: for operators, and for owners of queues."""

from collections.abc import Sequence
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns

from infra import group_metrics, queue_metrics, stream_metrics
from infra.alarms import PERIOD, Alarms, table_metric, table_sum, topic
from infra.cluster import ClusterStack
from infra.options import StageOptions
from infra.service import ServiceStack

_SLOW_SHARE: Final = 0.9
_ITERATOR_AGE_MS_MAX: Final = 300_000
_FAILED_SHARE_MAX_PERCENT: Final = 1
_RUNS_MISSED_MAX: Final = 15


class MonitoringStack(cdk.Stack):
    """What tells that something is wrong, and what shows where."""

    def __init__(
        self,
        scope: cdk.App,
        id: str,
        stage: StageOptions,
        service: ServiceStack,
        cluster: ClusterStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        self._stage = stage
        self._service = service
        self._manager = cluster.machine
        self._beat = cluster.beat
        self._not_started = cluster.not_started
        self._alarms = Alarms(self, stage)
        self._tables = (stage.state.own_table, *stage.state.cells)
        self._watch_functions()
        self._watch_rest()
        self._watch_tables()
        self._watch_manager()
        told = topic(self, stage.monitoring)
        if told is not None:
            self._alarms.tell(told)
        self._operators_dashboard()
        self._queues(told)
        self._streams()
        self._groups(told)

    def _watch_functions(self) -> None:
        for name, made in self._service.functions().items():
            function, timeout = made.function, made.function.timeout
            self._alarms.above(f"{name}Errors", function.metric_errors(period=PERIOD), 0)
            self._alarms.above(f"{name}Throttles", function.metric_throttles(period=PERIOD), 0)
            # A task works for as long as its invocation lasts.
            if timeout is not None and made is not self._service.task:
                slow = function.metric_duration(period=PERIOD, statistic="p99")
                self._alarms.above(f"{name}Slow", slow, _SLOW_SHARE * timeout.to_milliseconds())
        self._alarms.above(
            "StreamAge",
            self._service.stream.function.metric("IteratorAge", period=PERIOD, statistic="Maximum"),
            _ITERATOR_AGE_MS_MAX,
        )
        self._alarms.above(
            "Undelivered",
            self._service.undelivered.metric_approximate_number_of_messages_visible(
                period=PERIOD, statistic="Maximum"
            ),
            0,
        )

    def _watch_rest(self) -> None:
        rest = self._service.rest
        if rest is not None:
            failed = rest.api.metric_server_error(period=PERIOD, statistic="Average")
            share = cloudwatch.MathExpression(
                expression="100 * failed",
                label="% of requests answered 5xx",
                period=PERIOD,
                using_metrics={"failed": failed},
            )
            self._alarms.above("RestFailures", share, _FAILED_SHARE_MAX_PERCENT)

    def _watch_tables(self) -> None:
        for number, table in enumerate(self._tables, 1):
            self._alarms.watch_table(table, number)

    def _watch_manager(self) -> None:
        manager = self._manager
        self._alarms.above("BeatFailed", self._beat.metric_failed(period=PERIOD), 0)
        self._alarms.above("ManagerFailed", manager.metric_failed(period=PERIOD), 0)
        self._alarms.above("ManagerTimedOut", manager.metric_timed_out(period=PERIOD), 0)
        self._alarms.above("ManagerThrottled", manager.metric_throttled(period=PERIOD), 0)
        lost = self._not_started.metric_approximate_number_of_messages_visible(
            period=PERIOD, statistic="Maximum"
        )
        self._alarms.above("NotStarted", lost, 0)
        minutes = self._stage.cluster.period_minutes * _RUNS_MISSED_MAX
        self._alarms.made.append(
            cloudwatch.Alarm(
                self,
                "ManagerIdle",
                alarm_description=f"nobody has looked what is due for {minutes} minutes",
                metric=self._beat.metric_succeeded(period=cdk.Duration.minutes(minutes)),
                threshold=1,
                evaluation_periods=1,
                comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
                treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
            )
        )

    def _operators_dashboard(self) -> None:
        dashboard = cloudwatch.Dashboard(
            self, "Operators", dashboard_name=f"tidegate-{self._stage.name}"
        )
        functions = [made.function for made in self._service.functions().values()]
        dashboard.add_widgets(
            cloudwatch.AlarmStatusWidget(title="Alarms", alarms=self._alarms.made, width=24)
        )
        dashboard.add_widgets(
            _graph("Invocations", [function.metric_invocations() for function in functions]),
            _graph("Errors and throttles", _errors(functions)),
            _graph("Duration, p99", [one.metric_duration(statistic="p99") for one in functions]),
        )
        dashboard.add_widgets(
            _graph(
                "Tables: units",
                [
                    table_metric(table, f"Consumed{what}CapacityUnits")
                    for table in self._tables
                    for what in ("Read", "Write")
                ],
            ),
            _graph(
                "Tables: throttled, failed",
                [
                    table_sum(table, name, number)
                    for number, table in enumerate(self._tables, 1)
                    for name in ("ThrottledRequests", "SystemErrors")
                ],
            ),
            _graph(
                "Manager",
                [
                    self._beat.metric_succeeded(label="beats"),
                    self._manager.metric_started(),
                    self._manager.metric_succeeded(),
                    self._manager.metric_failed(),
                ],
            ),
        )
        rest = self._service.rest
        if rest is not None:
            dashboard.add_widgets(
                _graph("REST: requests", [rest.api.metric_count()]),
                _graph(
                    "REST: refused and failed",
                    [rest.api.metric_client_error(), rest.api.metric_server_error()],
                ),
                _graph("REST: latency, p99", [rest.api.metric_latency(statistic="p99")]),
            )

    def _streams(self) -> None:
        """What owners of streams see."""
        streams = self._stage.monitoring.streams
        if not streams:
            return
        for at, stream in enumerate(streams):
            for name, door in self._service.doors.items():
                stream_metrics.add_filters(self, f"Stream{at}{name}", door.logs, stream)
        cloudwatch.Dashboard(
            self,
            "Streams",
            dashboard_name=f"tidegate-{self._stage.name}-streams",
            widgets=stream_metrics.widgets(streams),
        )

    def _groups(self, told: sns.ITopic | None) -> None:
        """What owners of consumer groups see, and are told."""
        groups = self._stage.monitoring.groups
        if not groups:
            return
        for at, group in enumerate(groups):
            group_metrics.add_filters(self, f"Group{at}", self._service.task.logs, group)
            _tell(told, group_metrics.alarms(self, group, f"Group{at}"))
        cloudwatch.Dashboard(
            self,
            "Groups",
            dashboard_name=f"tidegate-{self._stage.name}-groups",
            widgets=group_metrics.widgets(groups),
        )

    def _queues(self, told: sns.ITopic | None) -> None:
        """What owners of queues see, and are told."""
        queues = self._stage.monitoring.queues
        if not queues:
            return
        for at, queue in enumerate(queues):
            for name, door in self._service.doors.items():
                queue_metrics.add_filters(self, f"Queue{at}{name}", door.logs, queue)
            tasks = self._service.task.logs
            queue_metrics.add_filters(self, f"Queue{at}", tasks, queue, queue_metrics.GAUGES)
            _tell(told, queue_metrics.alarms(self, queue, f"Queue{at}"))
        cloudwatch.Dashboard(
            self,
            "Queues",
            dashboard_name=f"tidegate-{self._stage.name}-queues",
            widgets=queue_metrics.widgets(queues),
        )


def _tell(told: sns.ITopic | None, alarms: Sequence[cloudwatch.Alarm]) -> None:
    if told is not None:
        for alarm in alarms:
            alarm.add_alarm_action(actions.SnsAction(told))


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8)


def _errors(functions: Sequence[Any]) -> list[cloudwatch.IMetric]:
    errors: list[cloudwatch.IMetric] = [function.metric_errors() for function in functions]
    return errors + [function.metric_throttles() for function in functions]
