"""Rescuing a cell: what is told, what is refused, and what the new directory has."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from control_plane.cli.rescue import rescue as rescue_command
from control_plane.registry_secret import read_or_make
from control_plane.rescue import Rescued, RescueError, rescue
from control_plane.several_cells import SeveralCells
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.encoding import ERAS_KEY, FORMAT_KEY
from data_plane.embedded.filling import fill
from data_plane.embedded.store import DATA_FILE, Store, StoreSizes
from data_plane.keys import file
from data_plane.ports import Append, Attributes, Key
from data_plane.settings import KEY_FILE
from tests.unit.repeatable import HandClock, SeededEntropy

from .starting import ITEM, play

NOW_US = 1_700_000_000_000_000
UID = "00000000000000aa"
QUEUE: Attributes = {"v": 2, "k": "q", "u": UID, "p": 0, "a": "{}"}


class _Clock:
    """It stands still."""

    def __init__(self, time_us: int) -> None:
        self._time_us = time_us

    def now_us(self) -> int:
        return self._time_us


async def _fill(data: Path) -> None:
    cell = EmbeddedCell(data, _Clock(NOW_US))
    clock, entropy = HandClock(), SeededEntropy()
    file.create(data / KEY_FILE, entropy, 1)
    await read_or_make(cell, file.KeyFile(data / KEY_FILE, entropy), clock, entropy)
    await cell.put(Key("Q|000000000000|us-east-1", b"orders"), QUEUE)
    for block in (b"0123456789", b"abcdefghij"):
        segment: Attributes = {"v": 1, "k": "s", "b": block, "i": 0, "n": 4, "z": b"x" * 5000}
        await cell.append(Append(f"B|{UID}|00|0", block + b"\0", segment, 0))
    await cell.put(Key(f"S|{UID}|00|0", b"0123456789"), {"v": 1, "d": frozenset((0, 2))})
    counter = bytes(8) + b"a" + (NOW_US // 60_000_000).to_bytes(8, "big")
    await cell.put(Key(f"T|{UID}", counter), {"n": 6})
    await cell.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    asyncio.run(_fill(tmp_path / "data"))
    (tmp_path / "data" / "usage").mkdir()
    (tmp_path / "data" / "usage" / "record").write_text("record")
    return tmp_path / "data"


def run(data: Path, target: Path) -> tuple[Rescued, list[str]]:
    lines: list[str] = []
    return rescue(data, target, NOW_US + 1, lines.append), lines


def test_a_whole_cell_is_copied_whole(data: Path, tmp_path: Path) -> None:
    rescued, lines = run(data, tmp_path / "new")
    assert rescued == Rescued(items=8, is_whole=True)
    assert lines == [
        "queue 000000000000/us-east-1/orders: 6 messages whole",
        "queue definitions: 1 whole",
        f"{tmp_path / 'new'}: 8 items written, and copies of master.keys, usage",
    ]
    assert (tmp_path / "new" / "usage" / "record").read_text() == "record"
    asyncio.run(_check_stamps(tmp_path / "new"))


async def _check_stamps(data: Path) -> None:
    cell = EmbeddedCell(data, _Clock(0))
    appended = await cell.append(Append("P", b"", {"v": 1}, 0))
    assert appended.stamp_us > NOW_US
    await cell.close()


@pytest.mark.parametrize("of", ["another service", "nobody"])
def test_keys_that_do_not_open_it_are_told(data: Path, tmp_path: Path, of: str) -> None:
    path = data / KEY_FILE
    if of == "nobody":
        path.write_text("{}")
    else:
        path.unlink()
        file.create(path, SeededEntropy(7), 1)
    rescued, lines = run(data, tmp_path / "new")
    assert rescued == Rescued(items=8, is_whole=False)
    told = f"damaged: {path} does not open the registry secret: "
    (line,) = [line for line in lines if line.startswith(told)]
    assert ("which" in line) == (of == "another service")
    ended = CliRunner().invoke(rescue_command, [str(data), str(tmp_path / "again")])
    assert (ended.exit_code, line in ended.output) == (3, True)


def test_keys_that_lie_elsewhere_are_not_missed(data: Path, tmp_path: Path) -> None:
    (data / KEY_FILE).unlink()
    assert run(data, tmp_path / "new")[0].is_whole


async def _join_again(data: Path) -> None:
    """As a member that left its groups and joined them again, twice: it has three copies."""
    cell = EmbeddedCell(data, _Clock(NOW_US))
    for incarnation in ("@9", "@12"):
        block = b"0123456789"
        segment: Attributes = {"v": 1, "k": "s", "b": block, "i": 0, "n": 4, "z": b"x"}
        await cell.append(Append(f"B|{UID}|00|0{incarnation}", block + b"\0", segment, 0))
        done = frozenset((0, 1, 2)) if incarnation == "@12" else frozenset((0,))
        await cell.put(Key(f"S|{UID}|00|0{incarnation}", block), {"v": 1, "d": done})
        counter = bytes(8) + b"a" + (NOW_US // 60_000_000).to_bytes(8, "big")
        await cell.put(Key(f"T|{UID}{incarnation}", counter), {"n": 1})
        await cell.put(Key(f"Q|000000000000|us-east-1{incarnation}", b"orders"), QUEUE)
    await cell.close()


def test_of_several_copies_of_a_queue_the_latest_is_counted(data: Path, tmp_path: Path) -> None:
    asyncio.run(_join_again(data))
    rescued, lines = run(data, tmp_path / "new")
    assert rescued.is_whole
    assert lines[:2] == [
        "queue 000000000000/us-east-1/orders: 1 messages whole",
        "queue definitions: 1 whole",
    ]


def test_one_cell_of_several_is_served_as_it_is_said(tmp_path: Path) -> None:
    async def put(several: SeveralCells) -> None:
        await several.control.put(ITEM, {"v": 1})

    async def get(several: SeveralCells) -> None:
        assert await several.control.get(ITEM) == {"v": 1}

    old, new = tmp_path / "old", tmp_path / "new"
    play(old, put)
    _rescued, lines = run(old / "cell-1", new)
    assert lines[-1].startswith(
        f"{new} is cell-1 of 3 cells, as far as that one has copies. Where the others (cell-2,"
        f" cell-3) are lost: tidegate serve --data DIRECTORY --cells 2 --cell-data {new},{new}-2"
        " --give-up cell-2,cell-3, with master.keys and credentials of the service in DIRECTORY."
    )
    (tmp_path / "data").mkdir()
    play(tmp_path / "data", get, cells=2, cell_data=f"{new},{new}-2", give_up="cell-2,cell-3")
    play(tmp_path / "data", get, cells=2, cell_data=f"{new},{new}-2")


def test_what_is_missing_is_counted(data: Path, tmp_path: Path) -> None:
    path = data / DATA_FILE
    octets = path.read_bytes()
    flipped = octets.replace(b"\xa1n\x04\xa1z", b"\xa1n\x05\xa1z")
    assert flipped != octets
    path.write_bytes(flipped)
    rescued, lines = run(data, tmp_path / "new")
    assert not rescued.is_whole
    assert lines[0] == (
        "queue 000000000000/us-east-1/orders:"
        " 0 messages whole, 6 missing by its counters, 2 damaged segments"
    )
    assert "damaged: 2 other items" in lines


def test_streams_and_their_records_are_counted_apart(data: Path, tmp_path: Path) -> None:
    async def put() -> None:
        cell = EmbeddedCell(data, _Clock(NOW_US))
        await cell.put(Key("A|", b"000000000000"), {"v": 1, "n": "root"})
        await cell.put(Key("A|000000000000|us-east-1", b"clicks"), {"v": 1, "k": "t"})
        await cell.put(Key("I|", bytes(16)), {"v": 1, "n": "000000000000|us-east-1|clicks"})
        await cell.put(Key("N|AKIA", b"k"), {"v": 1})
        for offset, count, copy in ((1, 3, ""), (4, 500, ""), (4, 500, "@9")):
            slot: Attributes = {"v": 1, "k": "d", "n": count}
            await cell.put(Key(f"N|{UID}|00000000|0{copy}", offset.to_bytes(8, "big")), slot)
        await cell.put(Key(f"N|{UID}|00000000|0", bytes(8)), {"v": 1, "k": "e", "n": 0})
        await cell.close()

    asyncio.run(put())
    assert (
        "access keys: 1 whole, accounts: 1 whole, queue definitions: 1 whole,"
        " records of streams: 503 whole, streams: 1 whole"
    ) in run(data, tmp_path / "new")[1]


@pytest.mark.parametrize("found", [b"tidegate cell 3", b"foo"])
def test_a_store_of_another_format_is_refused(data: Path, tmp_path: Path, found: bytes) -> None:
    store = Store(data, StoreSizes())
    transaction, _room = store.begin()
    transaction.put(FORMAT_KEY, found)
    transaction.commit()
    store.close()
    with pytest.raises(RescueError) as refused:
        run(data, tmp_path / "new")
    assert str(refused.value) == (
        f"{data} holds {found.decode()!r}; this program reads 'tidegate cell 2'"
    )
    assert not (tmp_path / "new").exists()


def test_what_cannot_be_rescued_is_said_in_one_line(data: Path, tmp_path: Path) -> None:
    def refusal(source: Path, target: Path) -> str:
        with pytest.raises(RescueError) as refused:
            run(source, target)
        return str(refused.value)

    assert refusal(tmp_path, tmp_path / "new").endswith(
        "it has the cells data: rescue one at a time"
    )
    assert "is there already" in refusal(data, tmp_path)
    assert "name a directory elsewhere" in refusal(data, data / "new")
    store = Store(data, StoreSizes())
    assert refusal(data, tmp_path / "new").endswith("is in use by another process: stop its server")
    store.close()
    (data / DATA_FILE).write_bytes(bytes(100_000))
    assert refusal(data, tmp_path / "new").endswith("is whole: restore a backup")
    assert not (tmp_path / "new").exists()


def test_what_the_worlds_time_was_is_copied_too(data: Path, tmp_path: Path) -> None:
    eras = b"\x94\x90\x01\x02\x03"
    fill(data, (), NOW_US, eras)
    run(data, tmp_path / "new")

    store = Store(tmp_path / "new", StoreSizes())
    try:
        assert store.snapshot.get(ERAS_KEY) == eras
    finally:
        store.close()


def test_a_directory_that_was_there_is_closed_to_others(data: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir(mode=0o755)
    (tmp_path / "new").chmod(0o755)
    _, lines = run(data, tmp_path / "new")
    assert lines[0] == f"others could use {tmp_path / 'new'} (mode 755): now mode 700"
    assert {oct((tmp_path / "new" / name).stat().st_mode)[-3:] for name in (".", "data.mdb")} == {
        "700",
        "600",
    }
