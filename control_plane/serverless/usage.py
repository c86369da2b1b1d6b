"""Usage and access records of the functions: from lines to objects in S3 (docs/usage.md).

A subscription of the doors' logs hands their lines to another function, which stores what they
say. Logs deliver what they took at least once; lines are numbered, so that what came twice, or did
not come, is seen.
"""

import logging
from base64 import b64decode
from collections.abc import Mapping
from gzip import BadGzipFile
from gzip import decompress as gunzip
from hashlib import sha256
from typing import Any, Final, NamedTuple
from zlib import error as ZlibError  # noqa: N812 - zlib's own name is no class's

import msgspec

from control_plane.serverless.answer_lines import AnswerLine
from data_plane.ports import Blobs
from data_plane.usage.place import objects_of
from data_plane.usage.record import SCHEMA, AccessRecord, Record, UsageRecord, hour_folder

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


class _Schema(msgspec.Struct, frozen=True):
    """What a line says it is."""

    schema: str


_encode: Final = msgspec.json.Encoder().encode
_decode_schema: Final = msgspec.json.Decoder(_Schema).decode
_decode_answer: Final = msgspec.json.Decoder(AnswerLine).decode
_decode_usage: Final = msgspec.json.Decoder(UsageRecord).decode
_decode_delivery: Final = msgspec.json.Decoder(_Delivery).decode


class DamagedDeliveryError(Exception):
    """The event is not what CloudWatch Logs delivers; there is nothing in it to keep."""


class _Sorted(NamedTuple):
    """What a delivery has: records, and other lines as they are kept, by their folders."""

    usage: list[UsageRecord]
    access: list[AccessRecord]
    malformed: dict[str, list[bytes]]


async def store(event: Mapping[str, Any], blobs: Blobs) -> dict[str, int]:
    """Store what CloudWatch Logs delivers: objects for each hour of the answers in it.

    Objects are named by what they hold, so that a delivery that is repeated stores the same again.
    Raises DamagedDeliveryError, CellUnavailableError; then Lambda repeats the delivery.
    """
    its = _sorted_out(_read(event))
    objects = [
        *objects_of(sorted(its.usage, key=_identity)),
        *objects_of(sorted(its.access, key=_identity)),
        *(_object_of(folder, lines) for folder, lines in its.malformed.items()),
    ]
    for name, content in objects:
        await blobs.put(name, content)
    count = sum(map(len, its.malformed.values()))
    if count:
        LOG.error("%d usage lines are malformed", count)
    return {
        "records": len(its.usage),
        "access": len(its.access),
        "malformed": count,
        "objects": len(objects),
    }


def _identity(record: Record) -> tuple[str, int]:
    return record.writer, record.number


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


def _sorted_out(delivery: _Delivery) -> _Sorted:
    its = _Sorted([], [], {})
    for event in delivery.log_events if delivery.message_type != _CONTROL else ():
        for line in filter(None, event.message.split("\n")):
            try:
                _add(its, line)
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
                its.malformed.setdefault(folder, []).append(_encode(kept))
    return its


def _add(its: _Sorted, line: str) -> None:
    """Add what a line says. Raises msgspec.DecodeError where it is none of a door."""
    if _decode_schema(line).schema == SCHEMA:
        its.usage.append(_decode_usage(line))  # from a door of before
        return
    answer = _decode_answer(line)
    its.usage.append(answer.usage())
    its.access.append(answer.access())
