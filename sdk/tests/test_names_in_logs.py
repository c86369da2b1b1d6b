"""Several consumers and producers of a process are told apart by the log and by their threads."""

from typing import Any

import pytest

from sdk.tests.scripted import ScriptedClient, cut_off, refused
from sdk.tests.test_producer import Make, Server, make
from sdk.tests.test_queue_consumer import NOTHING, URL, desk, message
from tidegate_sdk import Producer, QueueConsumer, RejectError
from tidegate_sdk.clock import start_thread

__all__ = ["make"]


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ("receive_message", "Cannot receive from orders, "),
        ("delete_message_batch", "Cannot delete messages of orders, "),
    ],
)
@pytest.mark.parametrize(
    ("error", "what"),
    [
        (cut_off(), "will try again"),
        (refused("AWS.SimpleQueueService.NonExistentQueue"), "which ends the consumer"),
    ],
)
def test_a_failed_call_names_the_queue(
    caplog: pytest.LogCaptureFixture, operation: str, said: str, error: Exception, what: str
) -> None:
    here = desk(linger_s=0)
    here.receive(message("a"))
    here.handle()
    here.client._answers[operation].clear()
    here.client.lay_down(operation, error)
    if operation == "receive_message":
        here.consumer.receive_next()
    else:
        here.consumer.call_next()
    [line] = caplog.messages
    assert line.startswith(said + what)


def test_the_error_that_ends_a_consumer_has_a_note_of_its_queue() -> None:
    here = desk()
    here.client.lay_down("receive_message", refused("AWS.SimpleQueueService.NonExistentQueue"))
    here.consumer.receive_next()
    with pytest.raises(Exception, match="NonExistentQueue") as raised:
        here.consumer.run(signals=())
    assert raised.value.__notes__ == [f"It ended the consumer of {URL}"]


def test_what_is_refused_for_a_message_names_it(caplog: pytest.LogCaptureFixture) -> None:
    here = desk(linger_s=0)
    here.client._answers.clear()
    failed = {"Id": "1", "Code": "ReceiptHandleIsInvalid", "SenderFault": True, "Message": "old"}
    here.client.lay_down("delete_message_batch", {"Failed": [failed]})
    here.client.lay_down("change_message_visibility_batch", {"Failed": [{**failed, "Id": "0"}]})
    here.raises["c"] = RejectError("nonsense")
    here.receive(*[message(name) for name in "abc"])
    here.handle(3)
    here.at(0)
    assert caplog.messages == [
        "Message c of orders is rejected: nonsense",
        "Cannot extend or give back message c of orders: ReceiptHandleIsInvalid: old",
        "Cannot delete message b of orders: ReceiptHandleIsInvalid: old",
    ]


def test_a_stop_that_leaves_messages_names_the_queue(caplog: pytest.LogCaptureFixture) -> None:
    here = desk(stop_s_max=0)
    here.receive(message("a"))
    assert here.consumer._held.next_to_handle(here.clock.now_s())
    here.consumer.stop()
    here.consumer.run(signals=())
    assert caplog.messages == ["Stopped, and left 1 messages of orders as they are"]


def test_shards_that_cannot_be_listed_name_the_stream(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    site = make()
    site.client._answers.clear()
    site.client.lay_down("list_shards", refused("AccessDeniedException"))
    site.client.lay_down("put_records", Server())
    site.producer.put(b"x", "k")
    site.at(1)
    [line] = caplog.messages
    assert line.startswith("Batches for clicks are not cut by shards")


def test_threads_are_named_by_their_queue_or_stream() -> None:
    names: list[str] = []

    def spawn(target: Any, name: str) -> None:
        names.append(name)
        if name.startswith("tidegate-producer"):
            start_thread(target, name)  # They end when it is closed.

    client = ScriptedClient()
    client.lay_down("receive_message", NOTHING)
    consumer = QueueConsumer(client, URL, print, workers=1, spawn=spawn)
    consumer.stop()
    consumer.run(signals=())
    arn = "arn:aws:kinesis:us-east-1:000000000000:stream/clicks"
    Producer(client, arn, senders=1, spawn=spawn).close(0)
    assert {"tidegate-receiver-orders", "tidegate-handler-0-orders"} <= set(names)
    assert {"tidegate-producer-clicks-keeper", "tidegate-producer-clicks-0"} <= set(names)
