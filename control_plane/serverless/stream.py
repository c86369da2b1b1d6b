"""The stream of a cell's table: bodies apart go with the segments that named them.

DynamoDB removes a segment when its time to live is over, and says so in the stream. The segment's
body in S3 is of no use then; docs/storage.md, *Bodies apart*, has the rule. What the stream does
not bring (a record older than a day, one that failed again and again) the sweep finds.
"""

import logging
from base64 import b64decode
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from control_plane.service import ServicePorts
from data_plane.dynamodb.items import UnreadableItemError, decode_item
from data_plane.ports import CellUnavailableError, Item
from data_plane.stored.bodies import segment_of

AT_ONCE_MAX: Final = 100
"""Segments that are looked at, and bodies that are removed, in one request each."""

FILTER: Final[Mapping[str, Any]] = {
    "eventName": ["REMOVE"],
    "dynamodb": {"OldImage": {"o": {"S": [{"exists": True}]}}},
}
"""Which records the function is called for: removed segments and slots with their bodies apart."""

LOG: Final = logging.getLogger(__name__)


class UnknownCellError(Exception):
    """The stream is not one of this deployment's cells."""


class Removed(NamedTuple):
    """A body whose segment was removed, by the record with this sequence number."""

    sequence: str
    body: str


async def handle(event: Mapping[str, Any], ground: ServicePorts) -> dict[str, Any]:
    """Remove the bodies of removed segments: Lambda's partial batch response.

    What could not be done names the first record from which on Lambda has to repeat the batch;
    what is repeated does no harm. Raises UnknownCellError.
    """
    by_cell: dict[str, list[Removed]] = {}
    for record in event["Records"]:
        body = removed_body(record)
        if body:
            name = cell_of(record["eventSourceARN"])
            if name not in ground.bodies:
                raise UnknownCellError(f"no bodies of a cell {name!r} are known here")
            sequence = record["dynamodb"]["SequenceNumber"]
            by_cell.setdefault(name, []).append(Removed(sequence, body))
    failed: list[str] = []
    for name, removed in by_cell.items():
        failed += await _remove(name, removed, ground)
    return {"batchItemFailures": [{"itemIdentifier": sequence} for sequence in failed]}


async def _remove(name: str, removed: list[Removed], ground: ServicePorts) -> list[str]:
    """Remove these bodies; the sequence number of the first that is left, if any."""
    for start in range(0, len(removed), AT_ONCE_MAX):
        chunk = removed[start : start + AT_ONCE_MAX]
        try:
            await ground.bodies[name].remove_left(
                ground.segments_of(name),
                ground.waits,
                [one.body for one in chunk],
                ground.clock.now_us(),
            )
        except CellUnavailableError as error:
            LOG.warning("%d bodies are still there: %s", len(removed) - start, error)
            return [chunk[0].sequence]
    return []


def removed_body(record: Mapping[str, Any]) -> str:
    """The body of the segment or slot that the record says was removed; "" for any other record."""
    if record.get("eventName") != "REMOVE":
        return ""
    try:
        item = read_image(record["dynamodb"]["OldImage"])
    except (UnreadableItemError, LookupError, ValueError) as error:
        # To repeat it would hold up all records behind it, and the sweep finds the body.
        LOG.warning("record %s of the stream is unreadable: %s", record.get("eventID"), error)
        return ""
    body = item.attributes.get("o")
    # The state of a block has a number there.
    return body if isinstance(body, str) and segment_of(body) == item.key else ""


def read_image(image: Mapping[str, Mapping[str, Any]]) -> Item:
    """An item as an event has it: like DynamoDB's answers, but bytes are in base64.

    Raises UnreadableItemError, ValueError for what is no base64.
    """
    return decode_item({name: dict(_plain(typed)) for name, typed in image.items()})


def _plain(typed: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    for kind, value in typed.items():
        yield kind, b64decode(value, validate=True) if kind == "B" else value


def cell_of(stream_arn: str) -> str:
    """The cell with this stream: its table's name.

    As in `arn:aws:dynamodb:us-east-1:123456789012:table/tidegate/stream/2026-11-21T00:00:00.000`.
    """
    return stream_arn.split(":", 5)[5].split("/")[1]
