"""From an answer at a door to an object in S3, through what CloudWatch Logs makes of lines."""

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import boto3
import pytest
from moto import mock_aws
from pyarrow import parquet

from control_plane.serverless.answer_lines import AnswerLines
from control_plane.serverless.sandbox import Sandbox
from control_plane.serverless.settings import VariableError
from tests.unit.control_plane.serverless.test_usage import ANSWERED, access_of, delivery, usage_of
from tests.unit.repeatable import SeededEntropy

REGION = "eu-west-1"
ENVIRON = {"TIDEGATE_USAGE": "s3://records/usage", "AWS_REGION": REGION}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        client = boto3.client("s3", region_name=REGION)
        client.create_bucket(
            Bucket="records", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"}
        )
        yield client


def objects(client: Any) -> dict[str, bytes]:
    listed = client.list_objects_v2(Bucket="records").get("Contents", ())
    return {
        one["Key"]: client.get_object(Bucket="records", Key=one["Key"])["Body"].read()
        for one in listed
    }


@pytest.mark.parametrize(
    ("place", "folder"),
    [("s3://records/usage", "usage/"), ("s3://records/a/b/", "a/b/"), ("s3://records", "")],
)
def test_lines_of_answers_become_an_object_of_each_kind_however_often_they_are_delivered(
    bucket: Any, place: str, folder: str
) -> None:
    lines: list[str] = []
    observer = AnswerLines(SeededEntropy(), lines.append)
    for _ in range(3):
        observer.served(ANSWERED)
    opened = Sandbox(ENVIRON | {"TIDEGATE_USAGE": place}).usage_place
    for _ in range(2):
        counts = {"records": 3, "access": 3, "malformed": 0, "objects": 2}
        assert opened.store(delivery(*lines)) == counts
    (access, who), (used, what) = sorted(objects(bucket).items())
    assert access.startswith(f"{folder}access/date=2025-11-22/hour=11/")
    assert used.startswith(f"{folder}records/date=2025-11-22/hour=11/")
    assert parquet.read_table(BytesIO(who)).to_pylist() == [access_of(line) for line in lines]
    assert parquet.read_table(BytesIO(what)).to_pylist() == [usage_of(line) for line in lines]


def test_without_a_place_the_function_does_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(VariableError, match=r"^TIDEGATE_USAGE: "):
        _ = Sandbox({"AWS_REGION": REGION}).usage_place
    assert "TIDEGATE_USAGE" in capsys.readouterr().out
