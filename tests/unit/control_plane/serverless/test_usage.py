"""Usage lines, and what becomes of them: records in S3, each delivery the same bytes again."""

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
from control_plane.serverless.usage import DamagedDeliveryError, UsageLines, store, usage_line
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
    started_us=MINUTE * 60_000_000 - 1,
    finished_us=MINUTE * 60_000_000,
    messages=1,
    bytes=65_537,
    failed_entries=0,
    client="192.0.2.1",
)


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

    def records(self) -> list[dict[str, Any]]:
        return [
            row
            for name, content in self.objects().items()
            if name.startswith("records/")
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


def test_a_line_says_what_was_served_and_nothing_of_what_was_sent() -> None:
    assert json.loads(usage_line(ANSWERED, WRITER, 7)) == {
        "schema": "tidegate.usage/1",
        "writer": WRITER,
        "number": 7,
        "minute": MINUTE,
        "account": "111122223333",
        "region": "eu-west-1",
        "queue": "orders",
        "operation": "SendMessage",
        "status": "2xx",
        "code": "",
        "requests": 1,
        "units": 2,
        "messages": 1,
        "bytes": 65_537,
        "failed_entries": 0,
    }


@pytest.mark.parametrize(
    ("size", "units"), [(0, 1), (1, 1), (65_536, 1), (65_537, 2), (1 << 20, 16)]
)
def test_a_begun_chunk_of_64_kib_is_a_unit_and_so_is_an_empty_request(
    size: int, units: int
) -> None:
    line = usage_line(msgspec.structs.replace(ANSWERED, bytes=size), WRITER, 1)
    assert json.loads(line)["units"] == units


@pytest.mark.parametrize(("status", "told"), [(200, "2xx"), (403, "4xx"), (503, "5xx")])
def test_a_refusal_is_told_by_its_class_and_code(status: int, told: str) -> None:
    served = msgspec.structs.replace(ANSWERED, status=status, code="RequestThrottled", account="")
    record = json.loads(usage_line(served, WRITER, 1))
    assert (record["status"], record["code"], record["account"]) == (told, "RequestThrottled", "")


def test_a_sandbox_numbers_its_lines_from_one_under_a_name_of_its_own() -> None:
    written: list[str] = []
    entropy = SeededEntropy()
    first, second = UsageLines(entropy, written.append), UsageLines(entropy, written.append)
    for lines in (first, second, first, first):
        lines.served(ANSWERED)
    records = [json.loads(line) for line in written]
    assert [record["number"] for record in records] == [1, 1, 2, 3]
    assert len({record["writer"] for record in records}) == 2


def test_copies_of_a_sandbox_that_has_served_nothing_have_names_of_their_own() -> None:
    """As a snapshot of one makes them."""
    entropy, written = SeededEntropy(), list[str]()
    copies = [UsageLines(entropy, written.append) for _ in range(2)]
    before = entropy.random_bytes(8)
    for copy in copies:
        copy.served(ANSWERED)
    writers = [json.loads(line)["writer"] for line in written]
    assert len({*writers, before.hex()}) == 3


def test_a_delivery_is_an_object_named_by_its_content(place: Place) -> None:
    lines = [usage_line(ANSWERED, WRITER, number) + "\n" for number in (2, 1)]
    assert place.store(delivery(*lines)) == {"records": 2, "malformed": 0, "objects": 1}
    ((name, content),) = place.objects().items()
    assert name == f"records/date=2025-11-22/hour=11/{sha256(content).hexdigest()}.parquet"
    assert place.records() == [json.loads(line) for line in sorted(lines)]


def test_a_delivery_that_is_repeated_stores_the_same_bytes(place: Place) -> None:
    event = delivery(usage_line(ANSWERED, WRITER, 1), "{}", usage_line(ANSWERED, WRITER, 2))
    place.store(event)
    before = place.objects()
    place.store(event)
    assert place.objects() == before
    assert len(before) == 2


def test_records_lie_by_the_hour_in_which_they_were_served(place: Place) -> None:
    late = msgspec.structs.replace(ANSWERED, finished_us=(MINUTE + 33) * 60_000_000)
    event = delivery(usage_line(ANSWERED, WRITER, 1), usage_line(late, WRITER, 2))
    assert place.store(event)["objects"] == 2
    folders = {name.rpartition("/")[0] for name in place.objects()}
    assert folders == {"records/date=2025-11-22/hour=11", "records/date=2025-11-22/hour=12"}


def changed(**members: object) -> str:
    return json.dumps(json.loads(usage_line(ANSWERED, WRITER, 1)) | members)


@pytest.mark.parametrize(
    "line",
    [
        usage_line(ANSWERED, WRITER, 1)[:-5],
        '{"schema":"tidegate.usage/1"}',
        'Traceback with "tidegate.usage" in it',
        changed(schema="tidegate.usage/2"),
        changed(number=0),
        changed(number=1.5),
        changed(requests="1"),
        changed(messages=-1),
        changed(bytes=1 << 63),
        changed(writer="somebody"),
        changed(account="1234"),
        changed(status="200"),
        changed(more=1),
    ],
)
def test_a_line_that_is_no_record_is_kept_apart_with_the_reason(place: Place, line: str) -> None:
    good = usage_line(ANSWERED, WRITER, 2)
    assert place.store(delivery(line, good)) == {"records": 1, "malformed": 1, "objects": 2}
    (kept,) = place.malformed()
    assert (kept["line"], kept["time_ms"]) == (line, MINUTE * 60_000)
    assert kept["reason"]
    assert kept["log_stream"].startswith("2025/11/22/")
    assert place.records() == [json.loads(good)]


def test_text_from_outside_breaks_no_line(place: Place) -> None:
    odd = msgspec.structs.replace(ANSWERED, region='"}\n{\u2028\x85' + "x" * 200)
    written: list[str] = []
    UsageLines(SeededEntropy(), written.append).served(odd)
    assert place.store(delivery("".join(written))) == {"records": 1, "malformed": 0, "objects": 1}


def test_a_control_message_stores_nothing(place: Place) -> None:
    event = delivery("CWL CONTROL MESSAGE: Checking health", messageType="CONTROL_MESSAGE")
    assert place.store(event) == {"records": 0, "malformed": 0, "objects": 0}
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
    assert term in usage_line(ANSWERED, WRITER, 1)
    assert term in changed(schema="tidegate.usage/2")
