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
MALFORMED: Final = "malformed/"

TEXTS: Final = ("schema", "writer", "account", "region", "queue", "operation", "status", "code")
COLUMNS: Final = (
    *("schema", "writer", "number", "minute"),
    *("account", "region", "queue", "operation", "status", "code"),
    *("requests", "units", "messages", "bytes", "failed_entries"),
)
"""Of a record, in its order."""

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

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that are texts."""
        return tuple(name for name in self.columns if name not in self.numbers_min)


USAGE: Final = Kind(RECORDS, SCHEMA, COLUMNS, NUMBERS_MIN, TEXT_CHARS_MAX)

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


def read_mark(content: bytes) -> Mark:
    """A mark from its object's content. Raises ValueError with the reason where it is none."""
    said = json.loads(content)
    if not isinstance(said, dict) or said.get("schema") != MARK_SCHEMA:
        raise ValueError(f"its schema is not {MARK_SCHEMA}")
    said = {"desks": "", "off_from": 0, **said}  # Servers of before said neither.
    for name, kind in get_type_hints(Mark).items():
        if type(said.get(name)) is not kind or (kind is int and said[name] < 0):
            raise ValueError(f"its {name} is {said.get(name)!r}")
    mark = Mark(**{name: said[name] for name in Mark.__slots__})
    if not WRITER.fullmatch(mark.writer):
        raise ValueError(f"its writer is {mark.writer!r}")
    if not DESKS.fullmatch(mark.desks):
        raise ValueError(f"its desks is {mark.desks!r}")
    return mark
