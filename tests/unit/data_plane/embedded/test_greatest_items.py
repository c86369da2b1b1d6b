"""The greatest items of docs/storage.md fit into the store, come back, and are copied whole."""

import asyncio
import io
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from data_plane.core.limits import PARTITION_KEY_CHARS_MAX, RECORD_KIB_MAX
from data_plane.core.message import Message, MessageAttribute
from data_plane.core.sealing import DataSeal
from data_plane.embedded import copying
from data_plane.embedded.bodies import VALUE_BYTES_MAX
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.encoding import encode_item, encode_key
from data_plane.embedded.filling import fill
from data_plane.embedded.salvage import Salvage
from data_plane.embedded.store import DATA_FILE, StoreSizes
from data_plane.ports import Attributes, Key, Value
from data_plane.stored import segment
from data_plane.stored.segment import Sealing, repack_message, seal
from data_plane.streams.bounds import (
    CALL_BYTES_MAX,
    ITEM_BYTES_MAX,
    PRODUCED_BYTES,
    RECORD_TEXT_BYTES_MAX,
    SLOT_PRODUCERS_MAX,
    SLOT_RECORDS_MAX,
)
from data_plane.streams.consuming import ENCODING
from data_plane.streams.slots import (
    RECORDS,
    PartOfCall,
    Produced,
    pack_calls,
    pack_produced,
    pack_slot,
    slot_attributes,
)
from data_plane.system import SystemClock
from tests.unit.repeatable import SeededEntropy

U64 = 2**64 - 1
UID = "0123456789abcdef"
SLOT = Key(f"N|{UID}|0000ffff|0", b"\xff" * 8)
NONCE = bytes(13)
SEALING = Sealing(b"q" * 16, DataSeal(bytes(32)), bytes(12), "123456789012")
GROUP_COPY: Mapping[str, Value] = {"R": U64, "E": U64, "D": 1}
PARTITION_KEY = "\N{GRINNING FACE}" * PARTITION_KEY_CHARS_MAX
DATA = SeededEntropy().random_bytes(RECORD_KIB_MAX * 1024 - len(PARTITION_KEY.encode()))


def slot_of(data: bytes) -> Attributes:
    """The slot of a record, with all that can lie beside it at its greatest."""
    producers = [Produced(bytes(16), U64, 2**216 - 1, U64) for _ in range(SLOT_PRODUCERS_MAX)]
    part = PartOfCall(bytes(16), 0, 1 << SLOT_RECORDS_MAX - 1)
    return {
        **slot_attributes(RECORDS, NONCE, U64, U64, 1),
        "y": U64,
        "yt": U64,
        "r": U64,
        "p": U64,
        "ra": bytes(16),
        "cp": pack_calls([part]),
        **pack_produced(producers, 63, U64),
        **pack_slot([(PARTITION_KEY, data)], SEALING, SLOT, NONCE),
        **GROUP_COPY,
    }


def dead_letter_of(text: str) -> Attributes:
    """The segment of such a record that has become a dead letter."""
    message = Message(
        bytes(16),
        text,
        ((ENCODING, MessageAttribute("String", b"base64")),),
        "t" * 4096,
        PARTITION_KEY,
        "1" * 12,
        U64 // 1000,
        U64,
        "9" * 128,
        dead_letter_source=f"arn:aws-us-gov:sqs:ap-southeast-1:123456789012:{'q' * 80}",
        received=U64,
        first_received_ms=U64,
    )
    return {
        "v": 2,
        "k": "s",
        "b": bytes(10),
        "i": 127,
        "n": 1,
        "y": U64,
        "x": U64,
        "t": U64,
        "l": U64,
        "r": 0,
        "u": bytes(8),
        "ra": bytes(16),
        **GROUP_COPY,
        **seal([repack_message(message, U64)], SEALING, f"B|{UID}|00|0", bytes(10), "127"),
    }


def test_parts_of_a_slot_have_the_bytes_that_are_counted_for_them() -> None:
    produced = pack_produced([Produced(bytes(16), 0, 0, 0)], 0, 0)["pe"]
    assert isinstance(produced, bytes)
    assert len(produced) == PRODUCED_BYTES
    part = PartOfCall(bytes(16), 0, 1 << SLOT_RECORDS_MAX - 1)
    assert len(pack_calls([part])) == CALL_BYTES_MAX


def test_the_greatest_items_fit_and_little_more_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(encode_item(slot_of(DATA))) < ITEM_BYTES_MAX
    # No compression makes it smaller.
    monkeypatch.setattr(segment, "COMPRESS_BYTES_MIN", U64)
    greatest = encode_item(dead_letter_of("b" * RECORD_TEXT_BYTES_MAX))
    assert len(greatest) < ITEM_BYTES_MAX < len(greatest) + 100_000


def test_nothing_greater_is_stored() -> None:
    with pytest.raises(AssertionError, match="is above"):
        encode_item({"z": bytes(ITEM_BYTES_MAX)})


def test_a_commit_has_room_for_the_greatest_item() -> None:
    assert StoreSizes().batch > VALUE_BYTES_MAX


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cell with the slot of a record of 10 MiB between two small items."""
    folder = tmp_path_factory.mktemp("cell")

    async def main() -> None:
        cell = EmbeddedCell(folder, SystemClock())
        await cell.put(Key("A|before", b"k"), {"n": 1})
        await cell.put(SLOT, slot_of(DATA))
        await cell.put(Key("S|behind", b"k"), {"n": 2})
        await cell.close()

    asyncio.run(main())
    return folder


def test_it_is_read_as_it_was_written(folder: Path) -> None:
    async def main() -> None:
        cell = EmbeddedCell(folder, SystemClock())
        try:
            assert await cell.get(SLOT) == slot_of(DATA)
            (item,) = await cell.query(SLOT.partition, limit=10)
            assert item.attributes == slot_of(DATA)
            assert cell.damaged_items == 0
        finally:
            await cell.close()

    asyncio.run(main())


def test_a_copy_of_the_cell_has_it_and_becomes_a_cell_again(folder: Path, tmp_path: Path) -> None:
    async def main() -> None:
        cell = EmbeddedCell(folder, SystemClock())
        stream = io.BytesIO(b"".join([page async for page in cell.copy()]))
        await cell.close()
        frames = [one for one in copying.read_frames(stream) if one.kind == copying.ITEM]
        fill(tmp_path / "new", [(frame.key, frame.value) for frame in frames], 1)
        restored = EmbeddedCell(tmp_path / "new", SystemClock())
        assert await restored.get(SLOT) == slot_of(DATA)
        assert await restored.get(Key("S|behind", b"k")) == {"n": 2}
        await restored.close()

    asyncio.run(main())


def test_a_rescue_finds_it(folder: Path) -> None:
    fd = os.open(folder / DATA_FILE, os.O_RDONLY)
    try:
        salvage = Salvage(fd)
        found = {item.key: item.value for item in salvage.items()}
        assert not salvage.gaps
    finally:
        os.close(fd)
    value = found[encode_key(SLOT)]
    assert value is not None
    assert msgspec.msgpack.decode(value) == slot_of(DATA)
