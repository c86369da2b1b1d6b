"""Usage records as jobs read them: docs/usage.md is the contract."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import blake2b
from typing import Final, get_type_hints

SCHEMA: Final = "tidegate.usage/1"
MARK_SCHEMA: Final = "tidegate.writer/1"
RECORDS: Final = "records/"
MARKS: Final = "writers/"
TAILS: Final = "tails/"
MALFORMED: Final = "malformed/"

TEXTS: Final = ("schema", "writer", "account", "region", "queue", "operation", "status", "code")
COLUMNS: Final = (
    *("schema", "writer", "number", "minute"),
    *("account", "region", "queue", "operation", "status", "code"),
    *("requests", "units", "messages", "bytes", "failed_entries"),
)
"""Of a record, in its order."""

KINESIS: Final = "kinesis:"
"""Before names of operations that are no operations of SQS."""

MESSAGES_OF: Final = frozenset(
    {
        *("SendMessage", "SendMessageBatch", "ReceiveMessage", "TidegateBrowseMessages"),
        *("DeleteMessage", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"),
        *(
            f"{KINESIS}{name}"
            for name in (
                *("PutRecord", "PutRecords", "GetRecords"),
                *("ReceiveQueueRecords", "ReceiveDeadLetterQueueRecords"),
                *("AcknowledgeQueueRecords", "AcknowledgeDeadLetterQueueRecords"),
                *("UpdateQueueRecordsVisibility", "UpdateDeadLetterQueueRecordsVisibility"),
                "RestoreDeadLetterQueueRecords",
            )
        ),
    }
)
"""Operations whose `messages` are messages or records: those that sums over operations have.

In that column others say what they changed: how many shards there are, or hours of retention."""

KIND: Final = "/"
"""Behind the name of an operation, before the kind of its calls."""

NUMBERS_MIN: Final = {
    "number": 1,
    "minute": 0,
    "requests": 0,
    "units": 0,
    "messages": 0,
    "bytes": 0,
    "failed_entries": 0,
}
"""The integers, and the least that each may be."""

SUMS: Final = (
    *("records", "requests", "units", "messages", "bytes", "failed_entries"),
    "empty_receives",
)
"""What a row of hourly usage adds up; `empty_receives` are requests of records of receives that
brought no message."""

FIFO_SUFFIX: Final = ".fifo"

STATUSES: Final = frozenset({"2xx", "3xx", "4xx", "5xx"})
WRITER: Final = re.compile(r"[0-9a-f]{16}")
DESKS: Final = re.compile(r"([0-9a-f]{12}( [0-9a-f]{12})*)?")
ACCOUNT: Final = re.compile(r"([0-9]{12})?")
TEXT_CHARS_MAX: Final = 128


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of numbered records that lie in objects of an hour each: what is right in them."""

    folder: str
    schema: str
    columns: tuple[str, ...]
    numbers_min: Mapping[str, int]
    """The columns that are integers, and the least that each may be; all others are texts."""
    text_chars_max: int
    at_least: tuple[tuple[str, str], ...] = ()
    """Pairs of integers, of which the second is no less than the first."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that are texts."""
        return tuple(name for name in self.columns if name not in self.numbers_min)


USAGE: Final = Kind(
    *(RECORDS, SCHEMA, COLUMNS, NUMBERS_MIN, TEXT_CHARS_MAX),
    at_least=(("requests", "units"),),
)

_US_PER_MINUTE: Final = 60_000_000

_FILED: Final = re.compile(r"date=(\d{4}-\d{2}-\d{2})/hour=([01]\d|2[0-3])/([0-9a-f]{64})\.parquet")

_OPENED: Final = re.compile(r"date=(\d{4}-\d{2}-\d{2})/")


@dataclass(frozen=True, slots=True)
class Filed:
    """Where an object of records is filed: the day, the hour of it, and what its bytes hash to."""

    date: str
    hour: int
    sha256: str


def filed(name: str, folder: str = RECORDS) -> Filed | None:
    """What a name in a usage place says, or None for that of no object of records."""
    found = _FILED.fullmatch(name.removeprefix(folder))
    return Filed(found.group(1), int(found.group(2)), found.group(3)) if found else None


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a writer's records go, as it says itself: *Marks* in docs/usage.md."""

    writer: str
    opened: int
    after: str
    complete_to: int
    records: int
    closed: bool
    kind: str = "server"
    access: int = 0
    desks: str = ""
    off_from: int = 0
    counted_to: int = 0
    unsaved_max: int = -1
    ended: int = 0

    @property
    def ended_us(self) -> int:
        """A moment by which the server had ended; -1: as far as is known it has not.

        That of a clean end to the microsecond, where the mark has it; of others, to the minute.
        """
        if self.closed and self.counted_to:
            return self.counted_to
        minute = self.complete_to if self.closed else self.ended
        return (minute + 1) * _US_PER_MINUTE if minute else -1

    def wrote_in(self, minute: int, writer: str) -> bool:
        """Whether the writer is what one of this server's desks has sent in this minute."""
        return any(writer == minute_writer(desk, minute) for desk in self.desks.split())


def minute_writer(desk: str, minute: int) -> str:
    """The writer that a minute of a desk is: docs/usage.md, *What a crash can lose*."""
    place = bytes.fromhex(desk) + minute.to_bytes(8, "big")
    return blake2b(place, digest_size=8, person=b"sent minute").hexdigest()


def may_have_written(name: str, period: str) -> bool:
    """Whether the writer of the mark of this name can have records of the month.

    Sandboxes write for 24 hours at most; their marks are filed by the day on which they opened.
    """
    opened = _OPENED.match(name.removeprefix(MARKS))
    try:
        day = date.fromisoformat(opened.group(1)) if opened else None
    except ValueError:
        day = None
    if day is None:
        return True
    return period in {f"{each:%Y-%m}" for each in (day, day + timedelta(days=1))}


_ABSENT: Final = {"desks": "", "off_from": 0, "counted_to": 0, "unsaved_max": -1, "ended": 0}

_MINUTES: Final = frozenset({"opened", "complete_to", "off_from", "ended"})

_MINUTE_END: Final = 1 << 32
"""Minutes behind it are in no calendar."""


def _is_right(name: str, value: int) -> bool:
    least = -1 if name == "unsaved_max" else 0
    return least <= value < (_MINUTE_END if name in _MINUTES else 1 << 63)


def read_mark(content: bytes) -> Mark:
    """A mark from its object's content. Raises ValueError with the reason where it is none."""
    said = json.loads(content)
    if not isinstance(said, dict) or said.get("schema") != MARK_SCHEMA:
        raise ValueError(f"its schema is not {MARK_SCHEMA}")
    said = {**_ABSENT, **said}  # Servers of before did not say these.
    for name, kind in get_type_hints(Mark).items():
        if type(said.get(name)) is not kind or (kind is int and not _is_right(name, said[name])):
            raise ValueError(f"its {name} is {said.get(name)!r}")
    mark = Mark(**{name: said[name] for name in Mark.__slots__})
    if not WRITER.fullmatch(mark.writer):
        raise ValueError(f"its writer is {mark.writer!r}")
    if not DESKS.fullmatch(mark.desks):
        raise ValueError(f"its desks is {mark.desks!r}")
    return mark
