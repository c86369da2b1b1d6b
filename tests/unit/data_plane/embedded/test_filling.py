"""Stores that are filled with the items of another one."""

import asyncio
from pathlib import Path

import pytest

from data_plane.embedded import copying
from data_plane.embedded.bodies import checked_value
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.encoding import decode_item, encode_item, partition_prefix
from data_plane.embedded.filling import fill
from data_plane.embedded.growth import STORED
from data_plane.ports import Append, Key
from data_plane.system import SystemClock

UID = b"0123456789abcdef"


async def _append(cell: EmbeddedCell, number: int) -> None:
    await cell.append(Append(f"B|{UID.decode()}|00|0", bytes((number,)) * 11, {"z": bytes(500)}, 0))


def test_a_filled_store_goes_on_counting_what_messages_take(tmp_path: Path) -> None:
    async def main() -> tuple[int, int]:
        cell = EmbeddedCell(tmp_path / "from", SystemClock())
        await _append(cell, 1)
        stream = b"".join([page async for page in cell.copy()])
        await cell.close()
        (tmp_path / "copy").write_bytes(stream)
        with (tmp_path / "copy").open("rb") as file:
            frames = [frame for frame in copying.read_frames(file) if frame.kind == copying.ITEM]
        fill(tmp_path / "to", [(frame.key, frame.value) for frame in frames], 1)
        cell = EmbeddedCell(tmp_path / "to", SystemClock())
        key = Key(STORED, UID)
        before = await cell.get(key)
        await _append(cell, 2)
        after = await cell.get(key)
        await cell.close()
        assert before is not None
        assert after is not None
        assert isinstance(before["n"], int)
        assert isinstance(after["n"], int)
        return before["n"], after["n"]

    before, after = asyncio.run(main())
    assert 2 * before - 20 < after < 2 * before + 20


@pytest.mark.parametrize("raw", [encode_item({"n": 7_000}), b"\xc2rubbish that is no item"])
def test_what_messages_take_is_counted_from_what_versions_before_have_stored(
    tmp_path: Path, raw: bytes
) -> None:
    async def main() -> int:
        cell = EmbeddedCell(tmp_path, SystemClock())
        with cell._store._env.begin(write=True) as txn:
            txn.put(partition_prefix(STORED) + UID, raw)
        cell._store.renew()
        await _append(cell, 1)
        key = partition_prefix(STORED) + UID
        stored = cell._store.snapshot.get(key)
        await cell.close()
        assert stored is not None
        number = decode_item(checked_value(key, stored))["n"]
        assert isinstance(number, int)
        return number

    counted = asyncio.run(main())
    assert counted - 500 in range(7_000 if raw[0] != 0xC2 else 0, 7_200)


def test_later_items_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    one, two = b"A|x\0one", b"A|x\0two"
    values = [encode_item({"n": number, "z": bytes(9000)}) for number in range(3)]
    items = [(one, values[0]), (two, values[1]), (one, values[2]), (two, None)]
    assert fill(tmp_path, items, 1) == 4

    async def main() -> None:
        cell = EmbeddedCell(tmp_path, SystemClock())
        page = await cell.query("A|x", limit=9)
        await cell.close()
        assert [(item.key.sort, item.attributes["n"]) for item in page] == [(b"one", 2)]

    asyncio.run(main())
