"""Both engines on a service's own time, while the machine's clock is set to and fro."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from data_plane.bag.engine import Bag
from data_plane.core.cell_clock import BELIEVED_AFTER_US
from data_plane.core.eras import REMOVED_AFTER_US
from data_plane.core.message import Delivery, Outgoing, SendCall, Sent
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import decode
from data_plane.log import partition
from data_plane.log.engine import Log
from data_plane.memory.cell import MemoryCell
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.data_plane.bag.conftest import QUEUE as STANDARD
from tests.unit.data_plane.log.conftest import QUEUE as FIFO
from tests.unit.machine import DAY_US, HOUR_US, SECOND_US, Machine
from tests.unit.repeatable import SeededEntropy

T = TypeVar("T")

AHEAD = pytest.mark.parametrize("ahead_us", [HOUR_US, DAY_US])
BOTH = pytest.mark.parametrize("queue", [STANDARD, FIFO], ids=["standard", "fifo"])


class Service:
    """Front ends of one process after the other on one cell; the machine's clock can be set."""

    def __init__(self, queue: Queue, wrong_us: int = 0) -> None:
        self.machine = Machine(wrong_us=wrong_us)
        self.queue = queue
        self.expires_us: dict[str, int] = {}
        self.entropy = SeededEntropy()
        self.clock = self.machine.start()
        self.cell = MemoryCell(self.clock)
        self.open()

    def open(self) -> None:
        ports = (self.clock, self.entropy, EventLoopWaits(self.clock))
        kind = Log if self.queue.fifo else Bag
        self.engine: Any = kind({"a": self.cell}, *ports)

    def start_again(self, wrong_us: int) -> None:
        """The clock is set while nothing runs."""
        self.run(self.engine.sweep())
        before = self.clock
        before.now_us()
        self.machine.wrong_us = wrong_us
        self.machine.passes(SECOND_US)
        self.clock = self.machine.start_again(before)
        self.cell._clock = self.clock
        self.open()

    def set_clock(self, wrong_us: int) -> None:
        self.machine.wrong_us = wrong_us
        self.passes(SECOND_US)

    def passes(self, us: int) -> None:
        """Time passes, with upkeep every now and then, as a server has it."""
        for _ in range(5):
            self.machine.passes(us // 5, self.clock)
            self.run(self.engine.sweep())

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(call)

    def send(self, *bodies: str, delay_s: int | None = None) -> list[Sent]:
        messages = [
            Outgoing(
                body=body,
                size=len(body),
                delay_s=delay_s,
                group="g" if self.queue.fifo else "",
                deduplication_id=body if self.queue.fifo else "",
            )
            for body in bodies
        ]
        retention_us = self.queue.retention_s * SECOND_US
        self.expires_us |= dict.fromkeys(bodies, self.clock.now_us() + retention_us)
        sent: list[Sent] = self.run(
            self.engine.send(self.queue, SendCall(self.queue.account, messages))
        )
        return sent

    def receive(self, visibility_s: int = 30) -> list[Delivery]:
        found: list[Delivery] = self.run(
            self.engine.receive(self.queue, count=10, visibility_s=visibility_s, until_us=0)
        )
        return found

    def delete(self, deliveries: list[Delivery]) -> None:
        handles = [decode(one.receipt_handle, self.queue) for one in deliveries]
        assert self.run(self.engine.delete(self.queue, handles)) == [None] * len(handles)

    def drain(self) -> list[str]:
        found: list[str] = []
        while deliveries := self.receive():
            found += bodies(deliveries)
            self.delete(deliveries)
        return found


def bodies(deliveries: list[Delivery]) -> list[str]:
    return [one.message.body for one in deliveries]


def correct_while_serving(service: Service) -> None:
    service.set_clock(0)


def correct_between(service: Service) -> None:
    service.start_again(0)


CORRECTED = pytest.mark.parametrize(
    "correct", [correct_while_serving, correct_between], ids=["serving", "stopped"]
)


@AHEAD
@BOTH
@CORRECTED
def test_what_was_sent_ahead_is_delivered_at_once_and_in_order(
    queue: Queue, ahead_us: int, correct: Any
) -> None:
    service = Service(queue, ahead_us)
    service.send("a", "b")
    correct(service)
    service.send("c")
    assert service.drain() == ["a", "b", "c"]


@AHEAD
@BOTH
@CORRECTED
def test_leases_end_by_real_time(queue: Queue, ahead_us: int, correct: Any) -> None:
    service = Service(queue, ahead_us)
    service.send("a")
    assert bodies(service.receive(visibility_s=30)) == ["a"]
    correct(service)
    assert service.receive() == []
    service.passes(31 * SECOND_US)
    assert bodies(service.receive()) == ["a"]


@AHEAD
@BOTH
@CORRECTED
def test_a_visibility_that_was_changed_ahead_ends_by_real_time(
    queue: Queue, ahead_us: int, correct: Any
) -> None:
    service = Service(queue)
    service.send("a")
    (delivery,) = service.receive(visibility_s=30)
    service.set_clock(ahead_us)
    handle = decode(delivery.receipt_handle, queue)
    assert service.run(service.engine.change_visibility(queue, [(handle, 60)])) == [None]
    correct(service)
    service.passes(50 * SECOND_US)
    assert service.receive() == []
    service.passes(15 * SECOND_US)
    assert bodies(service.receive()) == ["a"]


@AHEAD
@BOTH
@CORRECTED
def test_delays_end_by_real_time(queue: Queue, ahead_us: int, correct: Any) -> None:
    service = Service(replace(queue, delay_s=5), ahead_us)
    service.send("ahead")
    correct(service)
    service.send("right")
    assert service.receive() == []
    service.passes(6 * SECOND_US)
    assert service.drain() == ["ahead", "right"]


@AHEAD
@BOTH
@CORRECTED
def test_retention_ends_by_real_time(queue: Queue, ahead_us: int, correct: Any) -> None:
    service = Service(replace(queue, retention_s=60), ahead_us)
    service.send("a")
    correct(service)
    service.passes(50 * SECOND_US)
    service.send("b")
    assert bodies(service.receive(visibility_s=0)) == ["a", "b"]
    service.passes(20 * SECOND_US)
    assert bodies(service.receive(visibility_s=0)) == ["b"]
    counts = service.run(service.engine.counts(service.queue))
    assert (counts.visible, counts.in_flight, counts.delayed) in {(1, 0, 0), (2, 0, 0)}
    service.passes(120 * SECOND_US)
    assert service.run(service.engine.counts(service.queue)).visible == 0


@AHEAD
@BOTH
@CORRECTED
@pytest.mark.parametrize("opened", ["read meanwhile", "not read"])
def test_what_only_a_wrong_clock_took_for_expired_comes_back(
    queue: Queue, ahead_us: int, correct: Any, opened: str
) -> None:
    service = Service(replace(queue, retention_s=600))
    service.send("before", "as well")
    service.start_again(ahead_us)
    if opened == "read meanwhile":
        # By this clock they expired while the server was stopped.
        service.send("ahead")
        assert service.drain() == ["ahead"]
        service.send("ahead, too")
        service.passes(30 * SECOND_US)
    correct(service)
    assert service.drain()[:2] == ["before", "as well"]


@AHEAD
@BOTH
def test_a_clock_that_is_set_ahead_while_serving_expires_nothing_for_a_while(
    queue: Queue, ahead_us: int
) -> None:
    service = Service(replace(queue, retention_s=3_000))
    service.send("a")
    service.set_clock(ahead_us)
    assert bodies(service.receive(visibility_s=0)) == ["a"]
    service.passes(BELIEVED_AFTER_US)
    assert service.receive() == []
    service.set_clock(0)
    assert service.drain() == ["a"]


@AHEAD
@CORRECTED
def test_duplicates_are_known_by_real_time(ahead_us: int, correct: Any) -> None:
    service = Service(FIFO, ahead_us)
    sent = service.send("a")
    correct(service)
    service.passes(280 * SECOND_US)
    assert service.send("a") == sent
    service.passes(40 * SECOND_US)
    assert service.send("a") != sent
    assert service.drain() == ["a", "a"]


@AHEAD
@CORRECTED
def test_duplicates_of_before_a_clock_was_ahead_are_known_again(
    ahead_us: int, correct: Any
) -> None:
    service = Service(FIFO)
    sent = service.send("a")
    service.start_again(ahead_us)
    service.send("b")
    correct(service)
    assert service.send("a") == sent
    service.passes(300 * SECOND_US)
    assert service.send("a") != sent


@AHEAD
@CORRECTED
def test_pages_that_were_written_ahead_lead_past_nothing(
    ahead_us: int, correct: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "PAGE_SLOTS", 2)
    service = Service(FIFO)
    known = {body: service.send(body) for body in "abcdefg"}
    service.start_again(ahead_us)
    known |= {body: service.send(body) for body in "hijklmn"}
    correct(service)
    known |= {body: service.send(body) for body in "op"}
    service.start_again(0)
    assert {body: service.send(body) for body in known} == known


@pytest.mark.parametrize("step_us", [HOUR_US, DAY_US, -HOUR_US, -DAY_US])
def test_steps_while_serving_leave_the_window_alone(step_us: int) -> None:
    service = Service(FIFO)
    sent = service.send("a")
    service.set_clock(step_us)
    assert service.send("a") == sent
    service.passes(310 * SECOND_US)
    again = service.send("a")
    assert again != sent
    service.set_clock(0)
    assert service.send("a") == again


@AHEAD
@BOTH
@CORRECTED
def test_purges_go_by_the_order_of_things(queue: Queue, ahead_us: int, correct: Any) -> None:
    service = Service(queue, ahead_us)
    service.send("a")
    purged_us = service.run(service.engine.purge(service.queue))
    service.queue = replace(service.queue, purged_us=purged_us)
    correct(service)
    service.send("b")
    assert service.drain() == ["b"]
    service.send("c")
    purged_us = service.run(service.engine.purge(service.queue))
    service.queue = replace(service.queue, purged_us=purged_us)
    service.send("d")
    assert service.drain() == ["d"]


@AHEAD
@BOTH
def test_times_are_shown_as_the_world_has_them(queue: Queue, ahead_us: int) -> None:
    service = Service(queue, ahead_us)
    sent_ms = service.machine.true_us // 1000
    service.send("a")
    correct_while_serving(service)
    received_ms = service.machine.true_us // 1000
    (delivery,) = service.receive(visibility_s=0)
    assert delivery.message.sent_ms == sent_ms
    assert delivery.first_received_ms == received_ms
    page = service.run(service.engine.browse(service.queue, count=10))
    (browsed,) = page.messages
    assert (browsed.message.sent_ms, browsed.first_received_ms) == (sent_ms, received_ms)
    counts = service.run(service.engine.counts(service.queue))
    assert abs(counts.oldest_sent_ms - sent_ms) <= 60_000


def keeps(service: Service, body: str) -> bool:
    """Whether nothing of the message, hidden or not, may be removed, now and an hour later."""
    times_us = [service.clock.removable_us()]
    service.passes(REMOVED_AFTER_US + 10 * SECOND_US)
    times_us.append(service.clock.removable_us())
    return all(time_us < service.expires_us[body] for time_us in times_us)


@AHEAD
@BOTH
def test_what_a_start_ahead_and_one_behind_after_it_hide_is_not_removed(
    queue: Queue, ahead_us: int
) -> None:
    service = Service(replace(queue, retention_s=600))
    service.send("before")
    service.start_again(ahead_us)
    assert service.drain() == []
    service.send("ahead")
    service.start_again(-ahead_us)
    service.send("behind")
    assert service.drain() == ["ahead", "behind"]
    assert keeps(service, "before")


@AHEAD
@BOTH
def test_what_an_end_behind_and_a_start_ahead_hide_comes_when_the_clock_is_right(
    queue: Queue, ahead_us: int
) -> None:
    service = Service(replace(queue, retention_s=600))
    service.send("before")
    service.set_clock(-ahead_us)
    service.send("behind")
    service.start_again(ahead_us)
    assert service.drain() == []
    assert service.clock.removable_us() < service.expires_us["before"]
    service.send("ahead")
    service.start_again(0)
    assert service.drain() == ["before", "behind", "ahead"]
