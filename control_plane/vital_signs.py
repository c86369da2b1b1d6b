"""What a server says of its store without waiting for it: whether it answers, and what is in it.

Who asks is a balancer or a scraper, which takes no answer in time for a dead server. So a look at
the store goes on by itself; whoever asks waits a moment for it, and else hears what was seen last.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from control_plane.cells import OF_DEFINITIONS, OpenedCell
from control_plane.core.revisits import Revisits
from control_plane.places.watching import PROBE
from data_plane.core.circuit_breaker import CircuitState
from data_plane.core.deadline import deadline
from data_plane.core.message import Counts
from data_plane.core.queue import Queue
from data_plane.http.metrics import QUEUES_MAX, QueueName
from data_plane.http.scrapes import Turns
from data_plane.ports import (
    CellThrottledError,
    CellUnavailableError,
    Clock,
    NoThreadError,
)
from data_plane.runtime.guard import Guard

PATIENCE_S: Final = 0.25
"""So long waits who asks for what a dependency says."""

_PROBE_US_MAX: Final = 2_000_000
_PROBE_PAID_US_MAX: Final = 5_000_000
_COUNT_US_MAX: Final = 8_000_000
_COUNT_PAID_US_MAX: Final = 60_000_000
_NAMES_EVERY_US: Final = 300_000_000
"""Names of queues of a table are listed so often; an embedded cell's each time."""


class Look:
    """A look at something that may take long: one at a time, which goes on when nobody waits."""

    def __init__(self, look: Callable[[], Awaitable[None]], patience_s: float) -> None:
        self._look = look
        self._patience_s = patience_s
        self._under_way: asyncio.Task[None] | None = None

    async def __call__(self) -> bool:
        """Look, if nobody does yet; whether it was done within the patience."""
        if self._under_way is None:
            self._under_way = asyncio.create_task(self._run())
        done, _ = await asyncio.wait({self._under_way}, timeout=self._patience_s)
        for task in done:
            task.result()
        return bool(done)

    async def _run(self) -> None:
        try:
            await self._look()
        finally:
            self._under_way = None


class Pulse:
    """Whether a store answers, as a probe has seen it last.

    A throttled probe was answered; one that got no thread says nothing. It does not answer while
    the circuit breaker of definitions is not closed. Where it `is_paid` it lies elsewhere, and who
    asks waits for a moment only.
    """

    def __init__(self, store: OpenedCell, clock: Clock, *, is_paid: bool) -> None:
        self._store = store
        self._clock = clock
        self._longest_us = _PROBE_PAID_US_MAX if is_paid else _PROBE_US_MAX
        self._answers = True  # or the server would not have started
        patience_s = PATIENCE_S if is_paid else 2 * self._longest_us / 1_000_000
        self._look = Look(self._ask, patience_s)

    async def answers(self) -> bool:
        """Look, and say whether it answers, by this look or by the one before."""
        await self._look()
        guards = self._store.guards
        return self._answers and not any(is_away(one) for one in guards)

    async def _ask(self) -> None:
        try:
            with deadline(self._clock.now_us() + self._longest_us):
                # Not behind messages: those of a busy table wait for connections of their own.
                await self._store.control.get(PROBE)
        except NoThreadError:
            return
        except CellThrottledError:
            self._answers = True
        except CellUnavailableError:
            self._answers = False
        else:
            self._answers = True


def is_away(guard: Guard) -> bool:
    """Whether the guard of the use that probes have is known to fail."""
    return guard.name.endswith(OF_DEFINITIONS) and guard.state is not CircuitState.CLOSED


class UsedQueue(Protocol):
    """What is known of a queue that was used here."""

    used_us: int
    """When it was served last."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Queues of a kind: those `used` since the start, who lists others, finds and counts them.

    A look is at `at_once_max` of them, the next one goes on behind those, `rest_us` later.
    """

    used: Mapping[QueueName, UsedQueue]
    names: Callable[[Turns], Awaitable[list[QueueName]]]
    find: Callable[[str, str, str], Awaitable[Queue | None]]
    count: Callable[[Queue], Awaitable[Counts]]
    at_once_max: int = 10 * QUEUES_MAX
    rest_us: int = 0


class Backlogs:
    """Numbers of messages of the queues that metrics show, as counted last.

    Where `is_paid` each count costs requests. Then a scrape has what is there after a moment, and a
    queue is counted the less often the longer this server has not served it.
    """

    def __init__(self, queues: Counted, clock: Clock, *, is_paid: bool) -> None:
        self._queues = queues
        self._clock = clock
        self._next_us = 0
        self._last: QueueName | None = None
        self._is_paid = is_paid
        self._counted: dict[QueueName, Counts] = {}
        self._revisits: Revisits[QueueName] = Revisits()
        self._listed: list[QueueName] = []
        self._list_us = 0
        longest_us = _COUNT_PAID_US_MAX if is_paid else _COUNT_US_MAX
        self._look = Look(self._count_all, PATIENCE_S if is_paid else 2 * longest_us / 1_000_000)
        self._longest_us = longest_us

    async def counts(self) -> dict[QueueName, Counts]:
        """By queue: of this look, as far as it got, else of earlier ones."""
        now_us, rest_us = self._clock.now_us(), self._queues.rest_us
        if not now_us < self._next_us <= now_us + rest_us:  # or the clock was set back
            await self._look()
        return dict(self._counted)

    async def _count_all(self) -> None:
        turns = Turns()
        try:
            with deadline(self._clock.now_us() + self._longest_us):
                shown = await self._shown(turns)
                for name in self._counted.keys() - set(shown):
                    del self._counted[name]
                looked = 0
                for name in _behind(shown, self._last):
                    if looked >= self._queues.at_once_max:
                        break
                    self._last = name
                    if len(self._counted) >= QUEUES_MAX and name not in self._counted:
                        continue
                    looked += await self._count_one(name, turns)
                    await turns.rest()
        except CellUnavailableError:
            if not self._is_paid:
                self._counted.clear()  # what lies here and does not answer is not there
        self._next_us = self._clock.now_us() + self._queues.rest_us

    async def _shown(self, turns: Turns) -> list[QueueName]:
        """Queues used since the start, then the default account's."""
        now_us = self._clock.now_us()
        if not self._is_paid or not now_us < self._list_us <= now_us + _NAMES_EVERY_US:
            self._listed = await self._queues.names(turns)
            self._list_us = now_us + _NAMES_EVERY_US
        used = [name for name in self._queues.used if name[0]]
        return list(dict.fromkeys([*used, *self._listed]))

    async def _count_one(self, name: QueueName, turns: Turns) -> bool:
        """Count a queue, if it is time; whether it was."""
        now_us = self._clock.now_us()
        totals = self._queues.used.get(name)
        if self._is_paid and not self._revisits.take(name, totals.used_us if totals else 0, now_us):
            return False
        try:
            queue = await self._queues.find(*name)
            await turns.rest()
            if queue is None:
                self._counted.pop(name, None)
            else:
                self._counted[name] = await self._queues.count(queue)
        except CellUnavailableError:
            self._revisits.missed(name)
            raise
        return True


def _behind(names: list[QueueName], last: QueueName | None) -> list[QueueName]:
    """The names in order, from behind the last one on and around."""
    first = names.index(last) + 1 if last in names else 0
    return names[first:] + names[:first]
