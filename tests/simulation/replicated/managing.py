"""Managers: what ships observes, plans, acts and verifies; here is only the loop around it.

A manager may stand still between any two steps, end with any request, believe what nobody sees,
have a clock that is wrong, and there may be two.
"""

import traceback
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from control_plane.cluster.acting import DONE
from control_plane.cluster.actions import Action, Reconcile, action_of
from control_plane.cluster.cluster import Cluster
from control_plane.cluster.observation import Report, observation_of, to_json
from control_plane.cluster.tasks import perform
from control_plane.core.replication import is_fenced
from control_plane.places.cached import CachedMap
from control_plane.places.groups import ON_CHAIN
from control_plane.places.placing import GroupPlacing
from control_plane.places.stored import Places
from control_plane.registry import Registry
from data_plane.ports import CellUnavailableError
from tests.simulation.faulty_cell import FaultyCell
from tests.simulation.process import Process
from tests.simulation.replicated.plan import OPTIONS, SECOND_US
from tests.simulation.replicated.watching import heart_of
from tests.simulation.sealed import REGISTRY_SECRET

if TYPE_CHECKING:
    from tests.simulation.replicated.world import ReplicatedWorld

T = TypeVar("T")
Result = dict[str, Any]

LOOK_EVERY_US: Final = 6 * SECOND_US
REST_US_MAX: Final = 15 * SECOND_US
TASK_US: Final = (0, 0, 10 * SECOND_US)
"""What a task has before it answers that there is more: often a single step of a copy."""

_AT_ONCE: Final = 4
_ATTEMPTS_MAX: Final = 6
_AGAIN_US: Final = SECOND_US // 5
_WRONG_FOR_US: Final = 60 * SECOND_US


class WorldPlacing(GroupPlacing):
    """Queues go to the groups that there are in this world; all else is shipped."""

    def __init__(self, cell: FaultyCell, groups: list[str]) -> None:
        super().__init__(cell, lambda: len(groups))
        self._groups = groups

    def place(self, uid: str, attributes: Mapping[str, str]) -> str:
        """One of the groups, as a service places queues in it."""
        group = self._groups[int(uid, 16) % len(self._groups)]
        on_chain = attributes.get("FifoQueue") != "true" and is_fenced(attributes)
        return f"{group}/{ON_CHAIN}" if on_chain else group


class ManagersCell(FaultyCell):
    """A manager's way to a cell: the manager may end with any request."""

    stops = 0.0

    async def call(
        self,
        perform: Callable[[], Coroutine[Any, Any, T]],
        *,
        repeatable: bool = True,
        grows: bool = False,
    ) -> T:
        """As FaultyCell."""
        if self.stops and self._random.random() < self.stops:
            self._scheduler.after(self._random.randrange(20_000), self._process.crash)
        return await super().call(perform, repeatable=repeatable, grows=grows)


class Manager:
    """A place where managers run, one after the other."""

    def __init__(self, world: "ReplicatedWorld", number: int) -> None:
        self.name = f"manager{number}"
        self.process: Process
        self.cells: dict[str, ManagersCell]
        self._world = world
        self._incarnations = 0
        self.boot()

    def boot(self) -> None:
        """Start, knowing nothing."""
        world = self._world
        self._incarnations += 1
        name = f"{self.name}.{self._incarnations}"
        apart_us = world.replication.managers_apart_us
        offset_us = world.chance.randint(-apart_us, apart_us)
        self.process = Process(name, world.scheduler, f"{world.plan.name}/{name}", offset_us)
        self.process.on_crash.append(self._crashed)
        world.begin_manager(self.process)
        self.cells = world.cells_of_manager(self.process)
        self.process.start(_Work(world, self).run())

    def retire(self) -> None:
        """Let no other come after this one."""
        self.process.on_crash.clear()
        self.process.crash()

    def _crashed(self) -> None:
        self._world.note(f"{self.process.name} crashes")
        wait_us = self._world.chance.randrange(100_000, 8_000_000)
        self._world.scheduler.after(wait_us, self.boot)


