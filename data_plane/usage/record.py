"""The records that bills and audits are made of, and their columns (docs/usage.md)."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from data_plane.core.utc import utc_time

SCHEMA: Final = "tidegate.usage/1"
ACCESS_SCHEMA: Final = "tidegate.access/1"
MARK_SCHEMA: Final = "tidegate.writer/1"
TAIL_SCHEMA: Final = "tidegate.tail/1"

UNIT_BYTES: Final = 64 * 1024
"""SQS bills each so much of a request, begun ones included, as one request."""

US_PER_MINUTE: Final = 60_000_000
WRITER_BYTES: Final = 8
NAME_CHARS_MAX: Final = 128
NOBODY_KNOWS: Final = -1
STATUS_CLASSES: Final = ("2xx", "3xx", "4xx", "5xx")

_MINUTES_PER_HOUR: Final = 60
_S_PER_HOUR: Final = 3600
_INT64_MAX: Final = (1 << 63) - 1
_WRITER: Final = "^[0-9a-f]{16}$"
_ACCOUNT: Final = "^([0-9]{12})?$"

Count = Annotated[int, Meta(ge=0, le=_INT64_MAX)]
Number = Annotated[int, Meta(ge=1, le=_INT64_MAX)]
Name = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
Writer = Annotated[str, Meta(pattern=_WRITER)]
Account = Annotated[str, Meta(pattern=_ACCOUNT)]
StatusClass = Literal["2xx", "3xx", "4xx", "5xx"]


class UsageRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a front end served for one account, queue and operation within a minute.

    `writer` and `number` are the record's identity; a writer counts from 1 without gaps. `minute`
    is counted since the epoch, UTC. `status` is the class of the HTTP status, `code` that of the
    error, or "". `units` are the chunks of 64 KiB that the requests' messages take, at least one
    for each request.
    """

    schema: Literal["tidegate.usage/1"]
    writer: Writer
    number: Number
    minute: Count
    account: Account
    region: Name
    queue: Name
    operation: Name
    status: StatusClass
    code: Name
    requests: Count
    units: Count
    messages: Count
    bytes: Count
    failed_entries: Count


class AccessRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who did what within a minute, denials included; numbered like usage records, by itself.

    `account` owns the queue, else it is the caller's; `principal` is the caller's ARN, or "" where
    no signature proved one. `client` is the address that the requests came from.
    """

    schema: Literal["tidegate.access/1"]
    writer: Writer
    number: Number
    minute: Count
    account: Account
    principal: str
    access_key_id: Name
    client: Name
    region: Name
    queue: Name
    operation: Name
    status: StatusClass
    code: Name
    requests: Number


class Mark(msgspec.Struct, frozen=True):
    """How far a writer's records go. `after` is the writer before it, or "".

    `desks` are those of a server whose minutes are writers of their own (sent.py), in hexadecimal
    digits with spaces between. `off_from` is the minute from which nothing was counted until it
    `opened`, because usage was off; 0: it was not. All that was answered before `counted_to`
    (microseconds) is in records, and after that no more than `unsaved_max` requests were answered
    that are in none; -1: nobody knows how many. `ended` is the minute in which others found that
    it had been cut off; 0: it was not, as far as anybody knows.
    """

    schema: Literal["tidegate.writer/1"]
    writer: Writer
    kind: Literal["server", "ledger", "function"]
    opened: Count
    after: str
    complete_to: Count
    records: Count
    access: Count
    closed: bool
    desks: str = ""
    off_from: Count = 0
    counted_to: Count = 0
    unsaved_max: Annotated[int, Meta(ge=NOBODY_KNOWS, le=_INT64_MAX)] = NOBODY_KNOWS
    ended: Count = 0


class Tail(msgspec.Struct, frozen=True):
    """What a writer has counted and may not have stored as records: these, once it is cut off.

    `mark` is its mark as it is when they are stored.
    """

    schema: Literal["tidegate.tail/1"]
    mark: Mark
    usage: tuple[UsageRecord, ...]
    access: tuple[AccessRecord, ...]


Record = UsageRecord | AccessRecord


def columns_of(kind: type[Record]) -> list[tuple[str, str]]:
    """The columns of stored records in their order: names, and `string` or `int64`."""
    return [
        (field.name, "int64" if _is_integer(field.type) else "string")
        for field in msgspec.structs.fields(kind)
    ]


def _is_integer(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", annotation) is int


def priced_as(operation: str, kind: str) -> str:
    """The operation of a record: calls of several kinds have records apart."""
    return f"{operation}/{kind}" if kind else operation


def asked_for(priced: str) -> str:
    """The operation of the API that calls with such records asked for."""
    return priced.partition("/")[0]


def status_class(status: int) -> StatusClass:
    """The class of an HTTP status."""
    classes: tuple[StatusClass, ...] = ("2xx", "3xx", "4xx", "5xx")
    return classes[status // 100 - 2]


def units_of(size_bytes: int) -> int:
    """The chunks that a request with so many bytes of messages is billed as."""
    return max(1, -(-size_bytes // UNIT_BYTES))


def day_folder(minute: int) -> str:
    """The folder of the day that a minute is in."""
    at = utc_time(minute // _MINUTES_PER_HOUR * _S_PER_HOUR)
    return f"date={at.year:04}-{at.month:02}-{at.day:02}"


def hour_folder(minute: int) -> str:
    """The folder of the hour that a minute is in."""
    at = utc_time(minute // _MINUTES_PER_HOUR * _S_PER_HOUR)
    return f"{day_folder(minute)}/hour={at.hour:02}"
