"""Blobs in a bucket against the contract of blob stores, on every engine that has S3."""

import asyncio
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import pytest

from data_plane.blobs.opening import S3Place, connect, open_bucket
from data_plane.blobs.s3 import S3Blobs
from data_plane.ports import Blobs
from tests.conformance.blob_suite import BlobSuite
from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.emulators import REGION

T = TypeVar("T")
ClientOf = Callable[[str], Any]

BUCKET = "bodies"
CONNECTIONS_MAX = 8


async def in_thread(call: Callable[[], T]) -> T:
    return await asyncio.to_thread(call)


@pytest.fixture(scope="module")
def client_of(engine_url: EngineUrl) -> ClientOf:
    """The blob store's client of an engine, with the bucket made: one for all tests."""

    @cache
    def client(engine: str) -> Any:
        place = S3Place(BUCKET, "", engine_url(engine), REGION)
        open_bucket(place)
        open_bucket(place)
        return connect(place, connections_max=CONNECTIONS_MAX)

    return client


class OnEngine(BlobSuite):
    """`engine` is its name; each test has a prefix of its own."""

    engine: str

    @pytest.fixture
    def blobs(self, client_of: ClientOf, request: pytest.FixtureRequest) -> Blobs:
        prefix = f"tidegate/{zlib.crc32(request.node.nodeid.encode())}/"
        return S3Blobs(client_of(self.engine), BUCKET, prefix, in_thread)


@pytest.mark.xdist_group("ministack")
class TestOnMiniStack(OnEngine):
    engine = "ministack"


@pytest.mark.xdist_group("moto")
class TestOnMoto(OnEngine):
    engine = "moto"
