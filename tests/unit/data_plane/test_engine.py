"""Each queue has the engine of its type, and the upkeep of both goes on whatever one meets."""

import asyncio
from typing import Any, cast

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.message import SendCall, Sent
from data_plane.core.queue import Queue
from data_plane.engine import Engine
from data_plane.log.engine import Log
from data_plane.ports import CellUnavailableError
from tests.unit.data_plane.wire import queue_with

STANDARD = queue_with()
FIFO = queue_with(name="orders.fifo", fifo=True)


class Called:
    """Notes the queue of every call, and answers it with a name of its own."""

    damaged_segments = 2

    def __init__(self, name: str, failure: Exception | None = None) -> None:
        self.name = name
        self.failure = failure
        self.calls: list[str] = []

    def __getattr__(self, method: str) -> Any:
        async def call(*arguments: Any, **_: Any) -> Any:
            self.calls.append(method)
            if self.failure:
                raise self.failure
            assert all(one in (STANDARD, FIFO) for one in arguments if isinstance(one, Queue))
            return self.name

        return call


def engine_of(bag: Called, log: Called) -> Engine:
    return Engine(cast(Bag, bag), cast(Log, log))


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("delete", ([],)),
        ("change_visibility", ([],)),
        ("counts", ()),
        ("purge", ()),
        ("restamp", ()),
        ("drop_past_counters", ()),
    ],
)
def test_a_queue_has_the_engine_of_its_type(method: str, arguments: tuple[Any, ...]) -> None:
    engines = Called("bag"), Called("log")
    for queue, chosen in zip((STANDARD, FIFO), engines, strict=True):
        answer = asyncio.run(getattr(engine_of(*engines), method)(queue, *arguments))
        assert answer in (chosen.name, None)
        assert chosen.calls == [method]


def test_receives_of_fifo_queues_bring_their_attempt() -> None:
    received: dict[str, str] = {}

    class Receiving(Called):
        async def receive(self, _queue: Queue, **options: Any) -> list[Any]:
            received[self.name] = options.get("attempt", "no such option")
            return []

    engine = engine_of(Receiving("bag"), Receiving("log"))
    for queue in (STANDARD, FIFO):
        asyncio.run(engine.receive(queue, count=1, visibility_s=1, until_us=0, attempt="a"))
    assert received == {"bag": "no such option", "log": "a"}


def test_sends_to_standard_queues_have_no_sequence_number() -> None:
    class Sending(Called):
        async def send(self, *_: Any, **__: Any) -> list[Any]:
            return [b"1", b"2"] if self.name == "bag" else [Sent(b"3", 4)]

    engine = engine_of(Sending("bag"), Sending("log"))
    assert asyncio.run(engine.send(STANDARD, SendCall("1", []))) == [Sent(b"1", 0), Sent(b"2", 0)]
    assert asyncio.run(engine.send(FIFO, SendCall("1", []))) == [Sent(b"3", 4)]


def test_a_failure_of_one_does_not_keep_the_other_from_its_upkeep() -> None:
    bag, log = Called("bag", CellUnavailableError("away")), Called("log")
    engine = engine_of(bag, log)
    with pytest.raises(CellUnavailableError):
        asyncio.run(engine.sweep())
    assert (bag.calls, log.calls) == (["sweep"], ["sweep"])


def test_damage_is_counted_together() -> None:
    assert engine_of(Called("bag"), Called("log")).damaged_segments == 4
