"""The clock of producers and consumers."""

import time

import pytest

from sdk.tests.scripted import ScriptedClient, no_thread
from tidegate_sdk import QueueConsumer
from tidegate_sdk.clock import SYSTEM_CLOCK

SLEEPING = getattr(time, "CLOCK_BOOTTIME", None)
"""Which clocks of Linux run on while a machine sleeps."""


@pytest.mark.skipif(SLEEPING is None, reason="no clock of this system runs on meanwhile")
def test_what_was_received_before_the_machine_slept_is_not_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, handled, now_s = ScriptedClient(), list[str](), time.clock_gettime
    received = {"MessageId": "a", "Body": "a", "ReceiptHandle": "a"}
    client.lay_down("receive_message", {"Messages": [received]})
    consumer = QueueConsumer(
        client,
        "http://queues.example/0/orders",
        lambda message: handled.append(message.body),
        visibility_s=30,
        clock=SYSTEM_CLOCK,
        spawn=no_thread,
    )
    assert consumer.receive_next()
    with monkeypatch.context() as asleep:
        asleep.setattr(
            time, "clock_gettime", lambda clock: now_s(clock) + 3_600 * (clock == SLEEPING)
        )
        assert not consumer.handle_next()
    assert handled == []
