"""The requests that `tidegate cost` and docs/cost.md reckon with are those that engines make."""

import pytest

from control_plane.core import request_units
from control_plane.core.price_list import PRICES
from control_plane.core.request_units import Shape, Spent
from tests.conformance.keeping_up import Count

SHAPES = [
    pytest.param(Shape(size, batch, fifo), id=f"{'fifo' if fifo else 'standard'}-{size}x{batch}")
    for fifo in (False, True)
    for size in (100, 1_024, 4_096, 65_536)
    for batch in (1, 10)
]
ROUNDS = 128
ROUNDS_WITH_A_PAGE = 256
"""Two blocks of single messages; a FIFO queue writes a page of hashes after 2,048 messages."""
CLOSE = 0.03

TURNS = [
    pytest.param(Shape(1_024, 1, fifo), number, id=f"{'fifo' if fifo else 'standard'}-{number}")
    for fifo in (False, True)
    for number in (2, 4, 16)
]


def dollars(spent: Spent) -> float:
    """For a million calls: what decides which deviations matter."""
    amounts = {
        "write unit": spent.writes,
        "read unit": spent.reads,
        "object put": spent.puts,
        "object get": spent.gets,
    }
    return sum(float(PRICES[name].first) * amount for name, amount in amounts.items())


def reckoned(shape: Shape, front_ends: int = 1) -> dict[str, Spent]:
    return {
        "send": request_units.send(shape, front_ends),
        "receive": request_units.receive(shape, front_ends),
        "delete": request_units.delete(shape, front_ends),
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_of_one_front_end(shape: Shape) -> None:
    pages = shape.fifo and shape.batch > 1
    counted = Count(shape).calls(ROUNDS_WITH_A_PAGE if pages else ROUNDS)
    for step, spent in reckoned(shape).items():
        assert dollars(spent) == pytest.approx(dollars(counted[step]), rel=CLOSE), step
        assert spent.puts == counted[step].puts
        assert spent.gets == counted[step].gets


@pytest.mark.parametrize(("shape", "number"), TURNS)
def test_of_front_ends_that_take_turns(shape: Shape, number: int) -> None:
    counted = Count(shape, number).calls(2 * ROUNDS)
    sums = [sum(dollars(of[step]) for step in of) for of in (reckoned(shape, number), counted)]
    assert sums[0] == pytest.approx(sums[1], rel=0.15)


@pytest.mark.parametrize("fifo", [False, True])
def test_of_a_receive_that_finds_nothing(fifo: bool) -> None:  # noqa: FBT001 - a parameter
    found = Count(Shape(100, fifo=fifo)).empty_receive()
    assert found == request_units.empty_receive().reads
