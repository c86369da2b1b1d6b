import pytest

from control_plane.metadata_cache.entries import ENTRY_BYTES_MAX, Entries, Entry
from data_plane.ports import Attributes, Key
from tests.unit.repeatable import SECRET

KEY = Key("Q|111122223333|eu-west-1", b"jobs")
OTHER = Key("Q|111122223333|eu-west-1", b"mails")
ITEM: Attributes = {"v": 1, "a": "text", "w": b"\x00\xff", "s": frozenset({1, 2}), "n": -1}


@pytest.fixture
def entries() -> Entries:
    return Entries(SECRET)


def sealed(entries: Entries, key: Key = KEY, item: Attributes | None = ITEM) -> bytes:
    made = entries.seal(entries.name(key), 5, item)
    assert made is not None
    return made


def test_an_entry_is_what_was_sealed(entries: Entries) -> None:
    assert entries.open(entries.name(KEY), sealed(entries)) == Entry(5, dict(ITEM))
    assert entries.open(entries.name(KEY), sealed(entries, item=None)) == Entry(5, None)


def test_neither_names_nor_entries_tell_what_they_are_of(entries: Entries) -> None:
    name = entries.name(KEY)
    assert len(name) == 32
    assert int(name, 16) > 0
    for telling in (b"jobs", b"111122223333", b"text"):
        assert telling not in name.encode() + sealed(entries)


def test_names_differ_by_item_and_by_registry(entries: Entries) -> None:
    parts = Key("Q|111122223333|eu-west-1j", b"obs")
    names = {entries.name(key) for key in (KEY, OTHER, parts)}
    assert len(names | {Entries(bytes(32)).name(KEY)}) == 4


def test_an_entry_opens_nowhere_else(entries: Entries) -> None:
    name = entries.name(KEY)
    assert entries.open(entries.name(OTHER), sealed(entries)) is None
    assert Entries(bytes(32)).open(name, sealed(entries)) is None


def test_what_was_altered_does_not_open(entries: Entries) -> None:
    name, whole = entries.name(KEY), sealed(entries)
    altered = [whole[:-1], whole + b"\0", b"", b"\0" * 15, whole[16:]]
    altered += [
        whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        for place in range(len(whole))
    ]
    assert [entries.open(name, each) for each in altered] == [None] * len(altered)


def test_an_entry_of_another_form_is_none(entries: Entries) -> None:
    name = entries.name(KEY)
    for plain in (b"\xc0", b"\x91\xa1x", b"\x92\x05\x07", b"\xff"):
        assert entries.open(name, entries._seal.seal(plain, name.encode())) is None


def test_what_is_too_big_for_memcached_is_not_cached(entries: Entries) -> None:
    assert entries.seal(entries.name(KEY), 5, {"a": "x" * ENTRY_BYTES_MAX}) is None
