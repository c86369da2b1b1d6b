"""What an operator decides about metrics and alarms of a stage."""

import re
from dataclasses import dataclass
from typing import Final

from infra.option_checks import ACCOUNT, QUEUE, OptionError, match, within

_TOPIC: Final = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]+")
_EMAIL: Final = re.compile(r"[^@\s]+@[^@\s]+")
_STREAM: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_GROUP: Final = _STREAM
QUEUES_MAX: Final = 16
GROUPS_MAX: Final = 16
_FILTERS_MAX: Final = 100
_QUEUE_FILTERS: Final = 6
_STREAM_FILTERS: Final = 5
"""CloudWatch has 100 metric filters for a log group, and a queue needs six, a stream five."""


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A queue whose owner has metrics in CloudWatch, and alarms (0: none).

    `age_s_max`: seconds since the oldest message was sent. `depth_max`: messages that wait to be
    received. `growth_max`: messages sent within an hour beyond those deleted. `failures_max`:
    requests within five minutes that failed by the service's fault.
    """

    queue: str
    account: str = "000000000000"
    age_s_max: int = 0
    depth_max: int = 0
    growth_max: int = 0
    failures_max: int = 0

    def __post_init__(self) -> None:
        match("queue", self.queue, QUEUE, "no queue's name")
        match("account", self.account, ACCOUNT, "no account id of 12 digits")
        within("age_s_max", self.age_s_max, 0, 1_209_600)
        within("depth_max", self.depth_max, 0, 1_000_000_000)
        within("growth_max", self.growth_max, 0, 1_000_000_000)
        within("failures_max", self.failures_max, 0, 1_000_000_000)


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """A stream whose owner has metrics in CloudWatch."""

    stream: str
    account: str = "000000000000"

    def __post_init__(self) -> None:
        match("stream", self.stream, _STREAM, "no stream's name")
        match("account", self.account, ACCOUNT, "no account id of 12 digits")


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """A consumer group whose owner has metrics in CloudWatch, and alarms (0: none).

    `lag_records_max`: records that it has not committed. `lag_ms_max`: milliseconds since the first
    of those was put.
    """

    group: str
    account: str = "000000000000"
    lag_records_max: int = 0
    lag_ms_max: int = 0

    def __post_init__(self) -> None:
        match("group", self.group, _GROUP, "no group's name")
        match("account", self.account, ACCOUNT, "no account id of 12 digits")
        within("lag_records_max", self.lag_records_max, 0, 1_000_000_000_000)
        within("lag_ms_max", self.lag_ms_max, 0, 31_536_000_000)


@dataclass(frozen=True, slots=True)
class MonitoringOptions:
    """Who is told when an alarm goes off: a topic of SNS (its ARN), or an `email` ("": nobody).

    With `email` a topic is made. Each of the `queues` is eight metrics, each of the `streams` five,
    and each of the `groups` two, which CloudWatch bills.
    """

    topic: str = ""
    email: str = ""
    queues: tuple[QueueOptions, ...] = ()
    streams: tuple[StreamOptions, ...] = ()
    groups: tuple[GroupOptions, ...] = ()

    def __post_init__(self) -> None:
        if len(self.queues) > QUEUES_MAX:
            raise OptionError("queues", f"{len(self.queues)} are more than {QUEUES_MAX}")
        if len(self.groups) > GROUPS_MAX:
            raise OptionError("groups", f"{len(self.groups)} are more than {GROUPS_MAX}")
        filters = _QUEUE_FILTERS * len(self.queues) + _STREAM_FILTERS * len(self.streams)
        if filters > _FILTERS_MAX:
            too_many = f"with {len(self.queues)} queues {filters} metric filters, of {_FILTERS_MAX}"
            raise OptionError("streams", f"{len(self.streams)} need {too_many}")
        if self.topic and self.email:
            raise OptionError("email", "an address can be subscribed to the topic that is named")
        if self.topic:
            match("topic", self.topic, _TOPIC, "no ARN of an SNS topic")
        if self.email:
            match("email", self.email, _EMAIL, "no address")

    @property
    def tells(self) -> bool:
        """Whether anybody is told of alarms."""
        return bool(self.topic or self.email)
