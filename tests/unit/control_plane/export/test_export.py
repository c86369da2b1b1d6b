"""Exports of embedded cells: their layout, where they come from, and how people see them."""

import asyncio
import gzip
import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest
from click.testing import CliRunner

from control_plane.cli.main import tidegate
from control_plane.export import layout
from control_plane.export.door import SOCKET, copies_for_exports, socket_path
from control_plane.export.layout import ExportedCell, ExportExistsError, write_export
from control_plane.export.show import plain, shown_lines
from control_plane.export.source import SourceError, copied_cell
from data_plane.dynamodb.items import decode_item
from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import Item, Key
from data_plane.system import SystemClock

NOW_MS = 1_795_000_000_123
ITEMS = [
    Item(Key("B|0123456789abcdef|00|0", b"\x01\x02"), {"v": 1, "k": "s", "z": b"\xff\x00"}),
    Item(Key("Q|123456789012|us-east-1", "größe".encode()), {"v": 2, "a": '{"ä":"1"}'}),
    Item(Key("S|0123456789abcdef|00|0", b""), {"v": 1, "d": frozenset({10, 9, 127})}),
]

IN_CELL = [
    *ITEMS,
    Item(Key("V|", b"0123456789abcdef"), {"n": 40}),
    Item(Key("V|definitions", b"123456789012"), {"n": 49}),
]
"""With what the cell itself counts of them."""


async def _cell_with_items(directory: Path) -> EmbeddedCell:
    cell = EmbeddedCell(directory, SystemClock())
    for key, attributes in ITEMS:
        await cell.put(key, attributes)
    return cell


async def _closed_cell(directory: Path) -> None:
    await (await _cell_with_items(directory)).close()


def _lines(folder: Path) -> list[dict[str, dict[str, dict[str, object]]]]:
    root = folder.parent.parent
    manifest = (folder / "manifest-files.json").read_text().splitlines()
    paths = [root / json.loads(line)["dataFileS3Key"] for line in manifest]
    return [json.loads(line) for path in paths for line in gzip.open(path, "rt")]


def _item(line: dict[str, dict[str, dict[str, object]]]) -> Item:
    typed = {
        name: {kind: b64decode(str(value)) if kind == "B" else value}
        for name, its in line["Item"].items()
        for kind, value in its.items()
    }
    return decode_item(typed)


def test_an_export_has_each_item_as_a_dynamodb_table_would(tmp_path: Path) -> None:
    export = write_export(tmp_path, ExportedCell("local", NOW_MS * 1000 + 7), ITEMS, NOW_MS)
    assert export.folder.parent == tmp_path / "AWSDynamoDB"
    assert [_item(line) for line in _lines(export.folder)] == ITEMS
    assert export.items == len(ITEMS)


def test_manifests_tell_what_there_is_and_their_checksums_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "FILE_BYTES_MAX", 100)
    export = write_export(tmp_path, ExportedCell("local", NOW_MS * 1000), ITEMS, NOW_MS)
    summary = json.loads((export.folder / "manifest-summary.json").read_bytes())
    assert summary["itemCount"] == 3
    assert summary["exportTime"] == "2026-11-18T11:06:40.123Z"
    assert summary["tidegate"] == {"cell": "local", "as_of_us": NOW_MS * 1000}
    files = (export.folder / "manifest-files.json").read_text().splitlines()
    assert len(files) == 3
    for said in map(json.loads, files):
        content = (tmp_path / said["dataFileS3Key"]).read_bytes()
        assert said["sha256"] == hashlib.sha256(content).hexdigest()
        md5 = hashlib.md5(content, usedforsecurity=False).digest()
        assert said["md5Checksum"] == b64encode(md5).decode()
    for stem in ("manifest-files", "manifest-summary"):
        content = (export.folder / f"{stem}.json").read_bytes()
        told = (export.folder / f"{stem}.checksum").read_text()
        md5 = hashlib.md5(content, usedforsecurity=False).digest()
        assert told == b64encode(md5).decode()


def _contents(root: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(root): path.read_bytes() for path in root.rglob("*.*") if path.is_file()
    }


def test_equal_items_give_equal_files(tmp_path: Path) -> None:
    of = ExportedCell("local", NOW_MS * 1000)
    for name in ("one", "two"):
        write_export(tmp_path / name, of, ITEMS, NOW_MS)
    assert _contents(tmp_path / "one") == _contents(tmp_path / "two")
    with pytest.raises(ExportExistsError):
        write_export(tmp_path / "one", of, ITEMS, NOW_MS)


def test_a_cell_without_a_server_is_copied(tmp_path: Path) -> None:
    asyncio.run(_closed_cell(tmp_path / "data"))
    with copied_cell(tmp_path / "data", tmp_path, NOW_MS * 1000) as copied:
        assert list(copied.items) == IN_CELL
        assert copied.as_of_us >= NOW_MS * 1000


