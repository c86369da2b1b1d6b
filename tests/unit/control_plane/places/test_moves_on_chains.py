"""Dead letters of FIFO queues in several cells: moved once, wherever who moved them stopped."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from control_plane.places.cached import CachedMap
from control_plane.places.group_cells import Members, fifo_cells
from control_plane.places.items import StoredPlacement
from control_plane.places.stored import PlaceMap
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.queue import Queue
from data_plane.log.engine import Log
from data_plane.ports import Attributes, CellUnavailableError, Key, Written
from data_plane.stored import keys
from tests.unit.data_plane.bag.pipe import KnownQueues
from tests.unit.data_plane.log import pipe
from tests.unit.data_plane.log.conftest import bodies
from tests.unit.data_plane.log.test_moving import HOUR_S, MOVE_S
from tests.unit.data_plane.replication.conftest import Group
from tests.unit.repeatable import SeededEntropy

GROUP = "g3.00"
ORDERS, DEAD = replace(pipe.ORDERS, cell=GROUP), replace(pipe.DEAD, cell=GROUP)
DEAD_SLOTS = keys.slots(DEAD.uid, 0, 0)


@dataclass
class ChainedPipe:
    """Both queues in the cells a, b and c; those that `refuse` take no slot of dead letters.

    `slots_read` says of which cells such slots were read one by one.
    """

    group: Group = field(default_factory=Group)
    entropy: SeededEntropy = field(default_factory=SeededEntropy)
    refuse: str = ""
    slots_read: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in "abc":
            self._watch(name)

    def _watch(self, name: str) -> None:
        cell = self.group.cells[name]
        get, put = cell.get, cell.put

        async def noted(key: Key, *, strong: bool = True) -> Attributes | None:
            if key.partition == DEAD_SLOTS:
                self.slots_read.append(name)
            return await get(key, strong=strong)

        async def refused(key: Key, attributes: Attributes, *call: Any) -> Written:
            if name in self.refuse and key.partition == DEAD_SLOTS:
                raise CellUnavailableError("no dead letters")
            return await put(key, attributes, *call)

        cell.get, cell.put = noted, refused  # type: ignore[method-assign]

    async def front_end(self) -> Log:
        """One that knows nothing yet but the map."""
        group = self.group

        async def read() -> PlaceMap:
            return PlaceMap({GROUP: StoredPlacement(group.at, 3, b"")}, {}, group.clock.now_us())

        known = CachedMap(read, group.clock)
        await known.refresh()
        cells = fifo_cells(Members(group.cells, known, group.clock, group.waits))
        queues = KnownQueues(ORDERS, DEAD)
        return Log({GROUP: cells[GROUP]}, group.clock, self.entropy, group.waits, queues=queues)

    async def send(self, queue: Queue, text: str) -> None:
        message = Outgoing(body=text, size=len(text), group="g", deduplication_id=text)
        await (await self.front_end()).send(queue, SendCall(queue.account, [message]))

    async def receive(self, queue: Queue) -> list[str]:
        log = await self.front_end()
        return bodies(await log.receive(queue, count=10, visibility_s=0, until_us=0))

    async def poison(self) -> None:
        """A message that the next receive moves."""
        await self.send(ORDERS, "poison")
        for _ in range(2):
            assert await self.receive(ORDERS) == ["poison"]

    async def stop_in_a_move(self, refuse: str) -> None:
        """Move it as far as those cells let it."""
        self.refuse = refuse
        with pytest.raises(CellUnavailableError):
            await self.receive(ORDERS)
        self.refuse = ""


@pytest.mark.parametrize("refuse", ["a", "b", "c"])
@pytest.mark.parametrize("pause_s", [MOVE_S, HOUR_S], ids=["soon", "beyond the window"])
@pytest.mark.parametrize("before", [0, 1], ids=["into an empty queue", "behind a message"])
@pytest.mark.parametrize("after", [0, 1], ids=["quiet", "in use"])
def test_a_copy_that_is_half_way_down_the_chain_is_the_copy(
    refuse: str, pause_s: float, before: int, after: int
) -> None:
    """Who goes on with the move finds it, also where it is no duplicate any more."""
    chained = ChainedPipe()

    async def story() -> None:
        for _ in range(before):
            await chained.send(DEAD, "before")
        await chained.poison()
        await chained.stop_in_a_move(refuse)
        chained.group.clock.advance(pause_s)
        for _ in range(after):
            await chained.send(DEAD, "after")
        assert await chained.receive(ORDERS) == []
        found = Counter(await chained.receive(DEAD))
        assert found == Counter(["before"] * before + ["poison"] + ["after"] * after)
        assert await chained.receive(ORDERS) == []

    asyncio.run(story())


def test_only_a_move_that_is_gone_on_with_reads_the_head_once_more() -> None:
    chained = ChainedPipe()

    async def story() -> None:
        await chained.send(DEAD, "before")
        await chained.poison()
        await chained.stop_in_a_move("a")
        assert chained.slots_read == []
        chained.group.clock.advance(HOUR_S)
        assert await chained.receive(ORDERS) == []
        assert chained.slots_read == ["a"]
        assert await chained.receive(DEAD) == ["before", "poison"]

    asyncio.run(story())
