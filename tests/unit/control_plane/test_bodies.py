"""Where a server keeps bodies that are too big for its cell."""

import asyncio
import logging
from pathlib import Path

import pytest

from control_plane.bodies import DIRECTORY, OpenedBodies, open_bodies
from data_plane.blobs.place import BlobsOpenError
from data_plane.memory.cell import MemoryCell
from data_plane.runtime.guard import Guard
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy


class Opener:
    """Opens the bodies of one cell, as servers do that start one after the other."""

    def __init__(self) -> None:
        self.cell = MemoryCell(SystemClock(), stamps=False)

    def open(self, data: Path, blobs: str = "") -> OpenedBodies:
        clock = SystemClock()
        settings = ServerSettings(cell="dynamodb", data=data, blobs=blobs, blob_threshold_bytes=7)
        opened = asyncio.run(
            open_bodies(settings, "orders", self.cell, clock, SystemEntropy(), Guard("b", clock))
        )
        opened.close()
        return opened


def test_bodies_lie_in_the_data_directory_unless_told_otherwise(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opener = Opener()
    opened = opener.open(tmp_path)
    (place,) = (tmp_path / DIRECTORY).iterdir()
    assert place.name.startswith("orders-")
    assert opened.where == f"big bodies in {place}"
    assert opened.store.threshold_bytes == 7
    assert "other servers" in caplog.text
    assert "s3://" in caplog.text
    assert opener.open(tmp_path).where == opened.where


def test_a_directory_that_was_named_is_used_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    Opener().open(tmp_path / "data", str(tmp_path / "shared"))
    assert len(list((tmp_path / "shared").iterdir())) == 1
    assert not (tmp_path / "data").exists()
    assert caplog.text == ""


def test_two_cells_of_one_name_do_not_share_a_place(tmp_path: Path) -> None:
    assert Opener().open(tmp_path).where != Opener().open(tmp_path).where


def test_a_place_that_has_lost_the_bodies_stops_the_start(tmp_path: Path) -> None:
    opener = Opener()
    opener.open(tmp_path / "here")
    with pytest.raises(BlobsOpenError, match=r"^blobs: the bodies of the cell orders are not in"):
        opener.open(tmp_path / "elsewhere")
    opener.open(tmp_path / "here")


def test_a_place_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BlobsOpenError, match="blobs: cannot use") as raised:
        Opener().open(tmp_path, str(tmp_path / "file"))
    assert "\n" not in str(raised.value)
