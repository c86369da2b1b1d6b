"""What the messages of a queue take in a cell: counted whatever became of the count on the disk."""

import asyncio
from pathlib import Path

import pytest

from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.encoding import encode_item, partition_prefix
from data_plane.embedded.filling import fill
from data_plane.embedded.growth import STORED
from data_plane.embedded.transaction import WriteTransaction
from data_plane.ports import Append, CellUnavailableError, Key
from tests.unit.repeatable import HandClock

UID = b"00000000000000aa"
COUNT = Key("V|", UID)


async def append(cell: EmbeddedCell) -> None:
    record = Append(f"B|{UID.decode()}|00|0", b"\0", {"v": 1, "z": b"x" * 500}, 0)
    await asyncio.wait_for(cell.append(record), timeout=10)


async def counted(cell: EmbeddedCell) -> int:
    count = await cell.get(COUNT)
    assert count is not None
    assert isinstance(count["n"], int)
    return count["n"]


def test_a_store_filled_from_elsewhere_goes_on_counting(tmp_path: Path) -> None:
    async def main() -> None:
        fill(tmp_path / "cell", [(partition_prefix(STORED) + UID, encode_item({"n": 1000}))], 0)
        cell = EmbeddedCell(tmp_path / "cell", HandClock())
        await append(cell)
        assert 1500 < await counted(cell) < 1600
        await cell.close()

    asyncio.run(main())


def test_a_damaged_count_begins_anew(tmp_path: Path) -> None:
    async def main() -> None:
        cell = EmbeddedCell(tmp_path / "cell", HandClock())
        await append(cell)
        once = await counted(cell)
        await cell.close()

        data = tmp_path / "cell" / "data.mdb"
        octets = data.read_bytes()
        count = encode_item({"n": once})
        assert count in octets
        data.write_bytes(octets.replace(count, encode_item({"n": once + 1})))

        cell = EmbeddedCell(tmp_path / "cell", HandClock())
        await append(cell)
        assert await counted(cell) == once
        await cell.close()

    asyncio.run(main())


def test_who_waits_for_a_commit_learns_of_a_mistake_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistake(*_asked: object) -> None:
        raise ZeroDivisionError

    async def main() -> None:
        raised: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, told: raised.append(told["exception"])
        )
        cell = EmbeddedCell(tmp_path / "cell", HandClock())
        with monkeypatch.context() as patched:
            patched.setattr(WriteTransaction, "finish", mistake)
            with pytest.raises(CellUnavailableError):
                await append(cell)
        assert [type(error) for error in raised] == [ZeroDivisionError]
        await append(cell)
        assert await counted(cell) > 0
        await cell.close()

    asyncio.run(main())
