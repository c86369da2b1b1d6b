"""Front ends on machines whose clocks are set by anything, on tables that tell the time.

The universes are those of the other kinds, with this besides: somebody sets a machine's clock every
few seconds, also where no front end runs on it. Nobody may notice. So the oracle grants what a
table's whole seconds cost, and nothing for the clocks; and in the end a probe sees that what takes
time takes as long as it should.
"""

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Final

from data_plane.log import bounds
from tests.simulation.clients import ALL_NAMES, Client
from tests.simulation.faulty_cell import Store
from tests.simulation.oracle import SECOND_US, Violation
from tests.simulation.plan import Surroundings
from tests.simulation.world import TABLE_US, World

MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US
SET_EVERY_US: Final = (3 * SECOND_US, 15 * SECOND_US, 60 * SECOND_US)
VISIBILITY_S: Final = 8
DELAY_S: Final = 6
SOON_US: Final = 4 * SECOND_US
"""What is due comes by then: two times of a table, each known within a second, and polls."""

_WAIT_S: Final = 20


def with_machines(plan: Surroundings, random: Random) -> dict[str, Any]:
    """What is different in a universe with machines whose clocks are set."""
    reach = random.choice(((5 * MINUTE_US,), (HOUR_US,), (DAY_US,), (MINUTE_US, HOUR_US, DAY_US)))
    signs = random.choice(((1,), (-1,), (1, -1)))
    return {
        "stamps": False,
        "sequential": False,
        "front_ends": max(2, plan.front_ends),
        "machines_us": (0, *(sign * us for sign in signs for us in reach)),
    }


async def set_machines(world: World) -> None:
    """Without end: somebody sets the clock of a machine."""
    random = Random(f"{world.plan.name}/machines")
    every_us = random.choice(SET_EVERY_US)
    while True:
        slot = random.choice(world.slots)
        slot.set_machine(random.choice(world.plan.machines_us))
        await world.scheduler.pause(random.randrange(1, every_us))


def tables_are_known(tables: Sequence[Store]) -> Iterator[Violation]:
    """Every front end knows the time of every table within a second, always."""
    for store in tables:
        if store.estimate_error_us_max > TABLE_US:
            text = f"the time of {store.name} was taken for {store.estimate_error_us_max} us else"
            yield Violation("the tables' time is known", text, ["machine's clock"])


class Probe:
    """Sees what takes time take as long as it should, in queues that are empty.

    Each call goes to any front end, whatever its machine's clock shows. `found` is what is wrong.
    """

    def __init__(self, world: World, queue: str, *, fifo: bool) -> None:
        self.found: list[Violation] = []
        self._world = world
        self._queue = queue
        self._fifo = fifo
        self._client = Client(world, f"probe-{queue}")

    async def run(self) -> None:
        """A lease, a delay of a standard queue, the window of a FIFO queue."""
        await self._lease()
        if self._fifo:
            await self._window()
        else:
            await self._delay()

    async def _lease(self) -> None:
        await self._send("probe.lease")
        await self._receive("probe.lease", VISIBILITY_S)
        began_us = self._world.scheduler.now_us
        handle = await self._receive("probe.lease", VISIBILITY_S)
        self._held("a lease", began_us, VISIBILITY_S)
        await self._delete(handle)

    async def _delay(self) -> None:
        began_us = await self._send("probe.delay", DelaySeconds=DELAY_S)
        handle = await self._receive("probe.delay", VISIBILITY_S)
        self._held("a delay", began_us, DELAY_S)
        await self._delete(handle)

    async def _window(self) -> None:
        window_us = self._world.plan.bounds.get("WINDOW_US", bounds.WINDOW_US)
        first_us = await self._send("probe.window")
        await self._delete(await self._receive("probe.window", VISIBILITY_S))
        await self._until(first_us + window_us - SOON_US)
        await self._send("probe.window")
        if await self._receive("probe.window", VISIBILITY_S, wait_s=2, wanted=False):
            self._wrong("a duplicate was stored within the window")
        await self._until(first_us + window_us + SOON_US)
        await self._send("probe.window")
        await self._delete(await self._receive("probe.window", VISIBILITY_S))

    async def _until(self, time_us: int) -> None:
        await self._world.scheduler.pause(max(1, time_us - self._world.scheduler.now_us))

    def _held(self, what: str, began_us: int, seconds: int) -> None:
        off_us = self._world.scheduler.now_us - began_us - seconds * SECOND_US
        if abs(off_us) > SOON_US:
            self._wrong(f"{what} of {seconds} s ended {off_us / SECOND_US:.1f} s late")

    def _wrong(self, text: str) -> None:
        self.found.append(Violation("time passes as it should", text, ["machine's clock", "probe"]))

    async def _send(self, name: str, **more: Any) -> int:
        began_us = self._world.scheduler.now_us
        params = {"QueueUrl": self._queue, "MessageBody": f"{name}@{self._queue}#", **more}
        if self._fifo:
            params |= {"MessageGroupId": "probe", "MessageDeduplicationId": name}
        await self._client.call("SendMessage", self._queue, params)
        return began_us

    async def _receive(
        self, name: str, visibility_s: int, *, wait_s: int = _WAIT_S, wanted: bool = True
    ) -> str:
        params = {
            "QueueUrl": self._queue,
            "VisibilityTimeout": visibility_s,
            "WaitTimeSeconds": wait_s,
            **ALL_NAMES,
        }
        output = await self._client.call("ReceiveMessage", self._queue, params)
        messages = output.get("Messages", []) if output else []
        bodies = [message["Body"] for message in messages]
        if any(body != f"{name}@{self._queue}#" for body in bodies):
            self._wrong(f"{bodies} came instead of {name}")
        elif wanted and not bodies:
            self._wrong(f"{name} did not come within {wait_s} s")
        return str(messages[0]["ReceiptHandle"]) if messages else ""

    async def _delete(self, handle: str) -> None:
        if handle:
            params = {"QueueUrl": self._queue, "ReceiptHandle": handle}
            await self._client.call("DeleteMessage", self._queue, params)


async def probe(world: World, queues: Sequence[Any], *, fifo: bool) -> None:
    """Probe the queues that have no delay and keep messages for long enough."""
    for queue in queues:
        if queue.delay_s == 0 and queue.retention_s > 1_000:
            one = Probe(world, queue.name, fifo=fifo)
            await one.run()
            world.probed += one.found
