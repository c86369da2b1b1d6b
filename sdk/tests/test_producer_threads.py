"""A producer's threads, on a client whose calls hang, and on futures that are cancelled."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import pytest

from sdk.tests.scripted import FACT_S_MAX, ScriptedClient, beside, cut_off
from sdk.tests.test_producer import ONE, Server
from tidegate_sdk import DeliveryError, Producer, ProducerClosedError
from tidegate_sdk.clock import SYSTEM_CLOCK


@contextmanager
def hanging(client: ScriptedClient, operation: str) -> Iterator[threading.Event]:
    """Calls of the operation hang while the context lasts; the event says that one does."""
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(_params: Any) -> Any:
        hangs.set()
        goes_on.wait(10 * FACT_S_MAX)
        return cut_off()

    client.lay_down(operation, hang)
    try:
        yield hangs
    finally:
        goes_on.set()


def test_a_list_of_shards_that_hangs_holds_up_no_record() -> None:
    client, server = ScriptedClient(), Server()
    client.lay_down("put_records", server)
    with hanging(client, "list_shards") as hangs:
        producer = Producer(client, "clicks")
        futures = [producer.put(b"x", f"{n}") for n in range(8)]
        assert [future.result(FACT_S_MAX).shard_id for future in futures] == ["shard-0"] * 8
        assert hangs.wait(FACT_S_MAX)
        beside(lambda: producer.close(0.1))


def test_what_waits_for_a_call_that_hangs_fails_in_time() -> None:
    client = ScriptedClient()
    with hanging(client, "list_shards"):
        producer = Producer(client, "clicks", senders=1, delivery_s_max=0.1)
        error = producer.put(b"x", "k").exception(FACT_S_MAX)
        assert isinstance(error, DeliveryError)
        assert not error.may_be_stored
        beside(lambda: producer.close(0.1))


def test_close_leaves_calls_behind_that_hang() -> None:
    client = ScriptedClient()
    client.lay_down("list_shards", ONE)
    with hanging(client, "put_records") as hangs:
        producer = Producer(client, "clicks", linger_s=0)
        sent = producer.put(b"x", "k")
        assert hangs.wait(FACT_S_MAX)
        unsent = producer.put(b"y", "k")
        beside(lambda: producer.close(0.1))
        errors = [future.exception(0) for future in (sent, unsent)]
    assert [isinstance(e, DeliveryError) and e.may_be_stored for e in errors] == [True, False]


def test_close_without_an_end_waits_for_what_takes_long() -> None:
    client = ScriptedClient()
    client.lay_down("list_shards", ONE)
    with hanging(client, "put_records") as hangs:
        producer = Producer(client, "clicks", linger_s=0, put_s_max=float("inf"))
        future = producer.put(b"a", "k")
        assert hangs.wait(FACT_S_MAX)
        client.lay_down("put_records", Server())
        closing = threading.Thread(target=producer.close, args=(None,), daemon=True)
        closing.start()
        for _ in range(1_000 * FACT_S_MAX):
            try:
                producer.put(b"b", "k")
            except ProducerClosedError:
                break
            closing.join(0.001)
    closing.join(FACT_S_MAX)
    assert not closing.is_alive()
    assert future.result(0)


def test_a_time_without_an_end_may_be_waited_for() -> None:
    queue: SimpleQueue[int] = SimpleQueue()
    queue.put(5)
    assert SYSTEM_CLOCK.take(queue, float("inf")) == 5
    condition = threading.Condition()
    with condition:
        notifies = threading.Thread(target=_notify, args=(condition,), daemon=True)
        notifies.start()
        SYSTEM_CLOCK.wait(condition, float("inf"))
    notifies.join(FACT_S_MAX)


def _notify(condition: threading.Condition) -> None:
    with condition:
        condition.notify_all()


@pytest.fixture
def small() -> Iterator[Producer]:
    """It has room for ten bytes, and lets them linger."""
    client = ScriptedClient()
    client.lay_down("list_shards", ONE)
    client.lay_down("put_records", Server())
    with Producer(client, "clicks", linger_s=10 * FACT_S_MAX, buffer_bytes_max=10) as producer:
        yield producer


def test_a_flush_waits_for_nothing_that_is_cancelled(small: Producer) -> None:
    assert small.put(b"x", "k").cancel()
    beside(small.flush)


def test_a_put_gets_the_room_of_what_is_cancelled(small: Producer) -> None:
    assert small.put(b"x" * 9, "k").cancel()
    beside(lambda: small.put(b"y" * 9, "k", timeout_s=10 * FACT_S_MAX))
    assert small.flush(FACT_S_MAX)
