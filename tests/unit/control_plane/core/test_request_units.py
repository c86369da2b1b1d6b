"""How the counts of tests/conformance are used for what was not counted."""

import pytest

from control_plane.core.request_units import (
    TURNS_COUNTED,
    Shape,
    body_bytes,
    delete,
    is_apart,
    item_bytes,
    receive,
    send,
)
from data_plane.stored.bounds import BLOB_THRESHOLD_BYTES, SEGMENT_MESSAGES_MAX

FIFO = Shape(100, fifo=True)


def test_small_texts_are_not_compressed() -> None:
    assert body_bytes(Shape(100)) == 100
    assert body_bytes(Shape(4_096)) < 4_096
    assert body_bytes(Shape(4_096, text_share=1)) == 4_096


def test_what_is_too_big_for_an_item_leaves_a_small_one() -> None:
    inside, outside = Shape(8_000), Shape(20_000)
    assert not is_apart(inside)
    assert is_apart(outside)
    assert item_bytes(inside) < BLOB_THRESHOLD_BYTES
    assert item_bytes(outside) < 1_024
    assert (send(inside).writes, send(outside).writes) == (7, 1)
    assert (send(outside).puts, receive(outside).gets) == (1, 1)


@pytest.mark.parametrize("shape", [Shape(100), FIFO])
def test_between_two_numbers_of_front_ends_it_is_in_proportion(shape: Shape) -> None:
    for call in (send, receive, delete):
        low, middle, high = (call(shape, number) for number in (8, 12, 16))
        assert middle.writes == pytest.approx((low.writes + high.writes) / 2)
        assert middle.reads == pytest.approx((low.reads + high.reads) / 2)


@pytest.mark.parametrize("shape", [Shape(100), FIFO])
def test_beyond_what_was_counted_it_stays_as_it_is(shape: Shape) -> None:
    assert receive(shape, 1_000) == receive(shape, max(TURNS_COUNTED))
    assert receive(shape, 0.5) == receive(shape, 1)


def test_more_front_ends_never_spend_less() -> None:
    for shape in (Shape(100), FIFO):
        for call in (send, receive, delete):
            spent = [call(shape, number) for number in TURNS_COUNTED]
            assert [each.writes for each in spent] == sorted(each.writes for each in spent)
            assert [each.reads for each in spent] == sorted(each.reads for each in spent)


def test_a_segment_has_an_end() -> None:
    assert send(Shape(10, SEGMENT_MESSAGES_MAX)).writes > 0
    with pytest.raises(ValueError, match="64 messages"):
        send(Shape(10, SEGMENT_MESSAGES_MAX + 1))
