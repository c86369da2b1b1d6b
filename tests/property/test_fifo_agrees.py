"""The log engine does what a list of messages for each group does, whatever is asked of it in turn.

Front ends come and go, so nothing may rest on what one of them remembers.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.core.message import Delivery, Outgoing, SendCall, Sent
from data_plane.log.bounds import ATTEMPT_US, FOREIGN_LEASE_GUARD_MS, WINDOW_US
from tests.unit.data_plane.log.conftest import GROUP_SCOPE, HIGH_THROUGHPUT, QUEUE, Bench

BORDER_US = 5_000
"""Stamps grow by a microsecond with each slot: so close to the window's end anything is right."""

GROUPS, IDS = "abcd", "xyz"

groups = st.sampled_from(GROUPS)
pairs = st.tuples(groups, st.sampled_from(IDS))
timeouts_s = st.sampled_from([0, 5, 40, 180])
steps = st.one_of(
    st.tuples(st.just("send"), st.lists(pairs, min_size=1, max_size=4)),
    st.tuples(st.just("send fresh"), st.lists(groups, min_size=1, max_size=10)),
    st.tuples(st.just("receive"), st.integers(1, 10), timeouts_s),
    st.tuples(st.just("attempt"), st.sampled_from("pq"), st.integers(1, 4), timeouts_s),
    st.tuples(st.just("delete"), st.lists(st.integers(0, 20), min_size=1, max_size=4)),
    st.tuples(st.just("change"), st.integers(0, 20), timeouts_s),
    st.tuples(st.just("wait"), st.sampled_from([1.37, 6.73, 41.11, 149.57, 301.7])),
    st.tuples(st.just("restart")),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("purge")),
)
kinds = st.sampled_from(
    [
        QUEUE,
        replace(QUEUE, delay_s=20),
        replace(QUEUE, retention_s=350),
        replace(QUEUE, attributes=GROUP_SCOPE),
        replace(QUEUE, attributes=GROUP_SCOPE, generations=HIGH_THROUGHPUT),
    ]
)


@dataclass
class Message:
    """What the list knows of a message: `handle` is that of the latest receive.

    `over` says that it was purged or has expired, not deleted.
    """

    body: str
    sent_us: int
    sent: Sent
    visible_ms: int = 0
    holder: int = 0
    receives: int = 0
    handle: str = ""
    done: bool = False
    over: bool = False


