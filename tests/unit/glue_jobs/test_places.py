"""Places of jobs: a folder, and a prefix of a bucket (moto's), by one suite."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from glue_jobs import places
from glue_jobs.arguments import JobError
from glue_jobs.digest import add_digest
from glue_jobs.places import Found, Place, place_of, read_url

BUCKET = "usage-of-a-stage"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield client


@pytest.fixture(params=["folder", "bucket", "whole bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "folder":
        return place_of(str(tmp_path))
    request.getfixturevalue("s3")
    prefix = "/a/prefix/" if request.param == "bucket" else ""
    return place_of(f"s3://{BUCKET}{prefix}")


def names(place: Place, prefix: str = "") -> list[str]:
    return [found.name for found in place.list(prefix)]


def test_what_is_put_is_read_and_listed_in_order(place: Place) -> None:
    for name in ("b/2", "b/1", "a", "b/.draft", "b.c"):
        place.put(name, name.encode())
    place.put("a", b"again")
    assert place.list("") == [Found("a", 5), Found("b.c", 3), Found("b/1", 3), Found("b/2", 3)]
    assert names(place, "b/") == ["b/1", "b/2"]
    assert names(place, "b") == ["b.c", "b/1", "b/2"]
    assert place.read("a") == b"again"
    assert read_url(f"{place.url}/b/1") == b"b/1"


def test_what_is_not_there_is_said(place: Place) -> None:
    assert names(place, "nothing/") == []
    with pytest.raises(FileNotFoundError):
        place.read("nothing")


def test_what_is_there_is_not_put_over(place: Place) -> None:
    assert place.put_new("x/1", b"first")
    assert not place.put_new("x/1", b"second")
    assert place.read("x/1") == b"first"


def test_objects_move_and_folders_are_cleared(place: Place) -> None:
    for name in ("old/1", "old/2", "older/3"):
        place.put(name, b"")
    place.move("old/1", "new/1")
    place.clear("old")
    place.clear("never/was")
    assert names(place) == ["new/1", "older/3"]


def test_more_objects_than_a_page_are_listed(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def small_pages(params: dict[str, Any], **_: Any) -> None:
        params["MaxKeys"] = 2

    s3.meta.events.register("before-parameter-build.s3.ListObjectsV2", small_pages)
    monkeypatch.setattr(places.S3Place, "_client", lambda _self: s3)
    for number in range(5):
        s3.put_object(Bucket=BUCKET, Key=f"many/{number}", Body=b"")
    assert names(place_of(f"s3://{BUCKET}/many")) == ["0", "1", "2", "3", "4"]
    place_of(f"s3://{BUCKET}").clear("many")
    assert names(place_of(f"s3://{BUCKET}")) == []


def test_a_put_that_met_another_asks_again(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    place, real = place_of(f"s3://{BUCKET}"), s3.put_object
    codes = ["ConditionalRequestConflict", "SlowDown"]

    def put(**its: Any) -> Any:
        if codes:
            raise ClientError({"Error": {"Code": codes.pop(0)}}, "PutObject")
        return real(**its)

    s3.put_object = put
    monkeypatch.setattr(places.S3Place, "_client", lambda _self: s3)
    # The first refusal is tried again, the second is an error.
    with pytest.raises(ClientError, match="SlowDown"):
        place.put_new("x", b"")
    assert place.put_new("x", b"")


def test_a_chain_of_digests_grows_in_any_place(place: Place) -> None:
    place.put("bills/1", b"1")
    first = add_digest(place, "2026-11-21T19")
    place.put("bills/2", b"2")
    second = add_digest(place, "2026-11-21T20")
    assert [its.name for its in second.objects] == ["bills/2"]
    assert (second.number, second.previous) == (2, first.hash)
    # A job that is repeated adds nothing.
    assert add_digest(place, "2026-11-21T20") == second
    place.move("bills/1", "elsewhere")
    with pytest.raises(JobError, match="is gone: bills/1"):
        add_digest(place, "2026-11-21T21")
