"""A cell finds its own bodies again, and takes no others for them."""

import asyncio

import pytest

from data_plane.memory.blobs import MemoryBlobs
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes
from data_plane.stored.binding import ITEM, MARK, Binding, MissingBlobsError, confirm, read_binding
from data_plane.stored.segment import UnknownFormatError
from tests.unit.repeatable import HandClock, SeededEntropy


def open_store() -> tuple[MemoryCell, MemoryBlobs, SeededEntropy]:
    clock = HandClock()
    return MemoryCell(clock, stamps=False), MemoryBlobs(clock), SeededEntropy()


def test_the_first_start_chooses_and_later_ones_find() -> None:
    async def story() -> None:
        cell, blobs, entropy = open_store()
        first = await read_binding(cell, entropy)
        await confirm(cell, blobs, first)
        second = await read_binding(cell, entropy)
        assert second == Binding(first.id, marked=True)
        assert len(first.id) == 16
        await confirm(cell, blobs, second)
        assert await blobs.get(MARK) == first.id.encode()

    asyncio.run(story())


def test_two_first_starts_agree() -> None:
    async def story() -> None:
        cell, blobs, entropy = open_store()
        get = cell.get

        async def get_before_the_other(*_: object, **__: object) -> Attributes | None:
            cell.get = get  # type: ignore[method-assign]
            await confirm(cell, blobs, await read_binding(cell, entropy))
            return None

        cell.get = get_before_the_other  # type: ignore[method-assign]
        second = await read_binding(cell, entropy)
        await confirm(cell, blobs, second)
        item = await cell.get(ITEM)
        assert item is not None
        assert item["i"] == second.id

    asyncio.run(story())


@pytest.mark.parametrize("cut_after", ["item", "mark"])
def test_a_start_that_was_cut_off_is_taken_up(cut_after: str) -> None:
    async def story() -> None:
        cell, blobs, entropy = open_store()
        binding = await read_binding(cell, entropy)
        if cut_after == "mark":
            await blobs.put(MARK, binding.id.encode())
        again = await read_binding(cell, entropy)
        assert again == binding
        await confirm(cell, blobs, again)
        assert (await read_binding(cell, entropy)).marked

    asyncio.run(story())


def test_a_place_that_has_lost_the_bodies_is_refused() -> None:
    async def story() -> None:
        cell, blobs, entropy = open_store()
        await confirm(cell, blobs, await read_binding(cell, entropy))
        empty = MemoryBlobs(HandClock())
        with pytest.raises(MissingBlobsError):
            await confirm(cell, empty, await read_binding(cell, entropy))
        assert await empty.get(MARK) is None

    asyncio.run(story())


@pytest.mark.parametrize("marked", [False, True])
def test_a_place_of_another_cell_is_refused(*, marked: bool) -> None:
    async def story() -> None:
        cell, blobs, entropy = open_store()
        binding = await read_binding(cell, entropy)
        await blobs.put(MARK, b"another")
        with pytest.raises(MissingBlobsError):
            await confirm(cell, blobs, Binding(binding.id, marked))
        assert await blobs.get(MARK) == b"another"

    asyncio.run(story())


def test_a_binding_of_a_later_format_is_refused() -> None:
    async def story() -> None:
        cell, _, entropy = open_store()
        await cell.put(ITEM, {"v": 2})
        with pytest.raises(UnknownFormatError):
            await read_binding(cell, entropy)

    asyncio.run(story())
