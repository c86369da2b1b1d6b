"""Cells in memory and a registry beside them; acts that are cut off, and two that take turns."""

import json
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextvars import copy_context
from typing import Any, Final, TypeVar

from control_plane.cluster.cluster import Cluster
from control_plane.cluster.observation import Options
from control_plane.cluster.tasks import perform
from control_plane.places.items import (
    EMBEDDED,
    CellRecord,
    CellSeen,
    FifoAppends,
    Heartbeat,
    StoredPlacement,
    encode_placement,
    placement_key,
)
from control_plane.places.placing import GroupPlacing
from control_plane.places.stored import Places
from control_plane.registry import Registry
from data_plane.core.turns import at_once
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, CellUnavailableError, Item, Key, Written
from data_plane.replication.placement import Member, Placement
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

T = TypeVar("T")
SECOND_US: Final = 1_000_000
LATER_US: Final = 10**18
"""An act that has until then has time enough."""
OPTIONS: Final = Options(grace_us=10 * SECOND_US)


class Cut(BaseException):
    """The manager is killed."""


class _Turn:
    """Awaited where another manager may go on."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Line:
    """What stands before every request of the managers: it lets others in, and kills them.

    The request number `cut_at` is the last: it takes effect, and nobody hears of it.
    """

    def __init__(self) -> None:
        self.requests = 0
        self.cut_at = 0

    async def through(self, request: Callable[[], Awaitable[T]]) -> T:
        await _Turn()
        answer = await request()
        self.requests += 1
        if self.requests == self.cut_at:
            raise Cut
        await _Turn()
        return answer


class SceneCell(MemoryCell):
    """A memory cell that can be down."""

    def __init__(self, clock: HandClock, line: Line) -> None:
        super().__init__(clock)
        self.line = line
        self.down = False

    async def _ask(self, request: Callable[[], Awaitable[T]]) -> T:
        if self.down:
            raise CellUnavailableError("it is down")
        return await self.line.through(request)

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        return await self._ask(lambda: super(SceneCell, self).get(key, strong=strong))

    async def put(self, *args: Any, **named: Any) -> Written:
        return await self._ask(lambda: super(SceneCell, self).put(*args, **named))

    async def query(self, *args: Any, **named: Any) -> list[Item]:
        return await self._ask(lambda: super(SceneCell, self).query(*args, **named))


class SceneWaits:
    """Side by side is one after the other here; to sleep is to set the clock."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock

    async def sleep_until(self, time_us: int) -> None:
        self._clock.advance(max(0, time_us - self._clock.now_us()) / SECOND_US)

    async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        outcomes: list[T | Exception] = []
        left: list[Any] = list(calls)
        try:
            while left:
                try:
                    outcomes.append(await left.pop(0))
                except CellUnavailableError as error:
                    outcomes.append(error)
        finally:
            for call in left:
                call.close()
        return outcomes

    async def coalesce(self, _lane: object, entry: Any, flush: Any, _until_us: object) -> Any:
        return (await flush([entry]))[0]

    in_turns = staticmethod(at_once)


class Scene:
    """Cells a, b, c, ...; the registry lies beside them. What is not said is well."""

    def __init__(self, cells: str = "abc", clock: HandClock | None = None) -> None:
        self.clock = clock or HandClock()
        self.line = Line()
        self.control = SceneCell(self.clock, self.line)
        self.cells = {name: SceneCell(self.clock, self.line) for name in cells}
        self.entropy = SeededEntropy()
        self.placing = GroupPlacing(self.control, lambda: len(self.cells))
        self.registry = Registry(
            self.control,
            tuple(self.cells),
            self.clock,
            self.entropy,
            secret=SECRET,
            placing=self.placing,
        )
        self.places = Places(self.control, self.clock, self.entropy)
        for name in cells:
            self.run(self.places.put_cell(CellRecord(name, EMBEDDED, {})))

    @property
    def cluster(self) -> Cluster:
        """What one manager works with."""
        waits: Any = SceneWaits(self.clock)
        return Cluster(
            places=Places(self.control, self.clock, self.entropy),
            placing=self.placing,
            registry=self.registry,
            cells=self.cells,
            clock=self.clock,
            waits=waits,
            options=OPTIONS,
        )

    def place(self, group: str, members: str, factor: int = 3) -> None:
        """Put a group in these cells, in this order."""
        placement = Placement(group, 1, tuple(map(Member, members)), self.clock.now_us())
        item = encode_placement(StoredPlacement(placement, factor, b"\0" * 8))
        self.run(self.control.put(placement_key(group), item))

    def members(self, group: str) -> str:
        """Cells of the group in order; those that join in brackets."""
        placement = self.placement(group)
        return "".join(one.cell if one.full else f"({one.cell})" for one in placement.members)

    def placement(self, group: str) -> Placement:
        return self.run(self.places.read(group)).placement

    def beat(self, *appends: FifoAppends, **seen: CellSeen) -> None:
        """What a front end tells: of cells that are not named that they answer."""
        cells = {name: seen.get(name, CellSeen(answers=True, since_us=0)) for name in self.cells}
        self.run(self.places.beat(Heartbeat("f", self.clock.now_us(), cells, appends=appends)))

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """To its end, alone."""
        context = copy_context()
        while True:
            try:
                context.run(work.send, None)
            except StopIteration as end:
                answer: T = end.value
                return answer

    def run_together(self, chance: SeededEntropy, *works: Coroutine[Any, Any, Any]) -> None:
        """In turns, as chance has it."""
        # Each has its own deadlines, as a task of a loop has.
        left = [(work, copy_context()) for work in works]
        while left:
            at = chance.random_bytes(1)[0] % len(left)
            work, context = left[at]
            try:
                context.run(work.send, None)
            except StopIteration:
                del left[at]


async def execute(cluster: Cluster) -> list[dict[str, Any]]:
    """What the state machine does, with all values as JSON."""

    async def task(**event: Any) -> dict[str, Any]:
        answer = await perform(json.loads(json.dumps(event)), cluster, cluster.clock.now_us())
        assert answer is not None
        return answer

    observed = (await task(task="observe"))["observed"]
    results = []
    for action in (await task(task="plan", observed=observed))["tasks"]:
        result: dict[str, Any] = {"task": action, "more": True}
        while result["more"]:
            result = {"task": action, **await task(**result)}
        results.append(result)
    verified = await task(task="verify", results=results)
    assert verified["met"], verified
    return results
