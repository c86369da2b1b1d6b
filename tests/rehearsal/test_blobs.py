"""Blobs in a bucket against the contract of blob stores, on engines that speak S3's API."""

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from data_plane.blobs.buckets import connect, open_bucket
from data_plane.blobs.place import S3Place
from data_plane.blobs.s3 import S3Blobs
from data_plane.ports import Blobs
from data_plane.system import SystemClock
from tests.conformance.blob_suite import BlobSuite
from tests.conformance.on_driver import inline
from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.emulators import REGION, S3_ENGINES

BUCKET = "bodies"


@pytest.fixture(scope="module")
def client_of(engine_url: EngineUrl) -> Callable[[str], Any]:
    """The blob store's client of an engine, where the bucket is."""

    def client(engine: str) -> Any:
        place = S3Place(BUCKET, "", engine_url(engine), REGION)
        open_bucket(place)
        return connect(place, connections_max=4)

    return cache(client)


@pytest.fixture(params=[pytest.param(e, marks=pytest.mark.xdist_group(e)) for e in S3_ENGINES])
def blobs(request: pytest.FixtureRequest, client_of: Callable[[str], Any]) -> Blobs:
    """A store under a prefix of its own."""
    prefix = f"tidegate/{zlib.crc32(request.node.nodeid.encode())}/"
    return S3Blobs(client_of(request.param), BUCKET, prefix, SystemClock(), inline)


class TestS3Blobs(BlobSuite):
    """The whole suite, by the fixture above."""
