"""Values of which one bit is another one: they hold up nobody who removes or replaces them."""

import asyncio
from pathlib import Path

import pytest

from data_plane.core.dropping import Dropped, Superfluous
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.salvage import Salvage
from data_plane.ports import Attributes, DamagedItemError, Key
from data_plane.system import SystemClock

PARTITION = "B|0123456789abcdef|00|0"
SORT = b"the damaged one!"
OTHER = b"the other, whole"
MARK = b"\xc2"
MARK_OF_A_HEAD = b"\xc3"


def flip(data: Path) -> None:
    """Let a value look like the head of one in pieces: their marks differ by one bit."""
    whole = data.read_bytes()
    assert SORT + MARK in whole
    data.write_bytes(whole.replace(SORT + MARK, SORT + MARK_OF_A_HEAD))


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    async def fill() -> None:
        cell = EmbeddedCell(tmp_path, SystemClock())
        for sort in (SORT, OTHER):
            item: Attributes = {"v": 1, "k": "s", "t": 1, "b": bytes(10), "z": b"body"}
            await cell.put(Key(PARTITION, sort), item)
        await cell.close()

    asyncio.run(fill())
    flip(tmp_path / "data.mdb")
    return tmp_path


def test_the_partition_of_a_deleted_queue_is_dropped(damaged: Path) -> None:
    async def story() -> None:
        cell = EmbeddedCell(damaged, SystemClock())
        assert await cell.drop(PARTITION, 100) == 2
        assert cell.partitions("", 10) == [f"E|{PARTITION.removeprefix('B|')}"]
        await cell.close()

    asyncio.run(story())


def test_what_a_purge_has_made_superfluous_behind_it_is_dropped(damaged: Path) -> None:
    async def story() -> None:
        cell = EmbeddedCell(damaged, SystemClock())
        purged = Superfluous(PARTITION, until_us=1)
        assert await cell.drop_superfluous(purged, b"") == Dropped(b"", 1)
        assert await cell.query(PARTITION, limit=10) == []
        assert cell.damaged_items == 1, "it is left to its time to live"
        await cell.close()

    asyncio.run(story())


def test_what_nobody_needs_any_more_is_removed(damaged: Path) -> None:
    async def story() -> None:
        cell = EmbeddedCell(damaged, SystemClock())
        cell.expire([Key(PARTITION, SORT)])
        await cell.put(Key("Z|other", b"1"), {"v": 1})
        assert [item.key.sort for item in await cell.query(PARTITION, limit=10)] == [OTHER]
        assert cell.damaged_items == 1
        cell.look_over(100)
        cell.look_over(100)
        cell.look_over(100)
        assert cell.damaged_items == 0
        await cell.close()

    asyncio.run(story())


def test_a_value_with_text_that_is_none_is_a_damaged_one(damaged: Path) -> None:
    """It looks like one of before there were checksums: of two attributes."""
    path = damaged / "data.mdb"
    whole = path.read_bytes()
    at = whole.index(SORT + MARK_OF_A_HEAD) + len(SORT)
    path.write_bytes(whole[:at] + b"\x82\xa3\xff\xff\xff" + whole[at + 5 :])

    async def story() -> None:
        cell = EmbeddedCell(damaged, SystemClock())
        assert await cell.get(Key(PARTITION, OTHER)) is not None
        with pytest.raises(DamagedItemError):
            await cell.get(Key(PARTITION, SORT))
        await cell.close()

    asyncio.run(story())
    with path.open("rb") as file:
        found = {one.key[-len(SORT) :]: one.value for one in Salvage(file.fileno()).items()}
    assert (found[SORT], found[OTHER] is None) == (None, False)
