"""A universe's things: cells, front ends and the network between them and the clients."""

import json
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import Random
from typing import Any

from control_plane.message_moves import MessageMoves
from control_plane.message_moves_running import MoveRunner
from control_plane.operations.catalog import queue_operations
from control_plane.registry import Placing, Registry
from control_plane.service_clock import StoreClock
from control_plane.sweep import Sweep
from data_plane.bag.engine import Bag
from data_plane.engine import Engine
from data_plane.frontend.front_end import FrontEnd
from data_plane.frontend.served import Served
from data_plane.frontend.settings import FrontEndSettings
from data_plane.log.engine import Log
from data_plane.log.sources import Sources
from data_plane.operations.catalog import message_operations
from data_plane.operations.stream_address import KnownStreams
from data_plane.ports import Cell, CellUnavailableError
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.service import Service
from data_plane.protocol.sqs import sqs
from data_plane.stored.bodies import BodyStore
from data_plane.stored.data_keys import DataKeys
from tests.simulation.faulty_blobs import BlobStore, FaultyBlobs
from tests.simulation.faulty_cell import FaultyCell, Store
from tests.simulation.history import Attempt, History
from tests.simulation.plan import Surroundings
from tests.simulation.process import Process
from tests.simulation.scheduler import Future, Scheduler
from tests.simulation.sealed import ACCOUNT, REGION, REGISTRY_SECRET
from tests.simulation.weather import Weather

START_US = 1_800_000_000_000_000
JUMP_US_MAX = 300_000_000
TABLE_US = 1_000_000
"""Within this front ends know the time of a table, which tells whole seconds."""

Answer = tuple[int, Mapping[str, Any]]
"""Status and output as a client got them."""


class Slot:
    """A place where a front end runs; after a crash another incarnation takes it."""

    def __init__(self, world: "World", number: int) -> None:
        self.name = f"fe{number}"
        self.engine: Engine
        self.front_end: FrontEnd
        self.registry: Registry
        self.process: Process
        self.cells: dict[str, FaultyCell]
        self.machine_wrong_us = 0
        self._world = world
        self._incarnations = 0
        self.boot()

    def boot(self) -> None:
        """Start with cold caches."""
        world, plan = self._world, self._world.plan
        self._incarnations += 1
        name = f"{self.name}.{self._incarnations}"
        self.process = process = self._new_process(name)
        world.begin(process)
        self.cells = {
            store.name: FaultyCell(
                store,
                process,
                world.scheduler,
                world.weather,
                world.random,
                plan,
            )
            for store in world.stores
        }
        if plan.machines_us and not plan.stamps:
            process.clock_us = StoreClock(self.cells["meta"]).now_us
        data_cells = world.cells_of_messages(self)
        bodies = {name: self._bodies(place) for name, place in world.places.items()}
        self.registry = registry = Registry(
            self.cells["meta"],
            tuple(data_cells),
            process,
            process,
            secret=REGISTRY_SECRET,
            placing=world.placing_of(self),
        )
        data_keys = world.data_keys(self)
        ports = (data_cells, process, process, process, bodies, registry)
        bag = Bag(*ports, data_keys=data_keys)
        sources, streams = world.streams_to_read(self, data_cells)
        log = Log(*ports, sources=sources, copies=bag.store_copy, data_keys=data_keys)
        engine = Engine(bag, log)
        self.engine = engine
        moves = MessageMoves(self.cells["meta"], process, process)
        of_queues = queue_operations(registry, engine, moves, streams)
        self.front_end = FrontEnd(
            (
                sqs((*message_operations(engine), *of_queues)),
                *world.further_services(self, data_cells),
            ),
            registry,
            process,
            process,
            FrontEndSettings(),
            world.observe,
        )
        world.note_clock(process)
        if not plan.sequential:
            process.start(self.repeat(process, engine.sweep))
            if bodies:
                process.start(self.repeat(process, engine.sweep_bodies))
        if plan.moves:
            runner = MoveRunner(moves, registry, engine, process, process, process)
            process.start(self.repeat(process, runner.step))

        if plan.drops_after_us:
            sweep = Sweep(
                *(registry, data_cells, data_cells, process, process),
                after_us=plan.drops_after_us,
            )
            process.start(self.repeat(process, sweep.step))

    def _new_process(self, name: str) -> Process:
        world, plan = self._world, self._world.plan
        skew_us = world.random.randint(-plan.skew_us_max, plan.skew_us_max)
        wrong_us = self.machine_wrong_us if plan.machines_us else skew_us
        process = Process(name, world.scheduler, f"{plan.name}/{name}", wrong_us)
        process.on_crash.append(self._crashed)
        return process

    def _bodies(self, place: BlobStore) -> BodyStore:
        threshold_bytes = self._world.plan.blob_threshold_bytes
        assert threshold_bytes is not None
        return BodyStore(FaultyBlobs(place, self.cells[place.name]), threshold_bytes)

    def set_machine(self, wrong_us: int) -> None:
        """Somebody sets the clock of the machine, whether a front end runs there or not."""
        self.machine_wrong_us = self.process.offset_us = wrong_us
        self._world.note(f"{self.name}: its machine's clock is wrong by {wrong_us} us")

    async def repeat(self, process: Process, sweep: Callable[[], Awaitable[object]]) -> None:
        """Do something every few seconds, whether it fails or not."""
        while True:
            await process.sleep_until(process.now_us() + 5_000_000)
            try:
                await sweep()
            except CellUnavailableError as error:
                self._world.note(f"{process.name} sweep: {error}")

    def _crashed(self) -> None:
        world = self._world
        world.note(f"{self.process.name} crashes")
        if self.engine.damaged_segments:
            world.history.broken.append(f"{self.process.name} met segments it could not read")
        self._boot_soon()

    def _boot_soon(self) -> None:
        world = self._world
        world.scheduler.after(world.random.randrange(100_000, 8_000_000), self.boot)


