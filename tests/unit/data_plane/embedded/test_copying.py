"""A copy of an embedded cell is of one moment, whatever is written meanwhile."""

import asyncio
import io
from pathlib import Path

import msgspec
import pytest

from data_plane.core.cell_clock import CellClock
from data_plane.core.eras import Era, eras_from
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


async def _pages_over_big_changes(directory: Path) -> tuple[list[bytes], int]:
    cell = EmbeddedCell(directory, SystemClock())
    keys = [Key("A|big", bytes((n,))) for n in range(60)]
    await asyncio.gather(*(cell.put(key, {"n": 0, "z": bytes(30_000)}) for key in keys))
    pages = []
    with cell.copying() as copy:
        async for _place, page in copying.pages_together([copy]):
            pages.append(page)
            if copy.is_read and len(pages) < 30:
                changed = keys[len(pages) % 7 :: 7]
                await asyncio.gather(*(cell.put(k, {"n": 1, "z": bytes(30_000)}) for k in changed))
    await cell.close()
    return pages, len(keys)


def test_no_turn_reads_more_of_what_has_changed_than_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "PAGE_BYTES", 100_000)
    monkeypatch.setattr(copying, "LAST_BYTES_MAX", 100_000)
    pages, count = asyncio.run(_pages_over_big_changes(tmp_path))
    items, _end = _items(b"".join(pages))
    of_big = [value for key, value in items.items() if key.startswith(b"A|big\0")]
    assert len(of_big) == count
    assert {msgspec.msgpack.decode(value)["n"] for value in of_big} == {1}
    assert max(len(page) for page in pages) < 100_000 + 31_000
    assert len(pages) > 30


async def _copied_together(folder: Path, writes_between: int) -> list[dict[bytes, bytes]]:
    """Copies of two cells; each write to the second one follows that of the first."""
    cells = [EmbeddedCell(folder / name, SystemClock()) for name in ("one", "two")]
    for cell in cells:
        await asyncio.gather(*(_append(cell, number) for number in range(1000)))
    streams = [b"", b""]
    number = 0
    with cells[0].copying() as one, cells[1].copying() as two:
        async for place, page in copying.pages_together([one, two]):
            streams[place] += page
            for _ in range(writes_between):
                number += 1
                for cell in cells:
                    await cell.put(Key("A|many", number.to_bytes(4, "big")), {"n": number})
                    await cell.put(Key("A|last", b"k"), {"n": number})
    for cell in cells:
        await cell.close()
    return [_items(stream)[0] for stream in streams]


@pytest.mark.parametrize("writes_between", [1, 12])
def test_copies_of_several_cells_end_at_one_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes_between: int
) -> None:
    monkeypatch.setattr(copying, "PAGE_BYTES", 100_000)
    monkeypatch.setattr(copying, "LAST_KEYS_MAX", 10)
    monkeypatch.setattr(copying, "ROUNDS_OF_PATIENCE", 3)  # twelve writes are more than ten keys
    copies = asyncio.run(_copied_together(tmp_path, writes_between))
    numbers = [msgspec.msgpack.decode(items[b"A|last\0k"])["n"] for items in copies]
    assert numbers[0] == numbers[1] > 10
    for items, number in zip(copies, numbers, strict=True):
        assert sum(key.startswith(b"A|many") for key in items) == number


def test_a_copy_says_what_the_worlds_time_was(tmp_path: Path) -> None:
    machine_us = 1_795_000_000_000_000
    clock = CellClock(lambda: machine_us, lambda: machine_us, lambda _step: None)

    async def copied() -> bytes:
        cell = EmbeddedCell(tmp_path, clock)
        await cell.put(Key("A|first", b"k"), {"n": 1})
        clock.eras = clock.eras.with_era(Era(machine_us, 3_600_000_000))
        stream = b"".join([page async for page in cell.copy()])
        await cell.close()
        return stream

    _found, end = _items(asyncio.run(copied()))
    assert eras_from(end.eras).shift_us == 3_600_000_000
