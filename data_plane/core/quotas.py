"""Quotas: what an account, and each of its queues, may ask of one server.

Stored and told as a flat object of whole numbers, of which absent ones and 0 stand for "without a
limit":

    {"account_send_per_s": 1000, "account_send_burst": 2000, "queue_receive_per_s": 500,
     "long_polls": 1000, "sent_bytes_per_s": 33554432, "received_bytes_per_s": 33554432,
     "account_stored_bytes": 10737418240}

A burst that is absent is that of one second.
"""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Final

from data_plane.core.limits import (
    ACCOUNT_GROUPS_MAX,
    ACCOUNT_SHARDS_MAX,
    GROUP_MEMBERS_MAX,
    GROUP_SHARDS_MAX,
    QUOTA_CONTROL_PER_S_DEFAULT,
    QUOTA_DEFINITION_BYTES_DEFAULT,
    QUOTA_LONG_POLLS_DEFAULT,
    QUOTA_MESSAGE_CALLS_PER_S_DEFAULT,
    QUOTA_QUEUE_CONTROL_PER_S_DEFAULT,
    QUOTA_QUEUE_MESSAGE_CALLS_PER_S_DEFAULT,
    QUOTA_QUEUES_DEFAULT,
    QUOTA_RECEIVED_BYTES_PER_S_DEFAULT,
    QUOTA_SENT_BYTES_PER_S_DEFAULT,
    QUOTA_STORED_PERCENT_DEFAULT,
    QUOTA_STREAMS_DEFAULT,
    REQUEST_BODY_BYTES_MAX,
)
from data_plane.core.token_bucket import Rate

SEND: Final = "send"
RECEIVE: Final = "receive"
DELETE: Final = "delete"
CONTROL: Final = "control"
OPERATION_CLASSES: Final = (SEND, RECEIVE, DELETE, CONTROL)

QUOTA_CLASSES: Final = {
    "SendMessage": SEND,
    "SendMessageBatch": SEND,
    "ReceiveMessage": RECEIVE,
    "DeleteMessage": DELETE,
    "DeleteMessageBatch": DELETE,
    "ChangeMessageVisibility": DELETE,
    "ChangeMessageVisibilityBatch": DELETE,
}
"""Of SQS: deletes with changes, all that is rare as control. A batch is one call, as in SQS's own
quotas."""

STREAM_QUOTA_CLASSES: Final = {
    "PutRecord": SEND,
    "PutRecords": SEND,
    "GetRecords": RECEIVE,
    "GetShardIterator": RECEIVE,
    "TidegateGroupHeartbeat": RECEIVE,
    "TidegateCommitOffsets": DELETE,
    "ReceiveQueueRecords": RECEIVE,
    "AcknowledgeQueueRecords": DELETE,
    "UpdateQueueRecordsVisibility": DELETE,
    "ReceiveDeadLetterQueueRecords": RECEIVE,
    "AcknowledgeDeadLetterQueueRecords": DELETE,
    "RestoreDeadLetterQueueRecords": DELETE,
    "UpdateDeadLetterQueueRecordsVisibility": DELETE,
}
"""Of Kinesis, likewise."""

_UNLIMITED_RATE: Final = Rate()
_BURST_SECONDS: Final = 2
_NUMBER_MAX: Final = 10**12


class QuotaError(ValueError):
    """A quota has a wrong name or value; the message is one line that names it."""


@dataclass(frozen=True, slots=True)
class StoredQuota:
    """What messages and records of an account, and of each queue and stream of it, may take.

    `account_percent` is of all that the cell can hold. 0: without a limit.
    """

    account_bytes: int = 0
    queue_bytes: int = 0
    account_percent: int = 0


@dataclass(frozen=True, slots=True)
class DefinitionQuota:
    """How many queues and streams an account may have, and what their definitions may take.

    `shards` are the open ones of all its streams in a region. 0: without a limit; of consumer
    `groups` in a region, and `members` of each of them, as many as by default.
    """

    queues: int = 0
    size_bytes: int = 0
    streams: int = 0
    shards: int = 0
    groups: int = 0
    members: int = 0


_DEFINED_NAMES: Final = (
    *("account_queues", "account_definition_bytes"),
    *("account_streams", "account_shards", "account_groups", "group_members"),
)
_STORED_NAMES: Final = ("account_stored_bytes", "queue_stored_bytes", "account_stored_percent")
_PERCENT_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Quotas:
    """What an account may ask of one server, without limits by default.

    `account` has the rates of calls by class for all it does, `queue` those for each of its
    queues. `long_polls` may wait at a time (0: any number). `sent_bytes` are those of the bodies of
    all requests, `received_bytes` those of all answers; `stored` is what may lie in queues and
    streams, `defined` what of those there may be.
    """

    account: Mapping[str, Rate]
    queue: Mapping[str, Rate]
    long_polls: int = 0
    sent_bytes: Rate = _UNLIMITED_RATE
    received_bytes: Rate = _UNLIMITED_RATE
    stored: StoredQuota = StoredQuota()
    defined: DefinitionQuota = DefinitionQuota()