class World:
    """Everything that exists, and the network. `random` decides about faults alone."""

    def __init__(self, plan: Surroundings) -> None:
        self.plan = plan
        self.random = Random(f"{plan.name}/world")
        self.scheduler = Scheduler(Random(f"{plan.name}/scheduler"), START_US)
        self.history = History()
        self.weather = Weather()
        self.offset_us_min = self.offset_us_max = 0
        self.alive = True
        self.frozen_until_us = 0
        self.redelivered = 0
        self.probed: list[Any] = []
        names = ["meta", *(f"cell{number}" for number in range(plan.cells))]
        wrong_us = [self.random.randint(-plan.skew_us_max, plan.skew_us_max) for _ in names]
        wrong_us_max = plan.cells_skew_us_max
        self.stores = [
            Store(
                name, self.scheduler, max(-wrong_us_max, min(us, wrong_us_max)), stamps=plan.stamps
            )
            for name, us in zip(names, wrong_us, strict=True)
        ]
        self.cell_names = names[1:]
        self.places: dict[str, BlobStore] = {}
        if plan.blob_threshold_bytes is not None:
            for store in self.stores[1:]:
                place = BlobStore(f"blobs of {store.name}", self.scheduler, store.offset_us)
                store.tell_body = place.when_stored
                self.places[store.name] = place
        self.stores += self.places.values()
        if plan.machines_us:
            self.offset_us_min = self.stores[0].offset_us - TABLE_US
            self.offset_us_max = self.stores[0].offset_us + TABLE_US
        self.slots = [Slot(self, number) for number in range(plan.front_ends)]

    def cells_of_messages(self, slot: Slot) -> Mapping[str, Cell]:
        """Cells of messages, by the names that definitions have, as a front end gets them."""
        return {name: slot.cells[name] for name in self.cell_names}

    def placing_of(self, slot: Slot) -> Placing | None:  # noqa: ARG002
        """Who places new queues, where cells alone do not say it."""
        return None

    def data_keys(self, slot: Slot) -> DataKeys | None:  # noqa: ARG002
        """The data keys of a front end's queues, where they are not all managed ones."""
        return None

    async def settled(self) -> None:
        """The faults are over, and queues are not emptied yet."""

    def streams_to_read(
        self,
        slot: Slot,  # noqa: ARG002
        cells: Mapping[str, Cell],  # noqa: ARG002
    ) -> tuple[Sources | None, KnownStreams | None]:
        """The streams that queues of a front end may read, over these cells of messages."""
        return None, None

    def further_services(self, slot: Slot, cells: Mapping[str, Cell]) -> Sequence[Service]:  # noqa: ARG002
        """What a front end serves beside queues, over these cells of messages."""
        return ()

    def http(self, attempt: Attempt) -> HttpRequest:
        """A request as an SDK sends it."""
        return _http(attempt)

    def begin(self, process: Process) -> None:
        """A front end starts, before anything of it asks for the time."""

    def note(self, text: str) -> None:
        """Write something into the history."""
        self.history.note(self.scheduler.now_us, text)

    def note_clock(self, process: Process) -> None:
        """Remember how wrong clocks have been; the oracle allows no more than that.

        Where front ends go by a table's time, it is that, known within a second.
        """
        if self.plan.machines_us:
            return
        self.offset_us_min = min(self.offset_us_min, process.offset_us)
        self.offset_us_max = max(self.offset_us_max, process.offset_us)

    def observe(self, served: Served) -> None:
        """No fault of a cell or a client may make the server break."""
        if served.exception is not None:
            trace = "".join(traceback.format_exception(served.exception))
            self.history.broken.append(f"{served.operation} broke: {trace}")

    def end(self) -> None:
        """Let go of all that was under way; nothing comes after it."""
        for slot in self.slots:
            slot.process.on_crash.clear()
            slot.process.crash()

    def spent(self) -> Counter[str]:
        """Requests that the cells of messages have served so far."""
        return sum(
            (store.cell.requests for store in self.stores if store.name != "meta"), Counter()
        )

    async def request(self, attempt: Attempt, slot: Slot, patience_us: int) -> Answer | None:
        """Send an attempt to a front end: the answer, or None where none came in time."""
        reply: Future[Answer | None] = Future(self.scheduler)
        process = slot.process
        await self.scheduler.pause(self.random.randrange(300, 3_000))
        if not process.alive:
            return None
        process.on_crash.append(lambda: reply.resolve(None))
        process.start(self._serve(attempt, slot, reply))
        self.scheduler.after(patience_us, lambda: reply.resolve(None))
        return await reply

    async def _serve(self, attempt: Attempt, slot: Slot, reply: Future[Answer | None]) -> None:
        process = slot.process
        status, output = await self.answer(attempt, slot)
        self.history.answer(self.scheduler.now_us, attempt, status, output)
        if self.random.random() < self.weather.lost_answer:
            self.note(f"{process.name} #{attempt.call.number}: the answer is lost")
            return
        self.scheduler.after(
            self.random.randrange(300, 3_000), lambda: reply.resolve((status, output))
        )

    async def answer(self, attempt: Attempt, slot: Slot) -> Answer:
        """What the process that the slot has now makes of a request."""
        before = self.spent() if self.plan.sequential else None
        response = await slot.front_end.answer(self.http(attempt))
        if before is not None:
            attempt.spent = self.spent() - before
        return response.status, _output(response)


def _http(attempt: Attempt) -> HttpRequest:
    call = attempt.call
    return HttpRequest(
        method="POST",
        path="/",
        query="",
        headers={
            "content-type": "application/x-amz-json-1.0",
            "x-amz-target": f"AmazonSQS.{call.operation}",
            "authorization": f"AWS4-HMAC-SHA256 Credential={ACCOUNT}/20270115/{REGION}/sqs/x",
            "amz-sdk-invocation-id": call.invocation_id,
            "amz-sdk-request": f"attempt={attempt.number}; max=4",
        },
        body=json.dumps(call.params).encode(),
    )


def _output(response: HttpResponse) -> Mapping[str, Any]:
    if not response.body:
        return {}
    output: Mapping[str, Any] = json.loads(response.body)
    return output
