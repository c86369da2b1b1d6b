"""A producer whose caller is interrupted, as by Ctrl-C, at any moment at which that may be."""

import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from queue import SimpleQueue
from typing import Any

import pytest

from sdk.tests.scripted import FACT_S_MAX, ScriptedClient, beside, cut_off
from sdk.tests.test_producer import ONE, Server
from tidegate_sdk import DeliveryError, Producer, StoredRecord


class Interrupted(BaseException):
    """What a signal's handler raises."""


@contextmanager
def interrupted_at(
    moment: int, *, is_spared: Callable[[Any], bool] = lambda _frame: False
) -> Iterator[None]:
    """Raise at the so many-th moment at which Python calls handlers of signals.

    It does so where a function begins, and behind each call.
    """
    moments = count()

    def look(frame: Any, event: str, _argument: Any) -> None:
        if event not in {"call", "c_return"} or is_spared(frame):
            return
        if next(moments) == moment:
            sys.setprofile(None)
            raise Interrupted

    # What it calls, of producers of before, swallows what is raised there.
    gc.disable()
    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)
        gc.enable()


class Interruptions:
    """Producers one after the other, each of which is interrupted one moment later."""

    def __init__(self, call: Callable[[Producer], object], **options: Any) -> None:
        self._call, self._options = call, options

    def run(self) -> int:
        """Until nothing is interrupted any more; how often it was."""
        for moment in count():
            client, server = ScriptedClient(), Server()
            client.lay_down("list_shards", ONE)
            client.lay_down("put_records", server)
            producer = Producer(client, "clicks", linger_s=0, **self._options)
            futures = [producer.put(b"first", "k")]
            try:
                with interrupted_at(moment):
                    self._call(producer)
            except Interrupted:
                is_over = False
            else:
                is_over = True
            self._check(producer, server, futures)
            if is_over:
                return moment
        raise AssertionError("it has an end")

    def _check(
        self, producer: Producer, server: Server, futures: list[Future[StoredRecord]]
    ) -> None:
        """Others go on, what was taken in is stored, and the producer can be closed."""
        if not producer._closing:
            beside(lambda: futures.append(producer.put(b"last", "k")))
            assert len(futures) == 2
        beside(producer.close)
        producer.close()
        assert [future.result(0).shard_id for future in futures] == ["shard-0"] * len(futures)
        wanted = [b"first", b"last"][: len(futures)]
        assert [data for data in server.stored if data != b"interrupted"] == wanted
        assert server.stored.count(b"interrupted") <= 1
        assert not any(thread.is_alive() for thread in producer._threads)


def put_and_look(producer: Producer) -> None:
    """It is not there yet, mostly."""
    with suppress(TimeoutError):
        producer.put(b"interrupted", "k").result(0)


@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.put(b"interrupted", "k"),
        lambda producer: producer.put(b"interrupted", "k").result(FACT_S_MAX),
        put_and_look,
        lambda producer: producer.flush(FACT_S_MAX),
        lambda producer: producer.close(FACT_S_MAX),
    ],
    ids=["put", "result", "look", "flush", "close"],
)
def test_who_is_interrupted_holds_up_nobody(call: Callable[[Producer], object]) -> None:
    assert Interruptions(call).run() > 10


def test_who_is_interrupted_while_there_is_no_room_holds_up_nobody() -> None:
    # The first one, and then the second one with its key.
    full = Interruptions(lambda producer: producer.put(b"interrupted", "k"), buffer_bytes_max=12)
    assert full.run() > 10


def test_what_an_interrupted_close_gives_up_is_told() -> None:
    for moment in count():
        client = ScriptedClient()
        client.lay_down("list_shards", ONE)
        client.lay_down("put_records", cut_off())
        producer = Producer(client, "clicks", linger_s=0)
        given_up, called_back = producer.put(b"x", "k"), SimpleQueue[object]()
        given_up.add_done_callback(called_back.put)
        try:
            with interrupted_at(moment):
                producer.close(0)
        except Interrupted:
            is_over = False
        else:
            is_over = True
        beside(partial(producer.close, 0))
        assert isinstance(given_up.exception(FACT_S_MAX), DeliveryError)
        assert called_back.get(timeout=FACT_S_MAX) is given_up
        for thread in producer._threads:
            thread.join(FACT_S_MAX)
            assert not thread.is_alive()
        if is_over:
            assert moment > 10
            return
