"""The same histories as tests/property/test_sent_survives.py, on a cell in DynamoDB (moto)."""

import asyncio
import random
import time
from typing import Any

import pytest
from moto import mock_aws

from data_plane.dynamodb.cell import DynamoCell
from data_plane.dynamodb.opening import connect, make_table
from tests.conformance.dynamodb_suite import new_table_name
from tests.conformance.on_driver import inline
from tests.property.test_sent_survives import SERVERS, World, play
from tests.unit.repeatable import HandClock

STEPS = 30
SIZES = (1, 300, 70_000)
FAILURES = (None, None, None, False, True)


class CellOfItsTime(DynamoCell):
    """Its present is the test's, which runs ahead of moto's."""

    def now_us(self) -> int:
        return self._clock.now_us()


def a_history(seed: int) -> list[tuple[Any, ...]]:
    chance = random.Random(seed)
    steps: list[tuple[Any, ...]] = []
    for _ in range(STEPS):
        which, step = chance.randrange(SERVERS), chance.choice(("send",) * 4 + ("minute", "other"))
        if step == "send":
            sizes = [chance.choice(SIZES) for _ in range(chance.choice((1, 1, 3)))]
            steps.append((step, which, chance.random() < 0.5, sizes, chance.choice(FAILURES)))
        elif step == "minute":
            steps.append((step, which))
        else:
            steps.append((chance.choice(("crash", "crash", "retry", "stop", "away")), which))
    return steps


@pytest.mark.parametrize("seed", range(2))
def test_what_is_sent_is_in_records_whatever_crashes(seed: int) -> None:
    clock = HandClock()
    clock.time_us = int(time.time()) * 1_000_000
    with mock_aws():
        client, table = connect("", "us-east-1", connections_max=1), new_table_name()
        make_table(client, table)
        cell = CellOfItsTime(client, table, clock, inline)
        world = World(clock, cell)
        asyncio.run(play(world, a_history(seed)))
    assert world.told
