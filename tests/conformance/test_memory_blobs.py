"""Blobs in memory against the contract of blob stores."""

import pytest

from data_plane.memory.blobs import MemoryBlobs
from data_plane.ports import Blobs
from tests.conformance.blob_suite import BlobSuite, listed, run
from tests.conformance.cell_suite import NOON_US, ManualClock


class TestMemoryBlobs(BlobSuite):
    @pytest.fixture
    def blobs(self) -> Blobs:
        return MemoryBlobs(ManualClock())


def test_requests_are_counted_and_stamped() -> None:
    async def story() -> None:
        blobs = MemoryBlobs(ManualClock())
        await blobs.put("a", b"1")
        await blobs.get("a")
        await blobs.get("b")
        assert (await blobs.names(limit=1))[0].stored_us == NOON_US
        await blobs.delete(["a"])
        assert await listed(blobs) == []
        assert blobs.requests == {"put": 1, "get": 2, "names": 2, "delete": 1}

    run(story())