@dataclass
class Truth:
    """A FIFO queue as lists, and the engine beside it."""

    bench: Bench
    lists: dict[str, list[Message]] = field(default_factory=dict)
    originals: dict[tuple[str, str], tuple[Sent, int]] = field(default_factory=dict)
    received: list[tuple[Message, Delivery]] = field(default_factory=list)
    attempts: dict[str, tuple[int, list[tuple[Message, Delivery]]]] = field(default_factory=dict)
    front_end: int = 1
    bodies: int = 0

    def now_us(self) -> int:
        return self.bench.clock.now_us()

    # What is done to both

    async def send(self, wanted: list[tuple[str, str]]) -> None:
        scoped = self.bench.queue.attributes == GROUP_SCOPE
        messages = []
        for group, dedup in wanted:
            self.bodies += 1
            body = f"{group}{self.bodies}"
            messages.append(Outgoing(body=body, size=9, group=group, deduplication_id=dedup))
        answers = await self.bench.log.send(self.bench.queue, SendCall("1", messages))
        for message, answer in zip(messages, answers, strict=True):
            key = (message.group if scoped else "", message.deduplication_id)
            first = self.originals.get(key)
            age_us = self.now_us() - first[1] if first else WINDOW_US * 2
            if first is not None and abs(age_us - WINDOW_US) > BORDER_US:
                assert (answer == first[0]) == (age_us < WINDOW_US)
            if first is None or answer != first[0]:
                self._stored(message, answer)
                self.originals[key] = (answer, self.now_us())

    def _stored(self, message: Outgoing, answer: Sent) -> None:
        waiting = self.lists.setdefault(message.group, [])
        assert not waiting or waiting[-1].sent.sequence < answer.sequence
        waiting.append(Message(message.body, self.now_us(), answer))

    async def attempt(self, name: str, count: int, visibility_s: int) -> None:
        begun_us, taken = self.attempts.get(name, (0, []))
        held = [one for one in taken if not one[0].done and self._holds(*one)]
        if not held or self.now_us() - begun_us >= ATTEMPT_US:
            before = len(self.received)
            await self.receive(count, visibility_s, name)
            if self.received[before:]:
                self.attempts[name] = (self.now_us(), self.received[before:])
            return
        deliveries = await self.bench.log.receive(
            self.bench.queue, count=count, visibility_s=visibility_s, until_us=0, attempt=name
        )
        assert [(one.message.body, one.receipt_handle) for one in deliveries] == [
            (message.body, first.receipt_handle) for message, first in held
        ]
        for message, _ in held:
            message.receives += 1
            message.visible_ms = self._until_ms(visibility_s)

    async def receive(self, count: int, visibility_s: int, attempt: str = "") -> None:
        due = {group: self._due(waiting) for group, waiting in self.lists.items()}
        deliveries = await self.bench.log.receive(
            self.bench.queue, count=count, visibility_s=visibility_s, until_us=0, attempt=attempt
        )
        assert len(deliveries) == min(count, sum(map(len, due.values())))
        for group in dict.fromkeys(delivery.message.group for delivery in deliveries):
            mine = [one for one in deliveries if one.message.group == group]
            expected = due[group][: len(mine)]
            assert [one.message.body for one in mine] == [message.body for message in expected]
            for message, delivery in zip(expected, mine, strict=True):
                self._delivered(message, delivery, visibility_s)

    def _due(self, waiting: list[Message]) -> list[Message]:
        """The messages of a group that may be delivered now."""
        due = []
        for message in waiting:
            if message.done:
                continue
            visible_us = message.sent_us + self.bench.queue.delay_s * 1_000_000
            guard_ms = FOREIGN_LEASE_GUARD_MS if message.holder != self.front_end else 0
            if message.visible_ms:
                visible_us = (message.visible_ms + guard_ms) * 1000
            elif message.receives:
                visible_us = 0
            if visible_us > self.now_us():
                break
            due.append(message)
        return due

    def _delivered(self, message: Message, delivery: Delivery, visibility_s: int) -> None:
        message.receives += 1
        assert delivery.receive_count == message.receives
        assert delivery.message.id == message.sent.id
        assert delivery.message.sequence == message.sent.sequence
        message.holder, message.handle = self.front_end, delivery.receipt_handle
        message.visible_ms = self._until_ms(visibility_s)
        self.received.append((message, delivery))

    def _until_ms(self, visibility_s: int) -> int:
        return self.now_us() // 1000 + visibility_s * 1000 if visibility_s else 0

    async def delete(self, places: list[int]) -> None:
        chosen = dict(self._chosen(place) for place in places if self.received)
        for message, delivery in list(chosen.values()):
            good = message.done or self._holds(message, delivery)
            refused = await self.bench.delete([delivery])
            if not message.over:
                assert bool(refused) is not good
            message.done = message.done or good

    async def change(self, place: int, visibility_s: int) -> None:
        if not self.received:
            return
        _, (message, delivery) = self._chosen(place)
        good = not message.done and self._holds(message, delivery)
        change = [(self.bench.handle(delivery), visibility_s)]
        (refused,) = await self.bench.log.change_visibility(self.bench.queue, change)
        if not message.over:
            assert (refused is None) is good
        if good:
            message.visible_ms = self._until_ms(visibility_s)

    def _chosen(self, place: int) -> tuple[str, tuple[Message, Delivery]]:
        """One of the latest receives, by its handle."""
        found = self.received[-1 - place % len(self.received)]
        return found[1].receipt_handle, found

    def _holds(self, message: Message, delivery: Delivery) -> bool:
        held = message.handle == delivery.receipt_handle
        return held and message.visible_ms > self.now_us() // 1000

    async def purge(self) -> None:
        stamp_us = await self.bench.log.purge(self.bench.queue)
        self.bench.queue = replace(self.bench.queue, purged_us=stamp_us)
        self.originals.clear()
        self._end_all_until(self.now_us())

    def _end_all_until(self, sent_us: int) -> None:
        for waiting in self.lists.values():
            for message in waiting:
                if message.sent_us <= sent_us and not message.done:
                    message.done = message.over = True

    async def step(self, step: tuple[Any, ...]) -> None:
        self._end_all_until(self.now_us() - self.bench.queue.retention_s * 1_000_000)
        match step:
            case ("send", wanted):
                await self.send(wanted)
            case ("send fresh", wanted):
                await self.send([(g, f"{self.bodies}-{n}") for n, g in enumerate(wanted)])
            case ("receive", count, visibility_s):
                await self.receive(count, visibility_s)
            case ("attempt", name, count, visibility_s):
                await self.attempt(name, count, visibility_s)
            case ("delete", places):
                await self.delete(places)
            case ("change", place, visibility_s):
                await self.change(place, visibility_s)
            case ("wait", seconds):
                self.bench.clock.advance(seconds)
            case ("restart",):
                self.bench.log = self.bench.front_end()
                self.front_end += 1
            case ("sweep",):
                await self.bench.log.sweep()
            case ("purge",):
                await self.purge()


@settings(max_examples=80, deadline=None)
@given(kinds, st.lists(steps, min_size=10, max_size=60))
def test_the_log_and_lists_agree(kind: Any, story: list[tuple[Any, ...]]) -> None:
    truth = Truth(Bench(queue=kind))

    async def tell() -> None:
        for step in story:
            await truth.step(step)
        # In the end all that is left comes, each group in its order.
        await truth.step(("wait", 200.33))
        for _ in range(200):
            if not any(truth._due(waiting) for waiting in truth.lists.values()):
                break
            await truth.step(("receive", 10, 60))
            await truth.step(("delete", list(range(10))))
        assert all(message.done for waiting in truth.lists.values() for message in waiting)

    truth.bench.run(tell())