def parse_quotas(numbers: Mapping[str, object]) -> Quotas:
    """The quotas that these numbers say. Raises QuotaError."""
    for name, number in numbers.items():
        if name not in QUOTA_NAMES:
            raise QuotaError(f"{name}: there is no such quota; there are {', '.join(QUOTA_NAMES)}")
        if type(number) is not int or not 0 <= number <= _NUMBER_MAX:
            raise QuotaError(f"{name}: {number!r} is not a whole number within 0 and {_NUMBER_MAX}")
    sent_bytes = _parse_rate(numbers, "sent_bytes")
    if sent_bytes.per_s and sent_bytes.burst < REQUEST_BODY_BYTES_MAX:
        # The biggest request has to pass some time.
        sent_bytes = Rate(sent_bytes.per_s, REQUEST_BODY_BYTES_MAX)
    return Quotas(
        {each: _parse_rate(numbers, f"account_{each}") for each in OPERATION_CLASSES},
        {each: _parse_rate(numbers, f"queue_{each}") for each in OPERATION_CLASSES},
        _number(numbers, "long_polls"),
        sent_bytes,
        _parse_rate(numbers, "received_bytes"),
        _parse_stored(numbers),
        _parse_defined(numbers),
    )


def render_quotas(quotas: Quotas) -> dict[str, int]:
    """The numbers that say these quotas; those without a limit are left out."""
    numbers: dict[str, int] = {}
    for name, rate in _rates(quotas):
        if rate.per_s:
            numbers[f"{name}_per_s"] = rate.per_s
            numbers[f"{name}_burst"] = rate.burst
    if quotas.long_polls:
        numbers["long_polls"] = quotas.long_polls
    stored = zip(_STORED_NAMES, astuple(quotas.stored), strict=True)
    defined = zip(_DEFINED_NAMES, astuple(quotas.defined), strict=True)
    return numbers | {name: number for name, number in (*stored, *defined) if number}


def _rates(quotas: Quotas) -> Iterator[tuple[str, Rate]]:
    for scope, rates in (("account", quotas.account), ("queue", quotas.queue)):
        for each in OPERATION_CLASSES:
            yield f"{scope}_{each}", rates.get(each, _UNLIMITED_RATE)
    yield "sent_bytes", quotas.sent_bytes
    yield "received_bytes", quotas.received_bytes


def _number(numbers: Mapping[str, object], name: str) -> int:
    number = numbers.get(name, 0)
    assert isinstance(number, int)  # noqa: S101 - checked with its name before
    return number


def _parse_stored(numbers: Mapping[str, object]) -> StoredQuota:
    stored = StoredQuota(*(_number(numbers, name) for name in _STORED_NAMES))
    if stored.account_percent > _PERCENT_MAX:
        raise QuotaError(f"account_stored_percent: {stored.account_percent} is above 100")
    return stored


def _parse_defined(numbers: Mapping[str, object]) -> DefinitionQuota:
    defined = DefinitionQuota(*(_number(numbers, name) for name in _DEFINED_NAMES))
    if defined.members > GROUP_SHARDS_MAX:
        raise QuotaError(f"group_members: {defined.members} is above {GROUP_SHARDS_MAX}")
    return defined


def _parse_rate(numbers: Mapping[str, object], name: str) -> Rate:
    per_s = _number(numbers, f"{name}_per_s")
    burst = _number(numbers, f"{name}_burst")
    if burst and not per_s:
        raise QuotaError(f"{name}_burst: it needs {name}_per_s")
    return Rate(per_s, burst or per_s)


UNLIMITED: Final = Quotas({}, {})

QUOTA_NAMES: Final = (
    *(f"{rate}_{part}" for rate, _ in _rates(UNLIMITED) for part in ("per_s", "burst")),
    "long_polls",
    *_STORED_NAMES,
    *_DEFINED_NAMES,
)


def _with_burst(per_s: int) -> Rate:
    return Rate(per_s, per_s * _BURST_SECONDS)


def _by_class(message_calls: int, control: int) -> dict[str, Rate]:
    return {
        each: _with_burst(control if each == CONTROL else message_calls)
        for each in OPERATION_CLASSES
    }


DEFAULT_QUOTAS: Final = Quotas(
    _by_class(QUOTA_MESSAGE_CALLS_PER_S_DEFAULT, QUOTA_CONTROL_PER_S_DEFAULT),
    _by_class(QUOTA_QUEUE_MESSAGE_CALLS_PER_S_DEFAULT, QUOTA_QUEUE_CONTROL_PER_S_DEFAULT),
    QUOTA_LONG_POLLS_DEFAULT,
    _with_burst(QUOTA_SENT_BYTES_PER_S_DEFAULT),
    _with_burst(QUOTA_RECEIVED_BYTES_PER_S_DEFAULT),
    StoredQuota(account_percent=QUOTA_STORED_PERCENT_DEFAULT),
    DefinitionQuota(
        QUOTA_QUEUES_DEFAULT,
        QUOTA_DEFINITION_BYTES_DEFAULT,
        QUOTA_STREAMS_DEFAULT,
        ACCOUNT_SHARDS_MAX,
        ACCOUNT_GROUPS_MAX,
        GROUP_MEMBERS_MAX,
    ),
)
"""Those of an account that an operator makes without saying others."""
