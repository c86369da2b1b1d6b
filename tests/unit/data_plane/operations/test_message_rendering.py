"""Messages of answers: long ones leave others their turn."""

import pytest

from data_plane.core.message import Delivery, Message
from data_plane.operations.message_rendering import EVERYTHING, rendered, rendered_in_slices
from tests.unit.data_plane.slices import counted


def delivery(body: str) -> Delivery:
    return Delivery(Message(bytes(16), body, (), "", "", "123456789012", 0), "handle", 1, 0)


@pytest.mark.parametrize(
    ("lengths", "pauses"), [([10] * 10, 0), ([40_000, 40_000], 1), ([1_000_000], 16)]
)
def test_long_messages_are_rendered_in_slices(lengths: list[int], pauses: int) -> None:
    deliveries = [delivery("b" * length) for length in lengths]
    found, answers = counted(rendered_in_slices(deliveries, EVERYTHING))
    assert answers == [rendered(one, EVERYTHING) for one in deliveries]
    assert found == pauses
