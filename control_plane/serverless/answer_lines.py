"""Lines of a function's log that say what was answered, and to whom (docs/usage.md, *Functions*).

Nothing runs in a function after its answer. So each answer is a line before it goes, and no request
waits for what stores it. A line is a usage record and an access record in one, with one number.
"""

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from control_plane.serverless.health import Answer
from data_plane.core.answer_record import AnswerRecord, answered_as
from data_plane.frontend.served import Served
from data_plane.ports import Cell, Clock, Entropy
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import (
    ACCESS_SCHEMA,
    MARK_SCHEMA,
    NAME_CHARS_MAX,
    SCHEMA,
    US_PER_MINUTE,
    WRITER_BYTES,
    AccessRecord,
    Account,
    Count,
    Mark,
    Name,
    Number,
    StatusClass,
    UsageRecord,
    Writer,
    asked_for,
    priced_as,
    status_class,
    units_of,
)
from data_plane.usage.register import enter

LINE_SCHEMA: Final = "tidegate.usage.answer/1"

WRITER_MINUTES_MAX: Final = 24 * 60
"""A sandbox that is asked so long after its first request goes on as another writer."""

_NO_MARK: Final = -1

_encode: Final = msgspec.json.Encoder().encode


class AnswerLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer: members as in the records, of which `requests` is 1."""

    schema: Literal["tidegate.usage.answer/1"]
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
    units: Count
    messages: Count
    bytes: Count
    failed_entries: Count

    def usage(self) -> UsageRecord:
        """What was served."""
        return UsageRecord(
            *(SCHEMA, self.writer, self.number, self.minute, self.account),
            *(self.region, self.queue, self.operation, self.status, self.code),
            *(1, self.units, self.messages, self.bytes, self.failed_entries),
        )

    def access(self) -> AccessRecord:
        """Who asked for it."""
        return AccessRecord(
            *(ACCESS_SCHEMA, self.writer, self.number, self.minute),
            *(self.account, self.principal, self.access_key_id, self.client),
            *(self.region, self.queue, asked_for(self.operation)),
            *(self.status, self.code, 1),
        )


def answer_line(served: Served, writer: str, number: int, minute: int) -> str:
    """The line of one answer, in JSON, without secrets and without what was sent."""
    line = AnswerLine(
        schema=LINE_SCHEMA,
        writer=writer,
        number=number,
        minute=minute,
        account=served.account,
        principal=served.principal,
        access_key_id=served.access_key_id[:NAME_CHARS_MAX],
        client=served.client[:NAME_CHARS_MAX],
        region=served.region[:NAME_CHARS_MAX],
        queue=served.queue,
        operation=priced_as(served.operation, served.kind),
        status=status_class(served.status),
        code=served.code,
        units=served.units or units_of(served.bytes),
        messages=served.messages - served.duplicates,
        bytes=served.bytes - served.duplicate_bytes,
        failed_entries=served.failed_entries,
    )
    return _encode(line).decode()


class AnswerLines:
    """One sandbox's lines: observes answers, as the front end asks for, and says how far it is.

    `write` takes a whole line, and writes it at once where Lambda takes logs from. The writer's
    name is drawn with its first request, so that copies of a sandbox do not share one.
    """

    def __init__(self, entropy: Entropy, write: Callable[[str], object]) -> None:
        self._entropy = entropy
        self._write = write
        self._writer = ""
        self._number = 0
        self._opened = self._minute = 0
        self._marked = _NO_MARK
        self._expected: AnswerRecord | None = None

    def expect(self, now_us: int) -> AnswerRecord:
        """What the answer to the request that arrives now is going to be.

        No other answer ever is: where this one never comes, its number is missing.
        """
        minute = max(self._minute, now_us // US_PER_MINUTE)
        if not self._writer or minute - self._opened >= WRITER_MINUTES_MAX:
            self._begin(minute)
        self._minute = minute
        self._number += 1
        self._expected = AnswerRecord(self._writer, self._number, minute)
        return self._expected

    def served(self, served: Served) -> None:
        """Write the line of a request that was answered."""
        record = self._expected or self.expect(served.started_us)
        self._expected = None
        self._write(answer_line(served, *record) + "\n")

    def before(self, answer: Answer, clock: Clock) -> Answer:
        """`answer`, which knows what each request's record is going to be."""

        async def answered(request: HttpRequest) -> HttpResponse:
            with answered_as(self.expect(clock.now_us())):
                return await answer(request)

        return answered

    def due_mark(self) -> Mark | None:
        """The mark that is to be put before the last answer goes; None: there is none."""
        if not self._writer or self._minute == self._marked:
            return None
        return Mark(
            *(MARK_SCHEMA, self._writer, "function", self._opened, ""),
            *(self._minute, self._number, self._number, False),
        )

    def marked(self, mark: Mark) -> None:
        """The mark was put."""
        self._marked = mark.complete_to

    def _begin(self, minute: int) -> None:
        self._writer = self._entropy.random_bytes(WRITER_BYTES).hex()
        self._number = 0
        self._opened = minute
        self._marked = _NO_MARK


class Marking:
    """Puts the marks of a sandbox's lines where its records go, and registers it in `control`."""

    def __init__(self, lines: AnswerLines, place: UsagePlace, control: Cell) -> None:
        self._lines = lines
        self._place = place
        self._control = control
        self._registered = ""

    async def mark(self) -> None:
        """Put the mark that is due, if one is. Raises CellUnavailableError; then it stays due."""
        mark = self._lines.due_mark()
        if mark is None:
            return
        await self._place.put_mark(mark)
        if self._registered != mark.writer:
            await enter(self._control, mark)
            self._registered = mark.writer
        self._lines.marked(mark)
