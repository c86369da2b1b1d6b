"""How long messages of quiet tenants wait beside noisy ones: the shipped engine in virtual time.

Consumers take one message at a time and work on it; senders and consumers are spread over several
front ends, which know of each other only what the cell tells. Who is noisy is measured as SQS
measures it: a tenant that holds 30 messages and a tenth of those in flight, or that took a tenth
of the consumers' time in the last half minute. What happens is the same in every run of a case.
"""

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Final

from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery, Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import ReceiptHandle, decode
from data_plane.memory.cell import MemoryCell
from data_plane.runtime.event_loop import EventLoopWaits
from tests.unit.repeatable import HandClock, SeededEntropy

QUEUE: Final = Queue(
    account="111122223333",
    region="us-east-1",
    name="orders",
    uid="00112233445566aa",
    cell="a",
    version=1,
    created_s=0,
    modified_s=0,
    fifo=False,
    visibility_timeout_s=600,
    delay_s=0,
    message_bytes_max=1 << 20,
    retention_s=345_600,
    receive_wait_s=0,
    purged_us=0,
    attributes={},
    secret=bytes(32),
)
LOUD_QUEUE: Final = replace(QUEUE, uid="00112233445566bb")

NOISY_HELD: Final = 30
NOISY_SHARE: Final = 0.1
RECENT_S: Final = 30.0
"""SQS publishes the thresholds, and not what is recent."""

POLL_S: Final = 1.0
"""An idle consumer looks again after this time, or when something is sent."""

BATCH: Final = 10
BURST_S: Final = 5.0
_VISIBILITY_S: Final = 600


@dataclass(frozen=True, slots=True)
class Tenant:
    """Messages that come at this rate, and so many at once; each keeps a consumer busy."""

    name: str
    rate_hz: float
    work_s: float
    burst: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """Tenants of a queue, and what they share. `loud` are those that make the noise."""

    name: str
    tenants: tuple[Tenant, ...]
    loud: tuple[Tenant, ...]
    consumers: int
    seconds: float
    front_ends: int = 2


def _tenants(count: int, rate_hz: float, work_s: float) -> tuple[Tenant, ...]:
    return tuple(Tenant(f"tenant {number}", rate_hz, work_s) for number in range(count))


CASES: Final = (
    Case(
        "a burst of 20,000",
        _tenants(20, 2.0, 0.1),
        (Tenant("loud", 0.0, 0.1, burst=20_000),),
        consumers=20,
        seconds=30,
    ),
    Case(
        "ten times the capacity",
        _tenants(20, 2.0, 0.1),
        (Tenant("loud", 2_000.0, 0.1),),
        consumers=20,
        seconds=20,
    ),
    Case(
        "few messages that take long",
        _tenants(20, 2.0, 0.1),
        (Tenant("loud", 4.0, 4.0),),
        consumers=20,
        seconds=90,
    ),
    Case(
        "a burst beside four equals",
        _tenants(4, 20.0, 0.1),
        (Tenant("loud", 20.0, 0.1, burst=20_000),),
        consumers=20,
        seconds=30,
    ),
)
MODES: Final = ("alone", "groups", "own queue", "no groups")
"""Without the loud tenants; with a group for each tenant; with a queue for the loud ones, which
consumers look at when the other is empty: the best that can be had; with none of it."""


@dataclass(slots=True)
class Dwell:
    """How long messages waited from send to receive, in seconds, by who they belong to.

    `others_s` are the waits of all but the loud tenants, `quiet_s` of those that were not noisy by
    SQS's measure when the message was received; `noisy` are the tenants that ever were. What nobody
    has received in the end counts as if it were received then.
    """

    quiet_s: list[float] = field(default_factory=list)
    others_s: list[float] = field(default_factory=list)
    noisy: set[str] = field(default_factory=set)
    received: Counter[str] = field(default_factory=Counter)
    busy_s: float = 0.0


