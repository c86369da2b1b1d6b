"""Usage records of the functions: from each answer to an object in S3 (docs/usage.md).

Nothing runs in a function after its answer. So each answer is a line of the function's log, and a
subscription of that log hands the lines to another function, which stores them: no request waits
for it. Logs deliver what they took at least once; records are numbered, so that what came twice, or
did not come, is seen.
"""

import logging
from base64 import b64decode
from collections.abc import Callable, Mapping
from gzip import BadGzipFile
from gzip import decompress as gunzip
from hashlib import sha256
from typing import Any, Final
from zlib import error as ZlibError  # noqa: N812 - zlib's own name is no class's

import msgspec

from data_plane.frontend.served import Served
from data_plane.ports import Blobs, Entropy
from data_plane.usage.place import objects_of
from data_plane.usage.record import (
    NAME_CHARS_MAX,
    SCHEMA,
    US_PER_MINUTE,
    WRITER_BYTES,
    UsageRecord,
    hour_folder,
    status_class,
    units_of,
)

PATTERN: Final = f'"{SCHEMA.partition("/")[0]}"'
"""What the subscription asks for: lines of every version, damaged ones among them."""

_MS_PER_MINUTE: Final = 60_000
_CONTROL: Final = "CONTROL_MESSAGE"

LOG: Final = logging.getLogger(__name__)


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
        minute=served.finished_us // US_PER_MINUTE,
        account=served.account,
        region=served.region[:NAME_CHARS_MAX],
        queue=served.queue,
        operation=served.operation,
        status=status_class(served.status),
        code=served.code,
        requests=1,
        units=units_of(served.bytes),
        messages=served.messages - served.duplicates,
        bytes=served.bytes - served.duplicate_bytes,
        failed_entries=served.failed_entries,
    )
    return _encode(record).decode()


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
        self._writer = self._writer or self._entropy.random_bytes(WRITER_BYTES).hex()
        self._number += 1
        self._write(usage_line(served, self._writer, self._number) + "\n")


# Storing records


async def store(event: Mapping[str, Any], blobs: Blobs) -> dict[str, int]:
    """Store what CloudWatch Logs delivers: an object for each hour of the records in it.

    Objects are named by what they hold, so that a delivery that is repeated stores the same again.
    Raises DamagedDeliveryError, CellUnavailableError; then Lambda repeats the delivery.
    """
    records, malformed = _sorted_out(_read(event))
    objects = [
        *objects_of(sorted(records, key=lambda record: (record.writer, record.number))),
        *(_object_of(folder, lines) for folder, lines in malformed.items()),
    ]
    for name, content in objects:
        await blobs.put(name, content)
    count = sum(map(len, malformed.values()))
    if count:
        LOG.error("%d usage lines are malformed", count)
    return {"records": len(records), "malformed": count, "objects": len(objects)}


def _object_of(folder: str, lines: list[bytes]) -> tuple[str, bytes]:
    content = b"".join(line + b"\n" for line in lines)
    return f"{folder}/{sha256(content).hexdigest()}.jsonl", content


def _read(event: Mapping[str, Any]) -> _Delivery:
    try:
        delivery = _decode_delivery(gunzip(b64decode(event["awslogs"]["data"], validate=True)))
    except (
        *(LookupError, TypeError, ValueError),
        *(BadGzipFile, EOFError, ZlibError, msgspec.DecodeError),
    ) as error:
        raise DamagedDeliveryError(f"no delivery of CloudWatch Logs: {error!r}") from error
    return delivery


def _sorted_out(delivery: _Delivery) -> tuple[list[UsageRecord], dict[str, list[bytes]]]:
    """The records, and the other lines as they are kept, by folder."""
    records: list[UsageRecord] = []
    malformed: dict[str, list[bytes]] = {}
    for event in delivery.log_events if delivery.message_type != _CONTROL else ():
        for line in filter(None, event.message.split("\n")):
            try:
                records.append(_decode_record(line))
            except msgspec.DecodeError as error:
                folder = f"malformed/{hour_folder(event.timestamp // _MS_PER_MINUTE)}"
                kept = _Malformed(
                    str(error),
                    delivery.log_group,
                    delivery.log_stream,
                    event.id,
                    event.timestamp,
                    line,
                )
                malformed.setdefault(folder, []).append(_encode(kept))
    return records, malformed
