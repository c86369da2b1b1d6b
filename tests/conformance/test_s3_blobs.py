"""Blobs in a bucket, on moto, against the contract of blob stores; and damaged answers."""

import io
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from moto import mock_aws

from data_plane.blobs.buckets import connect, open_bucket
from data_plane.blobs.place import S3Place
from data_plane.blobs.s3 import S3Blobs
from data_plane.ports import Blobs, CellUnavailableError
from data_plane.runtime.blocking import BlockingDriver
from data_plane.system import SystemClock
from tests.conformance.blob_suite import (
    BODY,
    BlobSuite,
    BlobSuiteOnTheBlockingDriver,
    listed,
    run,
)
from tests.conformance.on_driver import a_driver, in_turn

T = TypeVar("T")

BUCKET = "bodies"
PLACE = S3Place(BUCKET, "tidegate/", "", "eu-west-1")


async def at_once(call: Callable[[], T]) -> T:
    return call()


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A client of one moto for all tests of this module; each test has a prefix of its own."""
    with pytest.MonkeyPatch.context() as monkeypatch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "placeholder")
        open_bucket(PLACE)
        yield connect(PLACE, connections_max=4)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return f"tidegate/{zlib.crc32(request.node.nodeid.encode())}/"


def open_blobs(client: Any, prefix: str, deadline_s: float = 60) -> S3Blobs:
    return S3Blobs(client, BUCKET, prefix, SystemClock(), at_once, deadline_s=deadline_s)


class TestS3Blobs(BlobSuite):
    @pytest.fixture
    def blobs(self, client: Any, prefix: str) -> Blobs:
        return open_blobs(client, prefix)


class TestS3BlobsByTheBlockingDriver(BlobSuiteOnTheBlockingDriver):
    @pytest.fixture
    def driver(self) -> Iterator[BlockingDriver]:
        with a_driver() as driver:
            yield driver

    @pytest.fixture
    def blobs(self, client: Any, prefix: str, driver: BlockingDriver) -> Blobs:
        # moto is no server: it takes one call at a time.
        return S3Blobs(
            client, BUCKET, prefix, SystemClock(), in_turn(driver.offload, threading.Lock())
        )


def test_objects_lie_under_the_prefix_and_others_are_not_seen(client: Any, prefix: str) -> None:
    async def story() -> None:
        for key in ("a", prefix[:-1], f"{prefix[:-1]}0/a", "z"):
            client.put_object(Bucket=BUCKET, Key=key, Body=b"foreign")
        blobs = open_blobs(client, prefix)
        await blobs.put("a", BODY)
        assert await listed(blobs) == ["a"]
        assert client.get_object(Bucket=BUCKET, Key=f"{prefix}a")["Body"].read() == BODY

    run(story())


def test_a_bucket_is_made_in_its_region_and_stays_as_it_is(client: Any, prefix: str) -> None:
    client.put_object(Bucket=BUCKET, Key=prefix, Body=b"x")
    open_bucket(PLACE)
    assert client.get_object(Bucket=BUCKET, Key=prefix)["Body"].read() == b"x"
    assert client.get_bucket_location(Bucket=BUCKET)["LocationConstraint"] == PLACE.region


class Spoilt:
    """A client whose answers are spoilt, the first `times` of each."""

    def __init__(
        self, client: Any, operation: str, spoil: Callable[[Any], Any], times: int
    ) -> None:
        self._client = client
        self._operation = operation
        self._spoil = spoil
        self.left = times

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if name != self._operation:
            return call

        def answer(**parameters: Any) -> Any:
            whole = call(**parameters)
            if not self.left:
                return whole
            self.left -= 1
            return self._spoil(whole)

        return answer


def with_body(body: bytes, length: int) -> Callable[[Any], Any]:
    def spoil(answer: Any) -> Any:
        return {**answer, "Body": StreamingBody(io.BytesIO(body), length)}

    return spoil


def refused(code: str, status: int) -> Callable[[Any], Any]:
    answer: Any = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}

    def spoil(_answer: Any) -> Any:
        raise ClientError(answer, "spoilt")

    return spoil


def without(*members: str) -> Callable[[Any], Any]:
    def spoil(answer: Any) -> Any:
        return {name: value for name, value in answer.items() if name not in members}

    return spoil


NOT_WHOLE = {
    "empty": ("get_object", with_body(b"", 0)),
    "truncated": ("get_object", with_body(BODY[:-1], len(BODY) - 1)),
    "cut off": ("get_object", with_body(BODY[:-1], len(BODY))),
    "another": ("get_object", with_body(b"!" + BODY[1:], len(BODY))),
    "no checksum": ("get_object", without("Metadata")),
    "no such bucket": ("get_object", refused("NoSuchBucket", 404)),
    "not found by a proxy": ("get_object", refused("404", 404)),
    "slow down": ("get_object", refused("SlowDown", 503)),
    "denied": ("get_object", refused("AccessDenied", 403)),
    "unsaid put": ("put_object", without("ETag")),
    "empty list": ("list_objects_v2", without("IsTruncated", "Contents", "KeyCount")),
    "unsaid delete": ("delete_objects", without("Deleted")),
    "kept": (
        "delete_objects",
        lambda answer: {**answer, "Errors": [{"Key": "k", "Code": "AccessDenied"}]},
    ),
}


async def use(blobs: Blobs, operation: str) -> object:
    match operation:
        case "get_object":
            return await blobs.get("a")
        case "list_objects_v2":
            return await listed(blobs)
        case "put_object":
            await blobs.put("a", BODY)
        case "delete_objects":
            await blobs.delete(["a"])
    return None


@pytest.mark.parametrize("kind", NOT_WHOLE)
def test_an_answer_that_is_not_whole_is_none(client: Any, prefix: str, kind: str) -> None:
    async def story() -> None:
        await open_blobs(client, prefix).put("a", BODY)
        operation, spoil = NOT_WHOLE[kind]
        spoilt = open_blobs(Spoilt(client, operation, spoil, 1000), prefix, deadline_s=0.2)
        with pytest.raises(CellUnavailableError, match="s3://bodies"):
            await use(spoilt, operation)

    run(story())


@pytest.mark.parametrize(
    "kind", ["empty", "truncated", "cut off", "another", "slow down", "unsaid put", "empty list"]
)
def test_it_is_asked_for_again(client: Any, prefix: str, kind: str) -> None:
    async def story() -> None:
        await open_blobs(client, prefix).put("a", BODY)
        operation, spoil = NOT_WHOLE[kind]
        spoilt = Spoilt(client, operation, spoil, 1)
        blobs = open_blobs(spoilt, prefix)
        expected = {"get_object": BODY, "put_object": None, "list_objects_v2": ["a"]}[operation]
        assert await use(blobs, operation) == expected
        assert spoilt.left == 0

    run(story())