class Measure:
    """Who is noisy now, as SQS has it."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()
        self._spent: Counter[str] = Counter()
        self._past: deque[tuple[float, str, float]] = deque()

    def worked(self, tenant: str, now_s: float, work_s: float) -> None:
        """A consumer was busy with a message of this tenant."""
        self._past.append((now_s, tenant, work_s))
        self._spent[tenant] += round(work_s * 1_000)
        while self._past[0][0] < now_s - RECENT_S:
            _, past, past_s = self._past.popleft()
            self._spent[past] -= round(past_s * 1_000)

    def is_noisy(self, tenant: str) -> bool:
        """Whether it is beyond one of the thresholds."""
        held, total = self.held[tenant], self.held.total()
        if held >= NOISY_HELD and held > NOISY_SHARE * total:
            return True
        return self._spent[tenant] > NOISY_SHARE * self._spent.total()


class Hall:
    """One case in virtual time: a heap of what happens next."""

    def __init__(self, case: Case, mode: str, seed: int = 0) -> None:
        self.case = case
        self.clock = HandClock()
        self.cell = MemoryCell(self.clock)
        self.dwell = Dwell()
        self._began_us = self.clock.time_us
        self._mode = mode
        self._tenants = {
            tenant.name: tenant
            for tenant in (*case.tenants, *(case.loud if mode != "alone" else ()))
        }
        self._random = Random(f"{case.name}/{seed}")
        self._measure = Measure()
        self._waiting: dict[str, deque[float]] = {name: deque() for name in self._tenants}
        entropy = SeededEntropy(seed)
        self._bags = [
            Bag({"a": self.cell}, self.clock, entropy, EventLoopWaits(self.clock))
            for _ in range(case.front_ends)
        ]
        self._idle: deque[int] = deque()
        self._next: list[tuple[float, int, Callable[[], object]]] = []
        self._events = 0

    def now_s(self) -> float:
        """Seconds since the beginning."""
        return (self.clock.time_us - self._began_us) / 1e6

    def _at(self, time_s: float, event: Callable[[], object]) -> None:
        self._events += 1
        heapq.heappush(self._next, (time_s, self._events, event))

    async def run(self) -> Dwell:
        """Let it happen."""
        for tenant in self._tenants.values():
            self._next_send(tenant)
            if tenant.burst:
                self._at(BURST_S, partial(self._burst, tenant, tenant.burst))
        for number in range(self.case.consumers):
            self._idle.append(number)
            self._at(number * POLL_S / self.case.consumers, partial(self._poll, number))
        while self._next and self._next[0][0] <= self.case.seconds:
            time_s, _, event = heapq.heappop(self._next)
            self.clock.time_us = max(self.clock.time_us, self._began_us + round(time_s * 1e6))
            happening = event()
            if asyncio.iscoroutine(happening):
                await happening
        for name, waiting in self._waiting.items():
            for sent_s in waiting:
                self._note_wait(self._tenants[name], self.case.seconds - sent_s)
        return self.dwell

    def _note_wait(self, tenant: Tenant, waited_s: float) -> None:
        is_noisy = self._measure.is_noisy(tenant.name)
        if is_noisy:
            self.dwell.noisy.add(tenant.name)
        if tenant in self.case.tenants:
            self.dwell.others_s.append(waited_s)
            if not is_noisy:
                self.dwell.quiet_s.append(waited_s)

    def _next_send(self, tenant: Tenant) -> None:
        if tenant.rate_hz:
            time_s = self.now_s() + self._random.expovariate(tenant.rate_hz)
            self._at(time_s, partial(self._send_one, tenant))

    async def _send_one(self, tenant: Tenant) -> None:
        await self._send(tenant, 1)
        self._next_send(tenant)

    async def _burst(self, tenant: Tenant, left: int) -> None:
        await self._send(tenant, BATCH)
        if left > BATCH:
            self._at(self.now_s() + 0.0001, partial(self._burst, tenant, left - BATCH))

    async def _send(self, tenant: Tenant, count: int) -> None:
        bag = self._random.choice(self._bags)
        group = tenant.name if self._mode == "groups" else ""
        message = Outgoing(body=tenant.name, group=group, size=len(tenant.name))
        is_apart = self._mode == "own queue" and tenant in self.case.loud
        queue = LOUD_QUEUE if is_apart else QUEUE
        self._waiting[tenant.name].extend([self.now_s()] * count)
        await bag.send(queue, SendCall(QUEUE.account, [message] * count))
        for _ in range(min(count, len(self._idle))):
            self._at(self.now_s(), partial(self._receive, self._idle.popleft()))

    async def _poll(self, number: int) -> None:
        self._at(self.now_s() + POLL_S, partial(self._poll, number))
        if number in self._idle:
            self._idle.remove(number)
            await self._receive(number)

    async def _receive(self, number: int) -> None:
        bag = self._bags[number % len(self._bags)]
        for queue in (QUEUE, LOUD_QUEUE) if self._mode == "own queue" else (QUEUE,):
            deliveries = await bag.receive(
                queue, count=1, visibility_s=_VISIBILITY_S, until_us=self.clock.time_us
            )
            if deliveries:
                self._work(number, queue, deliveries[0])
                return
        self._idle.append(number)

    def _work(self, number: int, queue: Queue, delivery: Delivery) -> None:
        tenant = self._tenants[delivery.message.body]
        waited_s = (self.clock.time_us // 1000 - delivery.message.sent_ms) / 1e3
        self._measure.held[tenant.name] += 1
        self.dwell.received[tenant.name] += 1
        self._waiting[tenant.name].popleft()
        self._note_wait(tenant, waited_s)
        work_s = tenant.work_s * self._random.uniform(0.5, 1.5)
        handle = decode(delivery.receipt_handle, queue)
        finish = partial(self._finish, number, queue, tenant, handle, work_s)
        self._at(self.now_s() + work_s, finish)

    async def _finish(
        self, number: int, queue: Queue, tenant: Tenant, handle: ReceiptHandle, work_s: float
    ) -> None:
        await self._bags[number % len(self._bags)].delete(queue, [handle])
        self._measure.held[tenant.name] -= 1
        self._measure.worked(tenant.name, self.now_s(), work_s)
        self.dwell.busy_s += work_s
        await self._receive(number)


def dwell_of(case: Case, mode: str) -> Dwell:
    """Waits in one case, in one of the modes."""
    return asyncio.run(Hall(case, mode).run())
