"""Splitting big values: they come back whole, take no runs of pages, and leave nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import lmdb
import pytest

from data_plane.embedded.bodies import Bodies, head_time_to_live_s
from data_plane.ports import DamagedItemError

KEY = b"partition\0key"
PAGE_BYTES = 4096
CHECKSUM_BYTES = 5
INLINE_BYTES = 2030 - CHECKSUM_BYTES
PIECE_BYTES = 2022
SIZES = (
    1,
    INLINE_BYTES - len(KEY),
    INLINE_BYTES - len(KEY) + 1,
    PIECE_BYTES - CHECKSUM_BYTES - 1,
    PIECE_BYTES - CHECKSUM_BYTES,
    PIECE_BYTES - CHECKSUM_BYTES + 1,
    7 * PIECE_BYTES - CHECKSUM_BYTES,
    7 * PIECE_BYTES - CHECKSUM_BYTES + 1,
)


class Opened:
    """An environment with one tree of items and one of pieces."""

    def __init__(self, env: lmdb.Environment) -> None:
        self.env = env
        self.bodies = Bodies(env.open_db(b"bodies"), PAGE_BYTES)

    def put(self, key: bytes, value: bytes) -> None:
        with self.env.begin(write=True) as txn:
            stored = self.bodies.split(txn, key, value, lambda _value: 77)
            self.bodies.drop(txn, key, txn.replace(key, stored))

    def get(self, key: bytes) -> bytes:
        with self.env.begin() as txn:
            return bytes(self.bodies.join(txn, key, txn.get(key, b"\xff")))

    def delete(self, key: bytes) -> None:
        with self.env.begin(write=True) as txn:
            self.bodies.drop(txn, key, txn.pop(key))

    def pieces(self) -> int:
        with self.env.begin() as txn:
            return int(txn.stat(self.bodies.tree)["entries"])

    def runs(self) -> int:
        with self.env.begin() as txn:
            trees = (txn.stat(self.bodies.tree), self.env.stat())
            return sum(tree["overflow_pages"] for tree in trees)

    def leaves(self) -> int:
        with self.env.begin() as txn:
            return int(txn.stat(self.bodies.tree)["leaf_pages"])


def body(size_bytes: int, first: int = 0x80) -> bytes:
    return bytes([first]) + bytes(number % 251 for number in range(size_bytes - 1))


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    with lmdb.open(str(tmp_path), map_size=1 << 28, max_dbs=1) as env:
        assert env.stat()["psize"] == PAGE_BYTES, "the sizes here are those of 4 KiB pages"
        yield Opened(env)


@pytest.mark.parametrize("size_bytes", SIZES)
def test_a_value_of_any_size_comes_back_without_runs_of_pages(
    opened: Opened, size_bytes: int
) -> None:
    opened.put(b"other", body(9_000, 0x81))
    opened.put(KEY, body(size_bytes))
    opened.put(b"third", body(9_000, 0x82))
    assert opened.get(KEY) == body(size_bytes)
    assert opened.get(b"other") == body(9_000, 0x81)
    assert opened.runs() == 0
    opened.delete(b"other")
    opened.delete(b"third")
    assert opened.get(KEY) == body(size_bytes)
    opened.delete(KEY)
    assert opened.pieces() == 0


def test_only_what_fits_half_a_page_with_its_key_stays_in_its_place(opened: Opened) -> None:
    opened.put(KEY, body(INLINE_BYTES - len(KEY)))
    assert opened.pieces() == 0
    opened.put(KEY, body(INLINE_BYTES - len(KEY) + 1))
    assert opened.pieces() == 1


def test_pieces_fill_their_pages(opened: Opened) -> None:
    for number in range(50):
        opened.put(b"key%d" % number, body(8 * PIECE_BYTES - CHECKSUM_BYTES))
    assert opened.pieces() == 400
    assert opened.leaves() == 200


@pytest.mark.parametrize("before", [100, 30_000])
@pytest.mark.parametrize("after", [100, 9_000, 50_000])
def test_a_replaced_value_leaves_no_pieces(opened: Opened, before: int, after: int) -> None:
    opened.put(KEY, body(before))
    opened.put(KEY, body(after, 0x83))
    assert opened.get(KEY) == body(after, 0x83)
    assert opened.pieces() == (0 if after < PIECE_BYTES else -(-after // PIECE_BYTES))


def test_a_value_with_pieces_missing_is_an_error(opened: Opened) -> None:
    opened.put(KEY, body(9_000))
    with opened.env.begin(write=True, db=opened.bodies.tree) as txn, txn.cursor() as cursor:
        assert cursor.last()
        cursor.delete()
    with pytest.raises(DamagedItemError, match="instead of 9005"):
        opened.get(KEY)


def test_a_head_repeats_the_time_to_live(opened: Opened) -> None:
    opened.put(KEY, body(9_000))
    with opened.env.begin() as txn:
        assert head_time_to_live_s(txn.get(KEY, b"\0")) == 77
    assert head_time_to_live_s(body(10)) is None
