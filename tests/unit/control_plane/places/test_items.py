from dataclasses import replace

import pytest

from control_plane.core.item_field import UnknownItemFormatError
from control_plane.places.items import (
    DRAINING,
    CellRecord,
    CellSeen,
    FifoAppends,
    Heartbeat,
    PlacedQueue,
    Removal,
    StoredPlacement,
    decode_cell,
    decode_heartbeat,
    decode_placed_queue,
    decode_placement,
    decode_removal,
    encode_cell,
    encode_heartbeat,
    encode_placed_queue,
    encode_placement,
    encode_removal,
)
from data_plane.embedded.encoding import encode_item
from data_plane.ports import Attributes
from data_plane.replication.placement import Member, Placement

PLACEMENT = StoredPlacement(
    Placement("g3.07", 5, (Member("a"), Member("b", 3), Member("c", 5, full=False)), 17),
    3,
    b"nonce123",
)
CELL = CellRecord("cell-1", "embedded", {"path": "cell-1"}, DRAINING, 17, 4, b"12345678")
SEEN = CellSeen(answers=True, since_us=17, latency_us=850, used_bytes=4096, requests_per_s=12.5)
BEAT = Heartbeat(
    "0123456789ab",
    1_790_000_000_000_000,
    {"a": SEEN, "b": CellSeen(answers=False, since_us=23)},
    101.5,
    (FifoAppends("1" * 12, "us-east-1", "orders.fifo", 2.5),),
    {"g3.07": 1500},
    {"g3.07": 5},
    1_789_999_999_998_500,
)


def test_a_placement_is_stored_as_the_page_says() -> None:
    assert encode_placement(PLACEMENT) == {
        "v": 1,
        "w": b"nonce123",
        "e": 5,
        "m": '[["a",0,1],["b",3,1],["c",5,0]]',
        "f": 3,
        "s": 17,
    }
    assert decode_placement("g3.07", encode_placement(PLACEMENT)) == PLACEMENT


def test_a_cell_is_stored_as_the_page_says() -> None:
    assert encode_cell(CELL) == {
        "v": 1,
        "w": b"12345678",
        "t": "embedded",
        "a": '{"path":"cell-1"}',
        "q": 0,
        "z": "draining",
        "s": 17,
        "b": 4,
    }
    assert decode_cell("cell-1", encode_cell(CELL)) == CELL


def test_a_heartbeat_is_stored_as_the_page_says() -> None:
    assert encode_heartbeat(BEAT) == {
        "v": 1,
        "t": 1_790_000_000_000_000,
        "x": 1_790_000_000 + 22 * 86_400,
        "j": '{"appends":[["111111111111","us-east-1","orders.fifo",2.5]],'
        '"cells":{"a":[1,17,850,4096,0,12.5,0],"b":[0,23,0,0,0,0.0,0]},'
        '"epochs":{"g3.07":5},"lag":{"g3.07":1500},"requests":101.5,"told":1789999999998500}',
    }
    assert decode_heartbeat("0123456789ab", encode_heartbeat(BEAT)) == BEAT
    before_told = '{"appends":[],"cells":{},"epochs":{},"lag":{},"requests":1}'
    earlier: Attributes = {**encode_heartbeat(BEAT), "j": before_told}
    assert decode_heartbeat("0123456789ab", earlier).told_us == BEAT.time_us


def test_the_small_items() -> None:
    queue = PlacedQueue("1" * 12, "us-east-1", "orders", "0" * 16)
    assert encode_placed_queue(queue) == {"v": 1, "a": "1" * 12, "e": "us-east-1", "q": "orders"}
    assert decode_placed_queue("0" * 16, encode_placed_queue(queue)) == queue
    stream = queue._replace(is_stream=True)
    assert encode_placed_queue(stream) == {**encode_placed_queue(queue), "v": 2, "k": "t"}
    assert decode_placed_queue("0" * 16, encode_placed_queue(stream)) == stream
    removal = Removal("a", 17, b"12345678")
    assert encode_removal(removal) == {"v": 1, "w": b"12345678", "n": "a", "t": 17}
    assert decode_removal(encode_removal(removal)) == removal


def test_another_format_is_refused() -> None:
    for refused in (
        lambda: decode_placement("g", {**encode_placement(PLACEMENT), "v": 3}),
        lambda: decode_placement("g", {**encode_placement(PLACEMENT), "e": "5"}),
        lambda: decode_cell("c", {**encode_cell(CELL), "v": 2}),
        lambda: decode_cell("c", {**encode_cell(CELL), "z": "resting"}),
        lambda: decode_heartbeat("f", {**encode_heartbeat(BEAT), "v": 2}),
        lambda: decode_removal({"v": 1, "w": "text", "n": "a", "t": 17}),
        lambda: decode_placed_queue("u", {"v": 3}),
        lambda: decode_placed_queue("u", {"v": 2, "a": "1", "e": "r", "q": "q"}),
    ):
        with pytest.raises(UnknownItemFormatError):
            refused()


def test_sizes_are_those_of_the_page() -> None:
    members = tuple(Member(f"cell-with-a-name-{n}", 1_000_000 + n) for n in range(7))
    widest = StoredPlacement(Placement("g7.15", 2_000_000, members, 10**16), 7, bytes(8))
    assert len(encode_item(encode_placement(widest))) < 400
    assert len(encode_item(encode_cell(replace(CELL, address={"path": "x" * 400})))) < 600
    assert len(encode_item(encode_removal(Removal("cell-1", 10**16, bytes(8))))) <= 60
    seen = SEEN._replace(since_us=10**15, used_bytes=10**12, requests_per_s=9999.9)
    three = {f"cell-{n}": seen for n in range(3)}
    groups = {f"g{factor}.{n:02}": 3 for factor in (1, 2, 3) for n in range(16)}
    assert len(encode_item(encode_heartbeat(replace(BEAT, cells=three, epochs=groups)))) < 2000
