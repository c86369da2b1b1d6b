"""What a sandbox opens: only what is there, with few requests, and one line for what is not."""

import io
import json
import logging
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any

import boto3
import pytest
from moto import mock_aws

from control_plane.core.definition import Definition
from control_plane.places.tables import IDENTITY
from control_plane.serverless.answer_lines import LINE_SCHEMA, AnswerLines
from control_plane.serverless.logs import FunctionLog
from control_plane.serverless.sandbox import Sandbox
from control_plane.serverless.settings import VariableError
from control_plane.stored_on_tables import StoredOnTables
from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.items import encode_key
from data_plane.dynamodb.opening import make_table
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import Mark
from tests.conformance.door_events import response_of, url_event
from tests.conformance.doors import Context
from tests.conformance.raw_calls import form_request, read_reply
from tests.unit.control_plane.one_queue import hold_to_one_queue

REGION = "eu-west-1"
TABLE = "tidegate"
BUCKET = "bodies"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """A sandbox takes the log of its process for its own."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(scope="module")
def aws() -> Iterator[dict[str, str]]:
    """A deployment: the environment of its functions."""
    with mock_aws():
        dynamodb = boto3.client("dynamodb", region_name=REGION)
        make_table(dynamodb, TABLE)
        s3 = boto3.client("s3", region_name=REGION)
        where: Any = {"LocationConstraint": REGION}
        s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=where)
        kms = boto3.client("kms", region_name=REGION)
        yield {
            "AWS_REGION": REGION,
            "TIDEGATE_TABLE": TABLE,
            "TIDEGATE_BLOBS": f"s3://{BUCKET}",
            "TIDEGATE_KMS_KEY": kms.create_key()["KeyMetadata"]["Arn"],
        }


def test_a_sandbox_holds_accounts_to_what_they_may_store_and_define(aws: dict[str, str]) -> None:
    with redirect_stdout(io.StringIO()):
        opened = Sandbox(aws).opened
    assert isinstance(opened.ground.stored, StoredOnTables)
    opened.run(hold_to_one_queue(opened.service))


def test_a_sandbox_answers(aws: dict[str, str]) -> None:
    lines = io.StringIO()
    with redirect_stdout(lines):
        sandbox = Sandbox(aws)
        event = url_event(form_request(b"Action=ListQueues"))
        reply = read_reply(response_of(sandbox.doors.answer_url(event, Context())), "query")
    assert (reply.status, reply.code) == (400, "IncompleteSignature")
    request, usage = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert (request["event"], request["code"]) == ("request", "IncompleteSignature")
    assert usage["schema"] == LINE_SCHEMA


def test_streams_of_a_sandbox_are_as_strict_as_it_is_told(aws: dict[str, str]) -> None:
    found: dict[str, Any] = {}
    for seconds in ("", "600", "0"):
        with redirect_stdout(io.StringIO()):
            opened = Sandbox({**aws, "TIDEGATE_STRICT_STREAMS": seconds}).opened
        registry = opened.service.streams.registry
        made = registry.define(
            account="111122223333", region=REGION, name="clicks", shards=1, tags={}
        )
        found[seconds] = made.status_at(made.created_ms * 1_000)
    assert found == {"": "ACTIVE", "600": "CREATING", "0": "ACTIVE"}


@pytest.mark.parametrize("observer", ["log", "usage"])
def test_an_observer_that_fails_takes_back_no_answer(
    aws: dict[str, str], observer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ArithmeticError

    of = {"log": FunctionLog, "usage": AnswerLines}[observer]
    monkeypatch.setattr(of, "served", broken)
    lines = io.StringIO()
    with redirect_stdout(lines):
        sandbox = Sandbox(aws)
        event = url_event(form_request(b"Action=ListQueues"))
        reply = read_reply(response_of(sandbox.doors.answer_url(event, Context())), "query")
    assert (reply.status, reply.code) == (400, "IncompleteSignature")
    told, *others = [json.loads(line) for line in lines.getvalue().splitlines()]
    if observer == "usage":
        told, others = others[0], [told]
    assert (told["event"], told["observer"], told["failures"]) == ("observer failed", observer, 1)
    assert len(others) == 1


def test_an_answer_stands_where_no_line_can_be_written(aws: dict[str, str]) -> None:
    """As when the other end of standard output is gone."""

    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    with redirect_stdout(Gone()):
        sandbox = Sandbox({**aws, "TIDEGATE_USAGE": "s3://no-such-place/usage"})
        event = url_event(form_request(b"Action=ListQueues"))
        reply = read_reply(response_of(sandbox.doors.answer_url(event, Context())), "query")
    assert (reply.status, reply.code) == (400, "IncompleteSignature")


def answered(environ: dict[str, str], count: int = 1) -> list[dict[str, Any]]:
    """The lines of a sandbox that gives so many answers, none of which its log has anything on."""
    lines = io.StringIO()
    with redirect_stdout(lines):
        sandbox = Sandbox({**environ, "TIDEGATE_LOG_LEVEL": "warning"})
        for _ in range(count):
            event = url_event(form_request(b"Action=ListQueues"))
            reply = read_reply(response_of(sandbox.doors.answer_url(event, Context())), "query")
            assert reply.code == "IncompleteSignature"
    return [json.loads(line) for line in lines.getvalue().splitlines()]


def test_a_sandbox_marks_how_far_its_records_go(aws: dict[str, str]) -> None:
    s3 = boto3.client("s3", region_name=REGION)
    where: Any = {"LocationConstraint": REGION}
    s3.create_bucket(Bucket="records", CreateBucketConfiguration=where)
    lines = answered({**aws, "TIDEGATE_USAGE": "s3://records/usage"}, 3)
    (writer,) = {line["writer"] for line in lines if "writer" in line}
    (listed,) = s3.list_objects_v2(Bucket="records")["Contents"]
    mark = json.loads(s3.get_object(Bucket="records", Key=listed["Key"])["Body"].read())
    folder, _, name = listed["Key"].rpartition("/")
    assert (mark["writer"], mark["kind"], name) == (writer, "function", f"{writer}.json")
    assert folder.startswith("usage/writers/date=")
    assert 1 <= mark["records"] == mark["access"] <= 3
    # A minute may begin among them.
    assert mark["complete_to"] in {line["minute"] for line in lines if "minute" in line}


def test_an_answer_stands_where_its_mark_cannot_be_put(aws: dict[str, str]) -> None:
    lines = answered({**aws, "TIDEGATE_USAGE": "s3://no-such-place/usage"})
    (told,) = [line["message"] for line in lines if line.get("event") == "log"]
    assert told.startswith("left to the next invocation: put writers/")
    assert "NoSuchBucket" in told


def test_a_mark_is_put_where_other_closing_fails(
    aws: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> None:
        raise ArithmeticError

    put = []

    async def note(_: Any, mark: Mark) -> None:
        put.append(mark.records)

    monkeypatch.setattr(DynamoCell, "flush", fail)
    monkeypatch.setattr(UsagePlace, "put_mark", note)
    answered({**aws, "TIDEGATE_USAGE": "s3://records/usage"})
    assert put == [1]


def test_all_sandboxes_have_the_same_secret(aws: dict[str, str]) -> None:
    first, second = (Sandbox(aws).opened.ground.registry_secret for _ in range(2))
    assert first == second
    assert len(first) == 32


def test_a_key_by_its_alias(aws: dict[str, str]) -> None:
    kms = boto3.client("kms", region_name=REGION)
    kms.create_alias(AliasName="alias/tidegate", TargetKeyId=aws["TIDEGATE_KMS_KEY"])
    by_alias = {**aws, "TIDEGATE_KMS_KEY": "alias/tidegate"}
    assert Sandbox(by_alias).opened.ground.registry_secret


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("TIDEGATE_TABLE", "nowhere", "ResourceNotFoundException"),
        ("TIDEGATE_BLOBS", "s3://nowhere", "NoSuchBucket"),
        ("TIDEGATE_BLOBS", "s3://other-bodies", "the bodies of the table tidegate are not in"),
        ("TIDEGATE_KMS_KEY", "alias/nowhere", "alias/nowhere"),
        ("TIDEGATE_TABLE", "", "it is missing"),
    ],
)
def test_what_is_not_there_is_not_made(
    aws: dict[str, str], name: str, value: str, words: str
) -> None:
    Sandbox(aws).opened  # noqa: B018 - the place of the bodies is known from now on
    s3 = boto3.client("s3", region_name=REGION)
    where: Any = {"LocationConstraint": REGION}
    if value == "s3://other-bodies":
        s3.create_bucket(Bucket="other-bodies", CreateBucketConfiguration=where)
    before = _buckets()
    lines = io.StringIO()
    with redirect_stdout(lines), pytest.raises(VariableError) as failed:
        Sandbox({**aws, name: value}).doors  # noqa: B018 - opening is what fails
    text = str(failed.value)
    assert text.startswith(f"{name}: ")
    assert words in text
    assert failed.value.__suppress_context__
    (line,) = [json.loads(line) for line in lines.getvalue().splitlines()]
    assert (line["level"], line["event"], line["message"]) == ("error", "start failed", text)
    tables = boto3.client("dynamodb", region_name=REGION).list_tables()["TableNames"]
    assert tables == [TABLE]
    assert _buckets() == before


def _buckets() -> list[str]:
    return [
        bucket["Name"]
        for bucket in boto3.client("s3", region_name=REGION).list_buckets()["Buckets"]
    ]


def test_a_start_that_failed_is_tried_again(aws: dict[str, str]) -> None:
    environ = {**aws, "TIDEGATE_TABLE": "nowhere"}
    sandbox = Sandbox(environ)
    with pytest.raises(VariableError):
        sandbox.opened  # noqa: B018 - opening is what fails
    environ["TIDEGATE_TABLE"] = TABLE
    assert sandbox.opened.settings.table == TABLE


def test_a_further_table_of_another_service_ends_the_start(aws: dict[str, str]) -> None:
    dynamodb = boto3.client("dynamodb", region_name=REGION)
    make_table(dynamodb, "second")
    environ = {**aws, "TIDEGATE_CELLS": "second"}
    Sandbox(environ).opened  # noqa: B018 - the registry has an identity from now on
    other: dict[str, Any] = {name: {"S": name} for name in ("u", "n")}
    other |= {"v": {"N": "1"}, "i": {"N": "1"}, "k": {"S": "{}"}, "w": {"B": b"w"}}
    dynamodb.put_item(TableName="second", Item={**encode_key(IDENTITY), **other})
    lines = io.StringIO()
    with (
        redirect_stdout(lines),
        pytest.raises(VariableError, match=r"^TIDEGATE_CELLS: second is f"),
    ):
        Sandbox(environ).doors  # noqa: B018 - opening is what fails
    with (
        redirect_stdout(lines),
        pytest.raises(VariableError, match=r"^TIDEGATE_TABLE: second is foreign: n of a service"),
    ):
        Sandbox({**aws, "TIDEGATE_TABLE": "second"}).doors  # noqa: B018 - as above
    assert "start failed" in lines.getvalue()
    dynamodb.delete_table(TableName="second")  # others see all tables that there are


def test_a_function_that_is_not_told_of_a_table_with_queues_does_not_start(
    aws: dict[str, str],
) -> None:
    dynamodb = boto3.client("dynamodb", region_name=REGION)
    make_table(dynamodb, "second")
    opened = Sandbox({**aws, "TIDEGATE_CELLS": "second"}).opened
    assert opened.several is not None
    opened.run(opened.several.freshen())
    Sandbox(aws).doors  # noqa: B018 - no queue has a copy in that table
    queue = Definition("1" * 12, REGION, "orders", "0" * 16, "g2.00", 1, 1)
    opened.run(opened.several.placing.placed(queue))
    told = rf"^TIDEGATE_CELLS: queues have copies in second \(the table second in {REGION}\), too"
    with redirect_stdout(io.StringIO()), pytest.raises(VariableError, match=told):
        Sandbox(aws).doors  # noqa: B018 - opening is what fails
    opened.run(opened.several.placing.gone(queue.uid, queue.cell))
    dynamodb.delete_table(TableName="second")  # others see all tables that there are
