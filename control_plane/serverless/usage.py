"""Usage records of the functions: from each answer to an object in S3 (docs/usage.md).

Nothing runs in a function after its answer. So each answer is a line of the function's log, and a
subscription of that log hands the lines to another function, which stores them: no request waits
for it. Logs deliver what they took at least once; records are numbered, so that what came twice, or
did not come, is seen.
"""

import logging
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from gzip import BadGzipFile
from gzip import decompress as gunzip
from hashlib import sha256
from typing import Annotated, Any, Final, Literal
from zlib import error as ZlibError  # noqa: N812 - zlib's own name is no class's

import msgspec
from msgspec import Meta

from data_plane.core.utc import utc_time
from data_plane.frontend.served import Served
from data_plane.ports import Blobs, Entropy

SCHEMA: Final = "tidegate.usage/1"
PATTERN: Final = f'"{SCHEMA.partition("/")[0]}"'
"""What the subscription asks for: lines of every version, damaged ones among them."""

UNIT_BYTES: Final = 64 * 1024
"""SQS bills each so much of a request, begun ones included, as one request."""

_WRITER_BYTES: Final = 8
_US_PER_MINUTE: Final = 60_000_000
_MINUTES_PER_HOUR: Final = 60
_MS_PER_S: Final = 1_000
_NAME_CHARS_MAX: Final = 128
_INT64_MAX: Final = (1 << 63) - 1
_CONTROL: Final = "CONTROL_MESSAGE"

LOG: Final = logging.getLogger(__name__)

Count = Annotated[int, Meta(ge=0, le=_INT64_MAX)]
Name = Annotated[str, Meta(max_length=_NAME_CHARS_MAX)]


class UsageRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a front end served for one account, queue and operation within a minute.

    `writer` and `number` are the record's identity; a writer counts from 1 without gaps. `minute`
    is counted since the epoch, UTC. `status` is the class of the HTTP status, `code` that of the
    error, or "". `units` are the chunks of 64 KiB that the requests' messages take, at least one
    for each request.
    """

    schema: Literal["tidegate.usage/1"]
    writer: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    number: Annotated[int, Meta(ge=1, le=_INT64_MAX)]
    minute: Count
    account: Annotated[str, Meta(pattern="^([0-9]{12})?$")]
    region: Name
    queue: Name
    operation: Name
    status: Literal["2xx", "3xx", "4xx", "5xx"]
    code: Name
    requests: Annotated[int, Meta(ge=1, le=_INT64_MAX)]
    units: Annotated[int, Meta(ge=1, le=_INT64_MAX)]
    messages: Count
    bytes: Count
    failed_entries: Count


class _LogEvent(msgspec.Struct, frozen=True):
    id: str
    timestamp: int
    message: str


class _Delivery(msgspec.Struct, frozen=True, rename="camel"):
    message_type: str
    log_group: str = ""
    log_stream: str = ""
    log_events: tuple[_LogEvent, ...] = ()


class _Malformed(msgspec.Struct, frozen=True):
    """A line that is no record, as it is kept apart: nothing that was delivered gets lost."""

    reason: str
    log_group: str
    log_stream: str
    id: str
    time_ms: int
    line: str


_encode: Final = msgspec.json.Encoder().encode
_decode_record: Final = msgspec.json.Decoder(UsageRecord).decode
_decode_delivery: Final = msgspec.json.Decoder(_Delivery).decode


class DamagedDeliveryError(Exception):
    """The event is not what CloudWatch Logs delivers; there is nothing in it to keep."""


# Writing lines


def usage_line(served: Served, writer: str, number: int) -> str:
    """The line of one answer: a record, in JSON, without secrets and without what was sent."""
    record = UsageRecord(
        schema=SCHEMA,
        writer=writer,
        number=number,
        minute=served.finished_us // _US_PER_MINUTE,
        account=served.account,
        region=served.region[:_NAME_CHARS_MAX],
        queue=served.queue,
        operation=served.operation,
        status=_status_class(served.status),
        code=served.code,
        requests=1,
        units=max(1, -(-served.bytes // UNIT_BYTES)),
        messages=served.messages,
        bytes=served.bytes,
        failed_entries=served.failed_entries,
    )
    return _encode(record).decode()


def _status_class(status: int) -> Literal["2xx", "3xx", "4xx", "5xx"]:
    classes: tuple[Literal["2xx", "3xx", "4xx", "5xx"], ...] = ("2xx", "3xx", "4xx", "5xx")
    return classes[status // 100 - 2]


class UsageLines:
    """One sandbox's usage lines: observes answers, as the front end asks for.

    `write` takes a whole line, and writes it at once where Lambda takes logs from.
    The writer's name is drawn with its first record, so that copies of a sandbox do not share one.
    """

    def __init__(self, entropy: Entropy, write: Callable[[str], object]) -> None:
        self._entropy = entropy
        self._write = write
        self._writer = ""
        self._number = 0

    def served(self, served: Served) -> None:
        """Write the line of a request that was answered."""
        self._writer = self._writer or self._entropy.random_bytes(_WRITER_BYTES).hex()
        self._number += 1
        self._write(usage_line(served, self._writer, self._number) + "\n")


# Storing records


async def store(event: Mapping[str, Any], blobs: Blobs) -> dict[str, int]:
    """Store what CloudWatch Logs delivers: an object for each hour of the records in it.

    Objects are named by what they hold, so that a delivery that is repeated stores the same again.
    Raises DamagedDeliveryError, CellUnavailableError; then Lambda repeats the delivery.
    """
    objects: dict[str, list[bytes]] = {}
    counts = {"records": 0, "malformed": 0}
    for kind, hour, line in _sorted_out(_read(event)):
        objects.setdefault(f"{kind}/{_hour_name(hour)}", []).append(line)
        counts[kind] += 1
    for folder, lines in objects.items():
        content = b"".join(line + b"\n" for line in lines)
        await blobs.put(f"{folder}/{sha256(content).hexdigest()}.jsonl", content)
    if counts["malformed"]:
        LOG.error("%d usage lines are malformed", counts["malformed"])
    return {**counts, "objects": len(objects)}


def _read(event: Mapping[str, Any]) -> _Delivery:
    try:
        delivery = _decode_delivery(gunzip(b64decode(event["awslogs"]["data"], validate=True)))
    except (
        *(LookupError, TypeError, ValueError),
        *(BadGzipFile, EOFError, ZlibError, msgspec.DecodeError),
    ) as error:
        raise DamagedDeliveryError(f"no delivery of CloudWatch Logs: {error!r}") from error
    return delivery


def _sorted_out(delivery: _Delivery) -> Iterable[tuple[str, int, bytes]]:
    """The kind of each line, the hour it is filed under, and how it is stored."""
    if delivery.message_type == _CONTROL:
        return
    for event in delivery.log_events:
        for line in filter(None, event.message.split("\n")):
            try:
                record = _decode_record(line)
            except msgspec.DecodeError as error:
                kept = _Malformed(
                    str(error),
                    delivery.log_group,
                    delivery.log_stream,
                    event.id,
                    event.timestamp,
                    line,
                )
                minute = event.timestamp // _MS_PER_S // 60
                yield "malformed", minute // _MINUTES_PER_HOUR, _encode(kept)
            else:
                yield "records", record.minute // _MINUTES_PER_HOUR, _encode(record)


def _hour_name(hour: int) -> str:
    at = utc_time(hour * 3600)
    return f"date={at.year:04}-{at.month:02}-{at.day:02}/hour={at.hour:02}"
