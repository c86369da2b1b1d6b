"""Lines of answers, and marks that say how many there are, however a sandbox ends."""

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from control_plane.serverless.answer_lines import WRITER_MINUTES_MAX, AnswerLines, Marking
from data_plane.core.answer_record import AnswerRecord, answer_record
from data_plane.memory.blobs import MemoryBlobs
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import Mark
from data_plane.usage.register import WRITERS
from tests.unit.control_plane.serverless.test_usage import (
    ANSWERED,
    MINUTE,
    WRITER,
    access_of,
    line_of,
    usage_of,
)
from tests.unit.repeatable import HandClock, SeededEntropy

PAGE = Path(__file__).parents[4] / "docs" / "usage.md"


def at(minute: int) -> Any:
    return msgspec.structs.replace(ANSWERED, started_us=minute * 60_000_000)


def test_a_line_says_what_was_served_and_to_whom_and_nothing_of_what_was_sent() -> None:
    common = {
        "writer": WRITER,
        "number": 7,
        "minute": MINUTE,
        "account": "111122223333",
        "region": "eu-west-1",
        "queue": "orders",
        "operation": "SendMessage",
        "status": "2xx",
        "code": "",
    }
    who = {
        "principal": "arn:aws:iam::111122223333:user/orders",
        "access_key_id": "AKIAEXAMPLE",
        "client": "192.0.2.1",
    }
    sums = {"units": 2, "messages": 1, "bytes": 65_537, "failed_entries": 0}
    line = line_of(7)
    assert json.loads(line) == {"schema": "tidegate.usage.answer/1", **common, **who, **sums}
    assert usage_of(line) == {"schema": "tidegate.usage/1", **common, "requests": 1, **sums}
    assert access_of(line) == {"schema": "tidegate.access/1", **common, **who, "requests": 1}
    assert line in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("size", "units"), [(0, 1), (1, 1), (65_536, 1), (65_537, 2), (1 << 20, 16)]
)
def test_a_begun_chunk_of_64_kib_is_a_unit_and_so_is_an_empty_request(
    size: int, units: int
) -> None:
    assert usage_of(line_of(1, msgspec.structs.replace(ANSWERED, bytes=size)))["units"] == units


def test_units_of_another_kind_are_told_as_they_are() -> None:
    put = msgspec.structs.replace(ANSWERED, bytes=65_537, units=9)
    assert usage_of(line_of(1, put))["units"] == 9


@pytest.mark.parametrize(("status", "told"), [(200, "2xx"), (403, "4xx"), (503, "5xx")])
def test_a_refusal_is_told_by_its_class_and_code(status: int, told: str) -> None:
    served = msgspec.structs.replace(
        ANSWERED, status=status, code="RequestThrottled", account="", principal=""
    )
    for record in (usage_of(line_of(1, served)), access_of(line_of(1, served))):
        assert (record["status"], record["code"]) == (told, "RequestThrottled")
        assert record["account"] == ""


def test_text_from_outside_is_cut_where_records_end() -> None:
    long = msgspec.structs.replace(
        ANSWERED, region="r" * 200, client="c" * 200, access_key_id="k" * 200
    )
    assert access_of(line_of(1, long))["client"] == "c" * 128
    assert access_of(line_of(1, long))["access_key_id"] == "k" * 128
    assert usage_of(line_of(1, long))["region"] == "r" * 128


def test_an_address_of_ipv6_stays_whole() -> None:
    served = msgspec.structs.replace(ANSWERED, client="2001:db8::1")
    assert access_of(line_of(1, served))["client"] == "2001:db8::1"


def test_a_sandbox_numbers_its_lines_from_one_under_a_name_of_its_own() -> None:
    written: list[str] = []
    entropy = SeededEntropy()
    first, second = AnswerLines(entropy, written.append), AnswerLines(entropy, written.append)
    for lines in (first, second, first, first):
        lines.served(ANSWERED)
    records = [json.loads(line) for line in written]
    assert [record["number"] for record in records] == [1, 1, 2, 3]
    assert len({record["writer"] for record in records}) == 2


def test_copies_of_a_sandbox_that_has_served_nothing_have_names_of_their_own() -> None:
    """As a snapshot of one makes them."""
    entropy, written = SeededEntropy(), list[str]()
    copies = [AnswerLines(entropy, written.append) for _ in range(2)]
    before = entropy.random_bytes(8)
    for copy in copies:
        copy.served(ANSWERED)
    writers = [json.loads(line)["writer"] for line in written]
    assert len({*writers, before.hex()}) == 3