class _Work:
    """What the state machine does, time and again."""

    def __init__(self, world: "ReplicatedWorld", manager: Manager) -> None:
        self._world = world
        self._process = manager.process
        self._random = Random(f"{world.plan.name}/{manager.process.name}/manager")
        process, cells = manager.process, manager.cells
        groups = world.group_names
        data_cells = {name: cells[name] for name in world.cell_names}
        places = Places(cells["meta"], process, process)
        beat, known = None, None
        if world.replication.beside:
            known = CachedMap(places.read_all, process)
            beat = heart_of(world, process, data_cells, known).beat
            process.start(self._refresh(known))
        self._cluster = Cluster(
            places=places,
            placing=WorldPlacing(cells["meta"], groups),
            registry=Registry(cells["meta"], groups, process, process, secret=REGISTRY_SECRET),
            cells=data_cells,
            clock=process,
            waits=process,
            options=OPTIONS,
            beat=beat or (lambda: None),
            known=known,
        )

    async def run(self) -> None:
        while True:
            try:
                await self._execute()
            except CellUnavailableError as error:
                self._world.note(f"{self._process.name}: {error}")
            except Exception:  # noqa: BLE001 - told by the oracle
                self._world.history.broken.append(f"a manager broke: {traceback.format_exc()}")
            await self._world.scheduler.pause(self._random.randrange(LOOK_EVERY_US) + 200_000)

    async def _refresh(self, known: CachedMap) -> None:
        while True:
            await known.try_refresh()
            await self._world.scheduler.pause(SECOND_US)

    async def _execute(self) -> None:
        observed = (await self._task({"task": "observe"}))["observed"]
        await self._rest()
        planned = await self._task({"task": "plan", "observed": self._err(observed)})
        actions = [action_of(members) for members in planned["tasks"]]
        results: list[Result] = []
        for start in range(0, len(actions), _AT_ONCE):
            for outcome in await self._process.all_of(
                [self._act(action) for action in actions[start : start + _AT_ONCE]]
            ):
                if isinstance(outcome, Exception):
                    raise outcome
                results.append(outcome)
        if not actions:
            return
        verified = await self._task({"task": "verify", "results": results})
        if verified["unmet"]:
            self._world.history.broken.append(f"not verified: {verified['unmet']}")

    async def _act(self, action: Action) -> Result:
        result: Result = {"task": to_json(action), "more": True}
        failures, began_us = 0, self._world.scheduler.now_us
        while result["more"]:
            await self._rest()
            try:
                result = {**result, **await self._task(result)}
            except CellUnavailableError as error:
                failures += 1
                if failures == _ATTEMPTS_MAX:
                    result = {**result, "outcome": str(error), "more": False}
                await self._world.scheduler.pause(_AGAIN_US << failures)
        self._world.note(f"{self._process.name}: {action}: {result['outcome']}")
        if isinstance(action, Reconcile) and result["outcome"] == DONE:
            self._world.reconciled_for(action.front_ends, began_us)
        return result

    async def _task(self, event: Mapping[str, Any]) -> Result:
        until_us = self._process.now_us() + self._random.choice(TASK_US)
        answer = await perform(event, self._cluster, until_us)
        assert answer is not None
        return answer

    async def _rest(self) -> None:
        """What was decided may be done long after."""
        if self._world.has_strikes and self._random.random() < self._world.replication.rests:
            await self._world.scheduler.pause(self._random.randrange(REST_US_MAX))

    def _err(self, observed: Mapping[str, Any]) -> Any:
        """The observation; or one by which everybody sees a cell fail that may be well."""
        if not self._world.has_strikes or self._random.random() >= self._world.replication.unasked:
            return observed
        seen = observation_of(observed)
        cell = self._random.choice(self._world.cell_names)
        fails = Report(cell, failing_since_us=seen.at_us - _WRONG_FOR_US)

        def changed(reports: tuple[Report, ...]) -> tuple[Report, ...]:
            return (*(report for report in reports if report.cell != cell), fails)

        front_ends = tuple(replace(one, reports=changed(one.reports)) for one in seen.front_ends)
        self._world.note(f"{self._process.name} believes that {cell} fails")
        return to_json(replace(seen, probes=changed(seen.probes), front_ends=front_ends))
