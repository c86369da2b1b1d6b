"""A copy of an embedded cell is of one moment, whatever is written meanwhile."""

import asyncio
import io
from pathlib import Path

import msgspec
import pytest

from data_plane.embedded import copying
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.copying import CHANGED, END, GONE, ITEM, CopyCutOffError, CopyEnd
from data_plane.ports import Append, Attributes, CellUnavailableError, Key, Tally, Update
from data_plane.system import SystemClock

COUNTER = Key("T|all", b"n")


def _items(stream: bytes) -> tuple[dict[bytes, bytes], CopyEnd]:
    """What a copy says there is, and its last frame."""
    items: dict[bytes, bytes] = {}
    for frame in copying.read_frames(io.BytesIO(stream)):
        if frame.kind in (ITEM, CHANGED):
            items[frame.key] = frame.value
        elif frame.kind == GONE:
            items.pop(frame.key, None)
        else:
            assert frame.kind == END
            return items, msgspec.json.decode(frame.value, type=CopyEnd)
    raise AssertionError("there is no last frame")


async def _append(cell: EmbeddedCell, number: int) -> None:
    suffix = number.to_bytes(11, "big")
    # The counter is in the transaction of what it counts: a copy of two moments has a wrong one.
    tally = [Tally(COUNTER, 1)]
    attributes: Attributes = {"v": 1, "z": bytes(number % 5000)}
    await cell.append(Append("B|q|00|0", suffix, attributes, 0, tallies=lambda _stamp: tally))


async def _copied_under_load(directory: Path) -> tuple[bytes, int, int]:
    cell = EmbeddedCell(directory, SystemClock())
    await asyncio.gather(*(_append(cell, number) for number in range(2000)))
    stream = b""
    pages = 0
    number = 2000
    removed: list[Key] = []
    async for page in cell.copy():
        stream += page
        pages += 1
        before = await cell.query("B|q|00|0", limit=3)
        removed = [item.key for item in before]
        await asyncio.gather(*(_append(cell, number + more) for more in range(7)))
        for key in removed:
            await cell.delete(key, tallies=lambda _before: [Tally(COUNTER, -1)])
        await cell.update(Key("A|first", b"k"), Update(add={"n": 1}))
        number += 7
    await cell.close()
    return stream, pages, number


@pytest.mark.parametrize("last_keys_max", [1_000_000, 40])
def test_a_copy_under_load_is_of_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last_keys_max: int
) -> None:
    monkeypatch.setattr(copying, "PAGE_BYTES", 100_000)
    monkeypatch.setattr(copying, "LAST_KEYS_MAX", last_keys_max)
    stream, pages, _number = asyncio.run(_copied_under_load(tmp_path))
    items, end = _items(stream)
    segments = [key for key in items if key.startswith(b"B|")]
    (counted,) = [value for key, value in items.items() if key.startswith(b"T|all\0")]
    assert pages > 20
    assert msgspec.msgpack.decode(counted)["n"] == len(segments)
    # 2,000 at first; each page but the last brings seven and takes three.
    assert len(segments) == 2000 + 4 * (pages - 1)
    latest_us = max(int.from_bytes(key.split(b"\0", 1)[1][:8], "big") for key in segments)
    assert latest_us <= end.as_of_us


def test_a_copy_without_its_last_frame_is_none(tmp_path: Path) -> None:
    stream, _pages, _number = asyncio.run(_copied_under_load(tmp_path))
    for length in (0, 5, 1000, len(stream) - 1):
        with pytest.raises(CopyCutOffError):
            list(copying.read_frames(io.BytesIO(stream[:length])))
    with pytest.raises(CopyCutOffError):
        list(copying.read_frames(io.BytesIO(b"GET / HTTP/1.1\r\n\r\n" * 10)))


async def _copied_over_a_failed_commit(directory: Path) -> None:
    cell = EmbeddedCell(directory, SystemClock())
    await _append(cell, 1)
    copy = cell.copy()
    cell_copies = cell._copies
    try:
        await anext(copy)
        for one in cell_copies:
            one.fail()
        async for _page in copy:
            pass
    finally:
        await cell.close()


def test_a_copy_that_a_failed_commit_cut_off_fails(tmp_path: Path) -> None:
    with pytest.raises(CellUnavailableError, match="while the cell was copied"):
        asyncio.run(_copied_over_a_failed_commit(tmp_path))
