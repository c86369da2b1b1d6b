"""What becomes of lines of answers: records in S3, each delivery the same bytes again."""

import asyncio
import base64
import gzip
import json
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import Any

import msgspec
import pytest
from pyarrow import parquet

from control_plane.serverless import usage
from control_plane.serverless.answer_lines import AnswerLine, AnswerLines, answer_line
from control_plane.serverless.usage import DamagedDeliveryError, store
from data_plane.frontend.served import Served
from data_plane.memory.blobs import MemoryBlobs
from tests.unit.repeatable import HandClock, SeededEntropy

MINUTE = 29_396_847
"""2025-11-22, 11:27 UTC."""
WRITER = "00112233445566aa"

ANSWERED = Served(
    request_id="00000000-0000-4000-8000-000000000000",
    operation="SendMessage",
    account="111122223333",
    region="eu-west-1",
    queue="orders",
    protocol="json",
    status=200,
    code="",
    started_us=MINUTE * 60_000_000,
    finished_us=MINUTE * 60_000_000 + 1,
    messages=1,
    bytes=65_537,
    failed_entries=0,
    client="192.0.2.1",
    principal="arn:aws:iam::111122223333:user/orders",
    access_key_id="AKIAEXAMPLE",
)


def line_of(number: int, served: Served = ANSWERED) -> str:
    return answer_line(served, WRITER, number, served.finished_us // 60_000_000)


def line_of_before(number: int) -> str:
    """As doors wrote them that knew no access records."""
    return msgspec.json.encode(
        msgspec.json.decode(line_of(number), type=AnswerLine).usage()
    ).decode()


def usage_of(line: str) -> dict[str, Any]:
    return record(msgspec.json.decode(line, type=AnswerLine).usage())


def access_of(line: str) -> dict[str, Any]:
    return record(msgspec.json.decode(line, type=AnswerLine).access())


def record(its: Any) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(its)
    return found


def delivery(*messages: str, **changes: Any) -> dict[str, Any]:
    """An event as CloudWatch Logs hands it to a function."""
    content = {
        "messageType": "DATA_MESSAGE",
        "owner": "123456789012",
        "logGroup": "/aws/lambda/tidegate-app",
        "logStream": "2025/11/22/[$LATEST]94fa867e5374431291a7fc14e2f56ae7",
        "subscriptionFilters": ["usage"],
        "logEvents": [
            {"id": f"3462231609969788{number}", "timestamp": MINUTE * 60_000, "message": message}
            for number, message in enumerate(messages)
        ],
        **changes,
    }
    data = gzip.compress(json.dumps(content).encode())
    return {"awslogs": {"data": base64.b64encode(data).decode()}}


@dataclass
class Place:
    blobs: MemoryBlobs

    def store(self, event: dict[str, Any]) -> dict[str, int]:
        return asyncio.run(store(event, self.blobs))

    def objects(self) -> dict[str, bytes]:
        async def read() -> dict[str, bytes]:
            found = [blob.name for blob in await self.blobs.names(limit=1000)]
            return {name: await self.blobs.get(name) or b"" for name in found}

        return asyncio.run(read())

    def records(self, folder: str = "records") -> list[dict[str, Any]]:
        return [
            row
            for name, content in self.objects().items()
            if name.startswith(f"{folder}/")
            for row in parquet.read_table(BytesIO(content)).to_pylist()
        ]

    def malformed(self) -> list[dict[str, Any]]:
        return [
            json.loads(line)
            for name, content in self.objects().items()
            if name.startswith("malformed/")
            for line in content.splitlines()
        ]


@pytest.fixture
def place() -> Place:
    return Place(MemoryBlobs(HandClock()))


def test_a_delivery_is_an_object_of_each_kind_named_by_its_content(place: Place) -> None:
    lines = [line_of(number) + "\n" for number in (2, 1)]
    counts = {"records": 2, "access": 2, "malformed": 0, "objects": 2}
    assert place.store(delivery(*lines)) == counts
    for name, content in place.objects().items():
        folder, _, its = name.rpartition("/")
        assert folder in {f"{kind}/date=2025-11-22/hour=11" for kind in ("records", "access")}
        assert its == f"{sha256(content).hexdigest()}.parquet"
    assert place.records() == [usage_of(line) for line in sorted(lines)]
    assert place.records("access") == [access_of(line) for line in sorted(lines)]


def test_a_delivery_that_is_repeated_stores_the_same_bytes(place: Place) -> None:
    event = delivery(line_of(1), "{}", line_of(2))
    place.store(event)
    before = place.objects()
    place.store(event)
    assert place.objects() == before
    assert len(before) == 3


def test_records_lie_by_the_hour_in_which_they_were_served(place: Place) -> None:
    late = msgspec.structs.replace(ANSWERED, finished_us=(MINUTE + 33) * 60_000_000)
    event = delivery(line_of(1), line_of(2, late))
    assert place.store(event)["objects"] == 4
    folders = {name.rpartition("/")[0] for name in place.objects()}
    assert folders == {
        f"{kind}/date=2025-11-22/hour={hour}" for kind in ("records", "access") for hour in (11, 12)
    }


def test_lines_of_doors_of_before_are_usage_without_access(place: Place) -> None:
    counts = {"records": 2, "access": 1, "malformed": 0, "objects": 2}
    assert place.store(delivery(line_of_before(1), line_of(2))) == counts
    assert place.records() == [json.loads(line_of_before(1)), usage_of(line_of(2))]
    assert place.records("access") == [access_of(line_of(2))]


def changed(**members: object) -> str:
    return json.dumps(json.loads(line_of(1)) | members)


@pytest.mark.parametrize(
    "line",
    [
        line_of(1)[:-5],
        '{"schema":"tidegate.usage/1"}',
        'Traceback with "tidegate.usage" in it',
        changed(schema="tidegate.usage/2"),
        changed(schema="tidegate.usage.answer/2"),
        changed(schema=1),
        line_of_before(1)[:-1] + ',"more":1}',
        changed(number=0),
        changed(number=1.5),
        changed(units="1"),
        changed(requests=1),
        changed(messages=-1),
        changed(bytes=1 << 63),
        changed(writer="somebody"),
        changed(account="1234"),
        changed(status="200"),
        changed(more=1),
    ],
)
def test_a_line_that_is_no_record_is_kept_apart_with_the_reason(place: Place, line: str) -> None:
    good = line_of(2)
    counts = {"records": 1, "access": 1, "malformed": 1, "objects": 3}
    assert place.store(delivery(line, good)) == counts
    (kept,) = place.malformed()
    assert (kept["line"], kept["time_ms"]) == (line, MINUTE * 60_000)
    assert kept["reason"]
    assert kept["log_stream"].startswith("2025/11/22/")
    assert place.records() == [usage_of(good)]


def test_text_from_outside_breaks_no_line(place: Place) -> None:
    odd = msgspec.structs.replace(ANSWERED, region='"}\n{\u2028\x85' + "x" * 200)
    written: list[str] = []
    AnswerLines(SeededEntropy(), written.append).served(odd)
    counts = {"records": 1, "access": 1, "malformed": 0, "objects": 2}
    assert place.store(delivery("".join(written))) == counts


def test_a_control_message_stores_nothing(place: Place) -> None:
    event = delivery("CWL CONTROL MESSAGE: Checking health", messageType="CONTROL_MESSAGE")
    assert place.store(event) == {"records": 0, "access": 0, "malformed": 0, "objects": 0}
    assert place.objects() == {}


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"awslogs": {}},
        {"awslogs": {"data": "###"}},
        {"awslogs": {"data": base64.b64encode(b"no gzip").decode()}},
        {"awslogs": {"data": base64.b64encode(gzip.compress(b"{}")[:-9]).decode()}},
        {"awslogs": {"data": base64.b64encode(gzip.compress(b'{"a": 1}')).decode()}},
    ],
)
def test_what_no_log_delivers_is_an_error(place: Place, event: dict[str, Any]) -> None:
    with pytest.raises(DamagedDeliveryError):
        place.store(event)
    assert place.objects() == {}


def test_the_subscription_asks_for_every_version_of_a_line() -> None:
    term = usage.PATTERN.strip('"')
    assert term in line_of(1)
    assert term in changed(schema="tidegate.usage/2")
