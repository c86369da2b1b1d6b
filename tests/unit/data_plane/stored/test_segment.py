"""What a segment's seal is bound to, and what becomes of one that was altered."""

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.message import MessageAttribute, Outgoing
from data_plane.core.sealing import DataSeal
from data_plane.ports import Attributes, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import keys
from data_plane.stored.data_keys import DataKeys, managed_id
from data_plane.stored.segment import (
    DamagedSegmentError,
    LoadedSegment,
    Sealing,
    UnknownFormatError,
    Unseal,
    open_segment,
    pack_message,
    seal,
    segment_name,
    slot_name,
)
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.repeatable import HandClock, SeededEntropy

CLOCK = HandClock()
BLOCK = b"0123456789"
NONCE = bytes(12)
SLOT_NONCE = b"writer0000001"
TEXT = "a body that nobody else reads"


def unseal_of(queue: Any = QUEUE) -> Unseal:
    """What opens segments with the managed keys of a queue."""
    keys_of = DataKeys(CLOCK, SeededEntropy(), EventLoopWaits(CLOCK)).of(queue)
    return keys_of._without_requests.unseal


def sealing(queue: Any = QUEUE, nonce: bytes = NONCE) -> Sealing:
    id_ = managed_id(CLOCK.now_us())
    keys_of = DataKeys(CLOCK, SeededEntropy(), EventLoopWaits(CLOCK)).of(queue)
    return Sealing(id_, keys_of.managed(id_), nonce, queue.account)


def packed(*bodies: str) -> list[Any]:
    return [
        pack_message(bytes((number,)) * 16, Outgoing(body=body, group="g"), "1")
        for number, body in enumerate(bodies)
    ]


def a_segment(*bodies: str, how: Sealing | None) -> tuple[Key, Attributes]:
    partition = keys.segments(QUEUE.uid, 0, 0)
    sealed = seal(packed(*bodies), how, partition, *segment_name(BLOCK, 3))
    key = Key(partition, keys.segment_sort(CLOCK.now_us(), BLOCK, 3))
    return key, {"v": 1, "k": "s", "t": 1, "b": BLOCK, "i": 3, "n": len(bodies), **sealed}


def a_slot(*bodies: str, how: Sealing) -> tuple[Key, Attributes]:
    key = Key(keys.slots(QUEUE.uid, 0, 0), keys.be64(77))
    sealed = seal(packed(*bodies), how, key.partition, *slot_name(key.sort, SLOT_NONCE))
    return key, {"v": 1, "k": "s", "t": 1, "w": SLOT_NONCE, "i": 3, "n": len(bodies), **sealed}


def opened(key: Key, item: Attributes, unseal: Unseal | None) -> list[str]:
    return [message.body for message in open_segment(key, item, unseal=unseal)]


texts = st.text(st.characters(codec="utf-8"), max_size=2000)


@given(bodies=st.lists(texts, min_size=1, max_size=64), names=st.text(min_size=1), data=st.binary())
def test_what_is_sealed_opens_in_its_place(bodies: list[str], names: str, data: bytes) -> None:
    message = Outgoing(
        body=bodies[0], attributes=((names, MessageAttribute("Binary", data)),), group=names
    )
    all_packed = [*packed(*bodies[1:]), pack_message(bytes(16), message, "1")]
    partition = keys.segments(QUEUE.uid, 0, 0)
    attributes = seal(all_packed, sealing(), partition, *segment_name(BLOCK, 0))
    item = {"v": 1, "t": 1, "b": BLOCK, "i": 0, "n": len(all_packed), **attributes}
    messages = open_segment(Key(partition, b"any slice"), item, unseal=unseal_of())
    assert [m.body for m in messages] == [*bodies[1:], bodies[0]]
    assert messages[-1].attributes == message.attributes


@pytest.mark.parametrize(("body", "envelope"), [(TEXT, 16), (TEXT * 100, 17)])
def test_what_is_sealed_is_packed_and_compressed_first(body: str, envelope: int) -> None:
    key, item = a_segment(body, how=sealing())
    plain = a_segment(body, how=None)[1]
    assert (item["e"], plain["e"]) == (envelope, envelope - 16)
    assert isinstance(item["z"], bytes)
    assert isinstance(plain["z"], bytes)
    assert len(item["z"]) == len(plain["z"]) + 28
    assert TEXT.encode() not in item["z"]
    assert opened(key, item, unseal_of()) == [body]
    assert opened(key, plain, None) == [body]


def test_a_key_of_the_day_is_named(  # docs/storage.md, "Sealed messages"
) -> None:
    id_ = managed_id(86_400_000_000 * 20_000 + 5)
    assert id_ == bytes((0, 0)) + (20_000).to_bytes(4, "big")


OTHER_UID = replace(QUEUE, uid="ffff000000000000")
OTHER_ACCOUNT = replace(QUEUE, account="999999999999")

Change = Callable[[Key, dict[str, Any]], tuple[Key, dict[str, Any]]]


def with_item(**changes: Any) -> Change:
    return lambda key, item: (key, {**item, **changes})


def with_key(partition: str, sort: bytes = b"") -> Change:
    return lambda key, item: (Key(partition, sort or key.sort), item)