async def _copied_from_a_server(directory: Path, room: Path) -> list[Item]:
    cell = await _cell_with_items(directory)
    async with copies_for_exports(directory, cell.copy):
        assert (directory / SOCKET).stat().st_mode & 0o777 == 0o600

        def copy() -> list[Item]:
            with copied_cell(directory, room, 0) as copied:
                return list(copied.items)

        items = await asyncio.to_thread(copy)
    assert not (directory / SOCKET).exists()
    await cell.close()
    return items


def test_a_cell_is_copied_from_its_server_whatever_the_length_of_its_path(tmp_path: Path) -> None:
    directory = tmp_path / ("long" * 30) / ("er" * 30)
    directory.mkdir(parents=True)
    assert asyncio.run(_copied_from_a_server(directory, tmp_path)) == IN_CELL


async def _turns_beside_a_copy(directory: Path, pages: int) -> int:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def copy() -> AsyncIterator[bytes]:
        nonlocal turns
        turns = 0
        for _ in range(pages):
            yield b"page"

    async with copies_for_exports(directory, copy):
        with socket_path(directory) as path:
            reader, writer = await asyncio.open_unix_connection(path)
        counting = asyncio.create_task(count())
        assert await reader.read() == b"page" * pages
        counting.cancel()
        writer.close()
        await writer.wait_closed()
    return turns


def test_requests_go_on_while_a_fast_reader_copies(tmp_path: Path) -> None:
    assert asyncio.run(_turns_beside_a_copy(tmp_path, 100)) >= 100


def test_where_there_is_no_cell_the_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no cell"), copied_cell(tmp_path, tmp_path, 0):
        pass
    result = CliRunner().invoke(tidegate, ["export", str(tmp_path), "--data", str(tmp_path)])
    assert result.exit_code == 1
    assert result.output.startswith("tidegate: data: there is no cell in")


async def _in_use_without_a_door(directory: Path, room: Path) -> str:
    cell = await _cell_with_items(directory)
    try:
        with pytest.raises(SourceError) as raised, copied_cell(directory, room, 0):
            pass
    finally:
        await cell.close()
    return str(raised.value)


def test_a_cell_in_use_by_something_that_hands_out_no_copies_is_refused(tmp_path: Path) -> None:
    told = asyncio.run(_in_use_without_a_door(tmp_path / "data", tmp_path))
    assert "is in use by another process, which hands out no copies" in told


def test_the_command_exports_and_shows(tmp_path: Path) -> None:
    asyncio.run(_closed_cell(tmp_path / "data"))
    out = tmp_path / "out"
    command = ["export", str(out), "--data", str(tmp_path / "data")]
    result = CliRunner().invoke(tidegate, command)
    assert result.exit_code == 0, result.output
    (folder,) = (out / "AWSDynamoDB").iterdir()
    assert result.output.startswith(f"{folder}: 5 items")
    shown = CliRunner().invoke(tidegate, ["export", "show", str(folder), "--partition", "S|"])
    assert json.loads(shown.output) == {
        "Item": {"pk": "S|0123456789abcdef|00|0", "sk": "AA==", "v": 1, "d": ["9", "10", "127"]}
    }
    limited = CliRunner().invoke(tidegate, ["export", "show", str(folder), "--limit", "2"])
    assert len(limited.output.splitlines()) == 2
    elsewhere = CliRunner().invoke(tidegate, ["export", "show", str(tmp_path)])
    assert elsewhere.exit_code == 1
    assert "manifest-summary.json" in elsewhere.output


def test_a_copied_export_is_shown_from_where_it_is(tmp_path: Path) -> None:
    export = write_export(tmp_path / "a", ExportedCell("local", NOW_MS * 1000), ITEMS, NOW_MS)
    manifest = export.folder / "manifest-files.json"
    # As in a bucket, where the export had a prefix.
    manifest.write_text(manifest.read_text().replace("AWSDynamoDB/", "some/prefix/AWSDynamoDB/"))
    assert len(list(shown_lines(export.folder, "", 10))) == 3


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        # A map that has an attribute called as a type is taken for a value of that type.
        ({"M": {"S": {"S": "body"}, "n": {"N": "5"}}}, "body"),
        ({"M": {"N": {"N": "7"}}}, {"N": 7}),
        # A text that looks like a time becomes one.
        ({"S": "2026-11-21T20:00:00.000000"}, datetime(2026, 11, 21, 20, 0)),  # noqa: DTZ001 - it has none
        # A decimal becomes a float, and loses digits.
        ({"N": "123456789.123456789012345678"}, 123456789.12345679),
        ({"N": "0.1"}, 0.1),
        # A set of numbers becomes one of texts; bytes stay in base64.
        ({"NS": ["10", "9"]}, {"9", "10"}),
        ({"B": "AP8="}, "AP8="),
        # Integers are exact.
        ({"N": "9007199254740993"}, 9007199254740993),
    ],
)
def test_what_is_shown_is_not_always_what_is_there(typed: object, shown: object) -> None:
    found = plain(json.dumps({"Item": {"a": typed}}))["Item"]["a"]
    assert found == shown
    assert not isinstance(found, Decimal)