class Bench:
    """A sandbox whose marks go to a store that can be away."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.lines = AnswerLines(SeededEntropy(), self.written.append)
        self.blobs = MemoryBlobs(HandClock())
        self.puts = 0
        self.is_away = False

        async def offload(call: Any) -> Any:
            return call()

        place = UsagePlace(self, offload)  # type: ignore[arg-type]
        self.cell = MemoryCell(HandClock(), stamps=False)
        self.marking = Marking(self.lines, place, self.cell)

    async def put(self, name: str, content: bytes) -> None:
        self.puts += 1
        if self.is_away:
            raise CellUnavailableError("away")
        await self.blobs.put(name, content)

    def answer(self, minute: int) -> None:
        self.lines.served(at(minute))
        asyncio.run(self.marking.mark())

    def marks(self) -> dict[str, Mark]:
        async def read() -> dict[str, bytes]:
            names = [blob.name for blob in await self.blobs.names(limit=10)]
            return {name: await self.blobs.get(name) or b"" for name in names}

        return {
            name: msgspec.json.decode(content, type=Mark)
            for name, content in asyncio.run(read()).items()
        }


def test_the_first_answer_of_each_minute_moves_the_mark() -> None:
    bench = Bench()
    for minute, numbers in ((MINUTE, 3), (MINUTE + 1, 2), (MINUTE + 40, 1)):
        for _ in range(numbers):
            bench.answer(minute)
    assert bench.puts == 3
    ((name, mark),) = bench.marks().items()
    assert name == f"writers/date=2025-11-22/{mark.writer}.json"
    assert (mark.kind, mark.opened, mark.complete_to) == ("function", MINUTE, MINUTE + 40)
    assert (mark.records, mark.access, mark.closed, mark.after) == (6, 6, False, "")


def test_a_sandbox_is_registered_with_its_first_mark_and_again_as_another_writer() -> None:
    bench = Bench()
    for minute in (MINUTE, MINUTE + 1, MINUTE + 24 * 60):
        bench.answer(minute)
    found = [item for item in bench.cell.items() if item.key.partition == WRITERS]
    assert {item.key.sort.decode(): item.attributes["o"] for item in found} == {
        mark.writer: mark.opened for mark in bench.marks().values()
    }
    assert {item.attributes["k"] for item in found} == {"function"}
    assert len(found) == 2


def test_a_mark_has_the_answer_before_which_it_is_put() -> None:
    bench = Bench()
    bench.answer(MINUTE)
    bench.answer(MINUTE)
    (mark,) = bench.marks().values()
    assert (mark.records, json.loads(bench.written[0])["number"]) == (1, 1)


def test_nothing_is_put_where_nothing_was_answered() -> None:
    bench = Bench()
    asyncio.run(bench.marking.mark())
    assert bench.puts == 0


def test_a_mark_that_could_not_be_put_stays_due() -> None:
    bench = Bench()
    bench.answer(MINUTE)
    bench.is_away = True
    with pytest.raises(CellUnavailableError):
        bench.answer(MINUTE + 1)
    bench.is_away = False
    bench.answer(MINUTE + 1)
    (mark,) = bench.marks().values()
    assert (mark.complete_to, mark.records) == (MINUTE + 1, 3)


def test_minutes_never_go_back_whatever_the_clock_does() -> None:
    bench = Bench()
    for minute in (MINUTE, MINUTE + 2, MINUTE + 1):
        bench.answer(minute)
    minutes = [json.loads(line)["minute"] for line in bench.written]
    assert minutes == [MINUTE, MINUTE + 2, MINUTE + 2]


def test_a_sandbox_goes_on_as_another_writer_after_a_day() -> None:
    bench = Bench()
    for minute in (0, WRITER_MINUTES_MAX - 1, WRITER_MINUTES_MAX, WRITER_MINUTES_MAX + 1):
        bench.answer(MINUTE + minute)
    first, second = sorted(bench.marks().values(), key=lambda mark: mark.opened)
    numbers = [(json.loads(line)["writer"], json.loads(line)["number"]) for line in bench.written]
    assert numbers == [(mark.writer, number) for mark in (first, second) for number in (1, 2)]
    assert (first.complete_to, first.records) == (MINUTE + WRITER_MINUTES_MAX - 1, 2)
    assert (second.opened, second.records) == (MINUTE + WRITER_MINUTES_MAX, 2)


def asked(lines: AnswerLines, clock: HandClock, answer: Any) -> bytes:
    """What is known of the record while the request is answered."""
    known: list[bytes] = []

    async def answered(_: Any) -> Any:
        known.append(answer_record())
        if answer is not None:
            lines.served(answer)

    asyncio.run(lines.before(answered, clock)(None))  # type: ignore[arg-type]
    return known[0]


def test_a_request_knows_its_record_before_it_is_answered() -> None:
    written: list[str] = []
    lines, clock = AnswerLines(SeededEntropy(), written.append), HandClock()
    clock.time_us = MINUTE * 60_000_000
    first = asked(lines, clock, ANSWERED)
    # Of the second nobody hears any more: its number is no other's.
    second = asked(lines, clock, None)
    clock.advance(120)
    third = asked(lines, clock, at(0))
    told = [json.loads(line) for line in written]
    known = [AnswerRecord(its["writer"], its["number"], its["minute"]).packed() for its in told]
    assert known == [first, third]
    assert [(its["number"], its["minute"]) for its in told] == [(1, MINUTE), (3, MINUTE + 2)]
    assert second == AnswerRecord(told[0]["writer"], 2, MINUTE).packed()
    assert answer_record() == b""
    mark = lines.due_mark()
    assert mark is not None
    assert (mark.records, mark.complete_to) == (3, MINUTE + 2)
