"""Damage at random places: a start that says so or serves truthfully, and a rescue of the rest."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.pages import Pages, Walk
from data_plane.embedded.store import DATA_FILE, DEATH_NOTE, CellOpenError, Store, StoreSizes
from data_plane.ports import Append, Attributes, CellUnavailableError, DamagedItemError, Key
from data_plane.system import SystemClock
from tests.drills.damaged_files import KINDS, Whole, do_damage, try_damage

ROUNDS_OF_EACH_KIND = 5


def _record(random: Random) -> Append:
    body = random.randbytes(random.choice((100, 300, 600, 1500, 9000)))
    attributes: Attributes = {"v": 1, "k": "s", "x": 1 << 33, "z": body}
    return Append(f"B|{random.randrange(9):016x}|00|0", random.randbytes(11), attributes, 0)


async def _fill(folder: Path, random: Random) -> None:
    cell = EmbeddedCell(folder, SystemClock(), StoreSizes(growth=1 << 20, reserve=1, batch=1 << 20))
    keys: list[Key] = []
    for _ in range(8):
        records = [_record(random) for _ in range(100)]
        keys += [one.key for one in await asyncio.gather(*map(cell.append, records))]
        random.shuffle(keys)
        for key in keys[:40]:
            await cell.delete(key)
        del keys[:40]
    await cell.put(Key("A|", b"000000000000"), {"v": 1, "n": "root"})
    await cell.close()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("whole") / "data"
    asyncio.run(_fill(folder, Random(7)))
    return Whole.of(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_told_and_the_rest_is_rescued(whole: Whole, tmp_path: Path, kind: str) -> None:
    for seed in range(ROUNDS_OF_EACH_KIND):
        outcome = try_damage(whole, tmp_path, Random(seed), kind)
        assert not outcome.wrong, f"{outcome.damage}: {outcome.wrong}: {outcome.lines}"


def test_a_file_that_was_cut_is_refused_before_it_is_mapped(whole: Whole, tmp_path: Path) -> None:
    (tmp_path / DATA_FILE).write_bytes((whole.folder / DATA_FILE).read_bytes()[:50_000])
    with pytest.raises(CellOpenError, match=r"damaged: it was cut to 50000 bytes, of \d+ at least"):
        Store(tmp_path, StoreSizes())


def test_a_cell_fails_before_lmdb_meets_a_page_damaged_while_it_serves(
    whole: Whole, tmp_path: Path
) -> None:
    (tmp_path / DATA_FILE).write_bytes((whole.folder / DATA_FILE).read_bytes())

    async def play() -> None:
        cell = EmbeddedCell(tmp_path, SystemClock())
        for _ in range(50):
            cell.look_over(64)
        assert (cell.failure, cell.damaged_items) == ("", 0)
        do_damage(whole, tmp_path, Random(1), "zeroed page")
        while not cell.failure:
            cell.look_over(64)
        with pytest.raises(CellUnavailableError, match="tidegate rescue"):
            await cell.get(Key("A|", b"000000000000"))
        await cell.close()

    asyncio.run(play())


def _flip(folder: Path, text: bytes) -> None:
    """Flip a bit of the last byte of a text, wherever the file has it."""
    octets = bytearray((folder / DATA_FILE).read_bytes())
    at, flipped = -1, 0
    while (at := octets.find(text, at + 1)) >= 0:
        octets[at + len(text) - 1] ^= 1
        flipped += 1
    assert flipped
    (folder / DATA_FILE).write_bytes(octets)


@pytest.mark.parametrize("text", [b"root", b"A|\x00000000000000"])
def test_a_damaged_item_is_neither_answered_nor_absent(
    whole: Whole, tmp_path: Path, text: bytes
) -> None:
    (tmp_path / DATA_FILE).write_bytes((whole.folder / DATA_FILE).read_bytes())
    _flip(tmp_path, text)

    async def play() -> None:
        cell = EmbeddedCell(tmp_path, SystemClock())
        account = Key("A|", b"000000000000")
        assert cell.damaged_items == 1
        for call in (cell.get(account), cell.put(account, {"v": 1}, ((),))):
            with pytest.raises(DamagedItemError):
                await call
        with pytest.raises(DamagedItemError):
            await cell.query("A|", limit=10)
        assert await cell.query("B|" + f"{1:016x}" + "|00|0", limit=10)
        if text == b"root":
            cell.expire([account])
            await cell.put(Key("Z|", b"1"), {"v": 1})
            while cell.damaged_items:
                cell.look_over(1000)
        await cell.close()

    asyncio.run(play())


def _firsts_and_lasts(folder: Path) -> list[bytes]:
    """Values of the first and the last item of each leaf page that has others on both sides."""
    with (folder / DATA_FILE).open("rb") as file:
        pages = Pages(file.fileno())
        newest = pages.metas[0]
        leaves = list(Walk(pages, newest.last_page).leaves(newest.main))
    return [leaf.nodes[index].value for leaf in leaves[2:-2] for index in (0, -1)]


def test_a_damaged_item_at_the_edge_of_its_page_leaves_other_partitions_alone(
    whole: Whole, tmp_path: Path
) -> None:
    async def play(value: bytes) -> None:
        octets = (whole.folder / DATA_FILE).read_bytes()
        other = bytes(octet ^ 0xFF for octet in value[-4:])
        (tmp_path / DATA_FILE).write_bytes(octets.replace(value, value[:-4] + other))
        cell = EmbeddedCell(tmp_path, SystemClock())
        assert cell.damaged_items == 1
        for partition in ("A|", "Q|", "Z|"):
            assert await cell.get(Key(partition, b"none")) is None
        await cell.close()

    values = _firsts_and_lasts(whole.folder)
    assert len(values) > 20
    for value in values[::7]:
        asyncio.run(play(value))


def test_after_a_death_the_whole_file_is_looked_at(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data_plane.embedded.file_check.PAGES_AT_START_MAX", 0)
    (tmp_path / DATA_FILE).write_bytes((whole.folder / DATA_FILE).read_bytes())
    leaf = next(iter(whole.pages_of[b"A|\x00000000000000"]))
    with (tmp_path / DATA_FILE).open("r+b") as file:
        file.seek(leaf * whole.page_bytes)
        file.write(bytes(whole.page_bytes))
    (tmp_path / DEATH_NOTE).write_text("Fatal Python error: Aborted")
    with pytest.raises(CellOpenError, match=f"page {leaf}: it is no leaf page"):
        Store(tmp_path, StoreSizes())
    assert (tmp_path / DEATH_NOTE).exists()
    (tmp_path / DATA_FILE).write_bytes((whole.folder / DATA_FILE).read_bytes())
    Store(tmp_path, StoreSizes()).close()
    assert not (tmp_path / DEATH_NOTE).exists()


def test_a_store_of_before_gets_the_new_format(tmp_path: Path) -> None:
    import lmdb  # noqa: PLC0415

    with lmdb.open(str(tmp_path)) as env, env.begin(write=True) as txn:
        txn.put(b"\0format", b"tidegate cell 1")
        txn.put(b"A|\x0000", b"\x81\xa1v\x01")

    async def play() -> None:
        for _ in range(2):
            cell = EmbeddedCell(tmp_path, SystemClock())
            assert await cell.get(Key("A|", b"00")) == {"v": 1}
            await cell.close()

    asyncio.run(play())