BOUND: list[tuple[str, Callable[..., tuple[Key, Attributes]], Change]] = [
    ("block of a segment", a_segment, with_item(b=b"9876543210")),
    ("first of a segment", a_segment, with_item(i=4)),
    ("number of messages", a_segment, with_item(n=2)),
    ("envelope", a_segment, with_item(e=17)),
    ("lane", a_segment, with_key(keys.segments(QUEUE.uid, 1, 0))),
    ("epoch", a_segment, with_key(keys.segments(QUEUE.uid, 0, 1))),
    ("queue", a_segment, with_key(keys.segments(OTHER_UID.uid, 0, 0))),
    ("slot", a_slot, with_key(keys.slots(QUEUE.uid, 0, 0), keys.be64(78))),
    ("nonce of the slot", a_slot, with_item(w=b"writer0000002")),
    ("partition", a_slot, with_key(keys.slots(QUEUE.uid, 1, 0))),
    ("generation", a_slot, with_key(keys.slots(QUEUE.uid, 0, 1))),
    ("number of messages of a slot", a_slot, with_item(n=2)),
    ("envelope of a slot", a_slot, with_item(e=17)),
    ("day", a_segment, with_item(q=managed_id(CLOCK.now_us() + 86_400_000_000))),
]


@pytest.mark.parametrize(
    ("make", "change"), [(make, change) for _, make, change in BOUND], ids=[n for n, _, _ in BOUND]
)
def test_a_seal_does_not_open_in_another_place(
    make: Callable[..., tuple[Key, Attributes]], change: Change
) -> None:
    key, item = make(TEXT, how=sealing())
    assert opened(key, item, unseal_of()) == [TEXT]
    with pytest.raises(DamagedSegmentError, match="seal"):
        opened(*change(key, dict(item)), unseal_of())


def test_the_account_is_bound_beside_the_secret() -> None:
    # Nobody has two queues with one secret; were it so, they could not read each other.
    key, item = a_segment(TEXT, how=sealing())
    with pytest.raises(DamagedSegmentError):
        opened(key, item, unseal_of(OTHER_ACCOUNT))
    with pytest.raises(DamagedSegmentError):
        opened(key, item, unseal_of(replace(QUEUE, secret=bytes(32))))


def test_the_slice_and_the_stamp_are_not_bound_as_the_cell_chooses_them() -> None:
    key, item = a_segment(TEXT, how=sealing())
    moved = Key(key.partition, keys.segment_sort(5, BLOCK, 3))
    assert opened(moved, {**item, "t": 5, "x": 9}, unseal_of()) == [TEXT]


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_no_altered_bit_opens(position: int, bit: int) -> None:
    key, item = a_segment(TEXT, how=sealing())
    assert isinstance(item["z"], bytes)
    altered = bytearray(item["z"])
    altered[position % len(altered)] ^= 1 << bit
    with pytest.raises(DamagedSegmentError):
        opened(key, {**item, "z": bytes(altered)}, unseal_of())
    with pytest.raises(DamagedSegmentError):
        opened(key, {**item, "z": item["z"][: position % len(item["z"])]}, unseal_of())


def test_what_was_stored_plainly_stays_readable_beside_what_is_sealed() -> None:
    key, item = a_segment(TEXT, how=None)
    assert "q" not in item
    assert opened(key, item, unseal_of()) == [TEXT]


def test_a_plain_body_is_not_taken_for_a_sealed_one() -> None:
    key, plain = a_segment(TEXT, how=None)
    with pytest.raises(DamagedSegmentError):
        opened(key, {**plain, "e": 16, "q": managed_id(CLOCK.now_us())}, unseal_of())


@pytest.mark.parametrize("envelope", [2, 15, 18, 32, -16, "16"])
def test_an_unknown_envelope_is_refused(envelope: int | str) -> None:
    key, item = a_segment(TEXT, how=sealing())
    with pytest.raises(UnknownFormatError):
        opened(key, {**item, "e": envelope}, unseal_of())


@pytest.mark.parametrize("id_", [b"", b"\0", b"\0\1" + bytes(4), b"\2" + bytes(5), bytes(7)])
def test_an_unknown_key_id_is_refused(id_: bytes) -> None:
    key, item = a_segment(TEXT, how=sealing())
    with pytest.raises(UnknownFormatError):
        opened(key, {**item, "q": id_}, unseal_of())


def test_without_keys_nothing_sealed_is_read() -> None:
    key, item = a_segment(TEXT, how=sealing())
    with pytest.raises(UnknownFormatError):
        LoadedSegment(key, item).messages()
    with pytest.raises(UnknownFormatError):
        opened(key, item, unseal_of(replace(QUEUE, secret=b"")))


def test_the_format_stays_what_the_page_says() -> None:
    """Bytes as they were once stored: a reader of today must open them."""
    key, item = a_segment("stored once", how=sealing())
    stored = {**item, "z": base64.b64decode(STORED)}
    assert opened(key, stored, unseal_of()) == ["stored once"]
    assert item["z"] == stored["z"]


STORED = (
    "AAAAAAAAAAAAAAAAyxd3zYcVnx1Z6yU+KttWIAmHh0u9xLDZFo3op3QW04TIFdgfTUcuBgGWYBGIsnc2xlU4oImUEg=="
)


def test_a_nonce_makes_other_bytes_of_the_same_messages() -> None:
    first, second = (a_segment(TEXT, how=sealing(nonce=bytes((n,)) * 12))[1] for n in (1, 2))
    assert first["z"] != second["z"]
    assert DataSeal(bytes(32)).seal(NONCE, b"x", b"")[:12] == NONCE
