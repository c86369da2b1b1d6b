"""What programs do in callbacks of a producer's futures: it holds up, and ends, no thread of it."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from sdk.tests.scripted import FACT_S_MAX, ScriptedClient, beside
from sdk.tests.test_producer import ONE, Make, Server, make
from sdk.tests.test_producer_threads import hanging
from tidegate_sdk import BufferFullError, DeliveryError, Producer

__all__ = ["make"]

Start = Callable[..., Producer]


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[Producer] = []

    def producer(**options: Any) -> Producer:
        client = ScriptedClient()
        client.lay_down("list_shards", ONE)
        client.lay_down("put_records", Server())
        made.append(Producer(client, "clicks", **options))
        return made[-1]

    yield producer
    for each in made:
        beside(each.close)


class Blocked:
    """A callback that does not return before it may."""

    def __init__(self) -> None:
        self.is_running, self.may_return = threading.Event(), threading.Event()

    def __call__(self, _future: object) -> None:
        self.is_running.set()
        self.may_return.wait(10 * FACT_S_MAX)


@pytest.fixture
def blocked() -> Iterator[Blocked]:
    callback = Blocked()
    yield callback
    callback.may_return.set()


def test_a_put_in_a_callback_does_not_wait_for_the_room_that_callbacks_make(make: Make) -> None:
    site = make(buffer_bytes_max=10)
    site.client.lay_down("put_records", site.server)
    site.producer.put(b"x" * 8, "k").add_done_callback(
        lambda _: site.producer.put(b"y" * 8, "k", timeout_s=0)
    )
    site.at(1)
    site.at(2)
    assert site.server.stored == [b"x" * 8, b"y" * 8]
    assert site.producer._held_bytes() == 0


def test_a_callback_that_blocks_holds_up_no_other_record(start: Start, blocked: Blocked) -> None:
    producer = start(linger_s=0)
    producer.put(b"a", "k").add_done_callback(blocked)
    assert blocked.is_running.wait(FACT_S_MAX)
    assert producer.put(b"b", "k").result(FACT_S_MAX)
    producer.put(b"c", "k")
    assert producer.flush(FACT_S_MAX)


def test_what_waits_for_callbacks_has_its_room_until_they_are_over(
    start: Start, blocked: Blocked
) -> None:
    producer = start(linger_s=0, buffer_bytes_max=10)
    producer.put(b"a" * 9, "k").add_done_callback(blocked)
    assert blocked.is_running.wait(FACT_S_MAX)
    with pytest.raises(BufferFullError):
        producer.put(b"b" * 9, "k", timeout_s=0)
    blocked.may_return.set()
    assert producer.put(b"b" * 9, "k", timeout_s=FACT_S_MAX).result(FACT_S_MAX)


def test_a_flush_in_a_callback_waits_for_what_is_there(start: Start) -> None:
    producer = start()
    told: Future[bool] = Future()
    producer.put(b"a", "k").add_done_callback(lambda _: told.set_result(producer.flush(FACT_S_MAX)))
    producer.put(b"b", "k")
    assert told.result(2 * FACT_S_MAX)


def test_a_callback_may_close_its_producer(start: Start) -> None:
    producer = start()
    closed = threading.Event()

    def close(_future: object) -> None:
        producer.close()
        closed.set()

    first = producer.put(b"a", "k")
    first.add_done_callback(close)
    second = producer.put(b"b", "k")
    assert closed.wait(FACT_S_MAX)
    assert first.result(0)
    assert second.result(0)


def test_a_callback_that_ends_its_thread_is_logged(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    producer = start(linger_s=0.2)
    called: Future[None] = Future()
    first = producer.put(b"a", "k")
    first.add_done_callback(lambda _: sys.exit(3))
    first.add_done_callback(lambda _: called.set_result(None))
    second = producer.put(b"b", "k")
    assert second.result(FACT_S_MAX)
    called.result(FACT_S_MAX)
    assert producer.put(b"c", "k").result(FACT_S_MAX)
    assert caplog.messages == ["a callback of a future of a record for clicks failed"]


def _raise(error: BaseException) -> Callable[[object], None]:
    def callback(_future: object) -> None:
        raise error

    return callback


@pytest.mark.parametrize("error", [SystemExit(3), ValueError("no")])
def test_a_callback_of_a_future_that_is_told_runs_at_once_and_does_not_end_who_adds_it(
    start: Start, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    producer = start(linger_s=0)
    future = producer.put(b"a", "k")
    assert future.result(FACT_S_MAX)
    called: list[int] = []
    future.add_done_callback(lambda _: called.append(threading.get_ident()))
    future.add_done_callback(_raise(error))
    producer.close()
    future.add_done_callback(lambda _: called.append(threading.get_ident()))
    assert called == [threading.get_ident()] * 2
    assert caplog.messages == ["a callback of a future of a record for clicks failed"]


def test_ctrl_c_in_a_callback_is_for_who_adds_it(start: Start) -> None:
    future = start(linger_s=0).put(b"a", "k")
    assert future.result(FACT_S_MAX)
    with pytest.raises(KeyboardInterrupt):
        future.add_done_callback(_raise(KeyboardInterrupt()))


def test_a_callback_that_blocks_does_not_hold_up_close(blocked: Blocked) -> None:
    client = ScriptedClient()
    client.lay_down("list_shards", ONE)
    with hanging(client, "put_records") as hangs:
        producer = Producer(client, "clicks", linger_s=0)
        producer.put(b"a", "k")
        assert hangs.wait(FACT_S_MAX)
        unsent = producer.put(b"b", "k")
        unsent.add_done_callback(blocked)
        beside(lambda: producer.close(0.1))
        assert isinstance(unsent.exception(0), DeliveryError)
        assert blocked.is_running.wait(FACT_S_MAX)
