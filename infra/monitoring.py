"""Dashboards and alarms: for operators, and for owners of queues."""

from collections.abc import Sequence
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_stepfunctions as stepfunctions

from infra import queue_metrics
from infra.options import StageOptions
from infra.service import ServiceStack

_PERIOD: Final = cdk.Duration.minutes(5)
_SLOW_SHARE: Final = 0.9
_ITERATOR_AGE_MS_MAX: Final = 300_000
_FAILED_SHARE_MAX_PERCENT: Final = 1
_RUNS_MISSED_MAX: Final = 15
_DYNAMODB: Final = "AWS/DynamoDB"
_OPERATIONS: Final = (
    *("BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"),
)


class MonitoringStack(cdk.Stack):
    """What tells that something is wrong, and what shows where."""

    def __init__(
        self,
        scope: cdk.App,
        id: str,
        stage: StageOptions,
        service: ServiceStack,
        manager: stepfunctions.StateMachine,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, id, **kwargs)
        self._stage = stage
        self._service = service
        self._manager = manager
        self._alarms: list[cloudwatch.Alarm] = []
        self._watch_functions()
        self._watch_rest()
        self._watch_table()
        self._watch_manager()
        topic = self._topic()
        if topic is not None:
            self._tell(topic)
        self._operators_dashboard()
        self._queues(topic)

    def _watch_functions(self) -> None:
        for name, made in self._service.functions().items():
            function, timeout = made.function, made.function.timeout
            self._alarm(f"{name}Errors", function.metric_errors(period=_PERIOD), 0)
            self._alarm(f"{name}Throttles", function.metric_throttles(period=_PERIOD), 0)
            # A task works for as long as its invocation lasts.
            if timeout is not None and made is not self._service.task:
                slow = function.metric_duration(period=_PERIOD, statistic="p99")
                self._alarm(f"{name}Slow", slow, _SLOW_SHARE * timeout.to_milliseconds())
        self._alarm(
            "StreamAge",
            self._service.stream.function.metric(
                "IteratorAge", period=_PERIOD, statistic="Maximum"
            ),
            _ITERATOR_AGE_MS_MAX,
        )
        self._alarm(
            "Undelivered",
            self._service.undelivered.metric_approximate_number_of_messages_visible(
                period=_PERIOD, statistic="Maximum"
            ),
            0,
        )

    def _watch_rest(self) -> None:
        rest = self._service.rest
        if rest is not None:
            failed = rest.api.metric_server_error(period=_PERIOD, statistic="Average")
            share = cloudwatch.MathExpression(
                expression="100 * failed",
                label="% of requests answered 5xx",
                period=_PERIOD,
                using_metrics={"failed": failed},
            )
            self._alarm("RestFailures", share, _FAILED_SHARE_MAX_PERCENT)

    def _watch_table(self) -> None:
        self._alarm("TableThrottles", self._table_sum("ThrottledRequests"), 0)
        self._alarm("TableSystemErrors", self._table_sum("SystemErrors"), 0)

    def _watch_manager(self) -> None:
        manager = self._manager
        self._alarm("ManagerFailed", manager.metric_failed(period=_PERIOD), 0)
        self._alarm("ManagerTimedOut", manager.metric_timed_out(period=_PERIOD), 0)
        self._alarm("ManagerThrottled", manager.metric_throttled(period=_PERIOD), 0)
        minutes = self._stage.cluster.period_minutes * _RUNS_MISSED_MAX
        self._alarms.append(
            cloudwatch.Alarm(
                self,
                "ManagerIdle",
                alarm_description=f"the cluster manager has not succeeded for {minutes} minutes",
                metric=manager.metric_succeeded(period=cdk.Duration.minutes(minutes)),
                threshold=1,
                evaluation_periods=1,
                comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
                treat_missing_data=cloudwatch.TreatMissingData.BREACHING,
            )
        )

    def _table_sum(self, name: str) -> cloudwatch.MathExpression:
        """A metric that DynamoDB has for each operation, of all that are used."""
        by_operation = {
            f"{name.lower()}{at}": self._table_metric(name, Operation=operation)
            for at, operation in enumerate(_OPERATIONS)
        }
        return cloudwatch.MathExpression(
            expression=" + ".join(f"FILL({one}, 0)" for one in by_operation),
            label=name,
            period=_PERIOD,
            using_metrics=by_operation,
        )

    def _table_metric(
        self, name: str, statistic: str = "Sum", **dimensions: str
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=_DYNAMODB,
            metric_name=name,
            dimensions_map={"TableName": self._stage.state.table, **dimensions},
            statistic=statistic,
            period=_PERIOD,
        )

    def _alarm(self, id: str, metric: cloudwatch.IMetric, above: float) -> None:
        if self._stage.emulator and isinstance(metric, cloudwatch.MathExpression):
            return  # emulators know no alarms on expressions
        self._alarms.append(
            cloudwatch.Alarm(
                self,
                id,
                alarm_description=f"Tidegate {self._stage.name}: docs/operations.md, Alarms, {id}",
                metric=metric,
                threshold=above,
                evaluation_periods=1,
                comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
                treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
            )
        )

    def _topic(self) -> sns.ITopic | None:
        options = self._stage.monitoring
        if options.topic:
            return sns.Topic.from_topic_arn(self, "Topic", options.topic)
        if not options.email:
            return None
        topic = sns.Topic(self, "Topic", enforce_ssl=True)
        topic.add_subscription(subscriptions.EmailSubscription(options.email))
        return topic

    def _tell(self, topic: sns.ITopic) -> None:
        """One message for an incident, however many alarms it sets off."""
        if self._stage.emulator:
            # Emulators know no composite alarms.
            for alarm in self._alarms:
                alarm.add_alarm_action(actions.SnsAction(topic))
            return
        cloudwatch.CompositeAlarm(
            self,
            "Unwell",
            alarm_rule=cloudwatch.AlarmRule.any_of(*self._alarms),
            alarm_description=f"Tidegate {self._stage.name} is not well",
        ).add_alarm_action(actions.SnsAction(topic))

    def _operators_dashboard(self) -> None:
        dashboard = cloudwatch.Dashboard(
            self, "Operators", dashboard_name=f"tidegate-{self._stage.name}"
        )
        functions = [made.function for made in self._service.functions().values()]
        dashboard.add_widgets(
            cloudwatch.AlarmStatusWidget(title="Alarms", alarms=self._alarms, width=24)
        )
        dashboard.add_widgets(
            _graph("Invocations", [function.metric_invocations() for function in functions]),
            _graph("Errors and throttles", _errors(functions)),
            _graph("Duration, p99", [one.metric_duration(statistic="p99") for one in functions]),
        )
        dashboard.add_widgets(
            _graph("Table: units", self._units()),
            _graph("Table: throttled, failed", self._table_failures()),
            _graph(
                "Manager",
                [
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

    def _units(self) -> list[cloudwatch.IMetric]:
        return [
            self._table_metric("ConsumedReadCapacityUnits"),
            self._table_metric("ConsumedWriteCapacityUnits"),
        ]

    def _table_failures(self) -> list[cloudwatch.IMetric]:
        return [self._table_sum("ThrottledRequests"), self._table_sum("SystemErrors")]

    def _queues(self, topic: sns.ITopic | None) -> None:
        """What owners of queues see, and are told."""
        queues = self._stage.monitoring.queues
        if not queues:
            return
        for at, queue in enumerate(queues):
            for name, door in self._service.doors.items():
                queue_metrics.add_filters(self, f"Queue{at}{name}", door.logs, queue)
            for alarm in queue_metrics.alarms(self, queue, f"Queue{at}"):
                if topic is not None:
                    alarm.add_alarm_action(actions.SnsAction(topic))
        cloudwatch.Dashboard(
            self,
            "Queues",
            dashboard_name=f"tidegate-{self._stage.name}-queues",
            widgets=queue_metrics.widgets(queues),
        )


def _graph(title: str, metrics: Sequence[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=list(metrics), width=8)


def _errors(functions: Sequence[Any]) -> list[cloudwatch.IMetric]:
    errors: list[cloudwatch.IMetric] = [function.metric_errors() for function in functions]
    return errors + [function.metric_throttles() for function in functions]
