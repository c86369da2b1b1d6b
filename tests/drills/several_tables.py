"""Two servers over the same three DynamoDB engines, one of which fails under load.

Each server has a cluster manager, so there are always two of them. The first engine has the
registry, which has no copies there (docs/operations.md): it is left alone.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from control_plane.places.items import decode_placed_queue, queues_partition
from data_plane.dynamodb.items import decode_attributes
from data_plane.dynamodb.tables import PARTITION
from tests.benchmarks.server_process import ServerProcess
from tests.drills.books import FifoBook, StandardBook
from tests.drills.consumers import GROUPS, Workers
from tests.drills.drill import Findings, Plan
from tests.drills.engines import Engine, EngineError, engines, reason_to_skip
from tests.drills.hurried import DIES_AFTER, MAP_AGE_US_MAX, NO_MANAGER, OLD_MAP, SAFE_US, STEPS
from tests.drills.service import Service
from tests.drills.subject import SERVER_FAILURES
from tests.rehearsal.emulators import client
from tests.rehearsal.fault_proxy import FaultProxy, fault_proxy
from tests.rehearsal.faults import Fault as Trouble
from tests.rehearsal.faults import Storm

TABLES: Final = ("one", "two", "three")
UNAVAILABLE_S_WANTED: Final = 5.0
"""How long nobody is served when a cell is lost, on a machine that is not too busy: the aim."""

_DRILL: Final = "several-tables"
_SERVERS: Final = 2
_NAMES_MAX: Final = 50
_DIED_S_MAX: Final = 300.0
_LOOK_S: Final = 0.1
_SECONDS_LEAST: Final = 75.0
"""It takes half of that until engines and servers are there; failures are to be some, too."""

_SOME: Final = 20
_SOME_S_MAX: Final = 10.0
_PAUSE_S: Final = 0.4
_NOTED: Final = (5, 15)
"""Less than a server of embedded cells: whatever was stored is copied each time an engine is back,
and DynamoDB removes nothing for days."""

_THROTTLED: Final = (Trouble.THROTTLED, Trouble.LIMITED, Trouble.FAILED)


@dataclass
class OnTables(Service):
    """Servers over engines. Each reaches each engine but the first by a proxy of its own.

    `victim` is the engine that fails next.
    """

    engines: Mapping[str, Engine] = field(default_factory=dict)
    ways: Sequence[Mapping[str, FaultProxy]] = ()
    folders: Sequence[Path] = ()
    """In which each server finds what is to go wrong with it (hurried.py)."""

    registry: Any = None
    """A client of the first engine."""

    victim: str = ""
    waits: dict[str, float] = field(default_factory=dict)
    """How long calls waited while the last cell was lost."""

    @property
    def engine(self) -> Engine:
        """The one that fails."""
        return self.engines[self.victim]

    def note_waits(self) -> None:
        """Take how long calls have waited so far."""
        for book in self.books:
            self.waits |= book.take_waits()

    @contextmanager
    def trouble(self, servers: Sequence[int], storm: Storm, cell: str = "") -> Iterator[None]:
        """Let these servers' ways to a cell, the victim, be bad for as long as this lasts."""
        ways = [self.ways[server][cell or self.victim] for server in servers]
        for way in ways:
            way.storm = storm
        try:
            yield
        finally:
            for way in ways:
                way.storm = None

    def decides_for(self, queue: str) -> bool:
        """Whether the victim is the head of the queue's group."""
        decided = [
            group["GroupName"]
            for group in self.groups()
            if group["Members"][0]["CellName"] == self.victim
        ]
        return any(queue in self._queues_of(group) for group in decided)

    def _queues_of(self, group: str) -> list[str]:
        """Names of the queues of a placement group, as the registry has them."""
        found = self.registry.query(
            TableName=TABLES[0],
            KeyConditionExpression=f"{PARTITION} = :pk",
            ExpressionAttributeValues={":pk": {"S": queues_partition(group)}},
        )["Items"]
        return [decode_placed_queue("", decode_attributes(item)).name for item in found]


Fault = Callable[[OnTables, Random], None]


def killed(service: OnTables, random: Random) -> None:
    """Kill -9, and the engine starts again on what it has stored."""
    service.note_loss()
    service.engine.kill()
    _given_up(service, random)
    _back(service)


def stopped(service: OnTables, random: Random) -> None:
    """SIGSTOP: the engine takes connections, and answers nobody, until it goes on."""
    service.note_loss()
    service.engine.stop()
    try:
        _given_up(service, random)
    finally:
        service.engine.go_on()


def throttled(service: OnTables, random: Random) -> None:
    """Half of all requests are refused: too many, or an error of the engine's own."""
    service.note_loss()
    storm = Storm(random.randrange(1_000_000), _THROTTLED, 0.5)
    with service.trouble(range(_SERVERS), storm):
        service.await_progress(random)


def slow(service: OnTables, random: Random) -> None:
    """Every third request takes a third of a second more."""
    service.note_loss()
    storm = Storm(random.randrange(1_000_000), (Trouble.SLOW,), 0.3, patience_s=0.2)
    with service.trouble(range(_SERVERS), storm):
        service.await_progress(random)


def stale(service: OnTables, random: Random) -> None:
    """The engine comes back with what it had a while before it was killed."""
    copy = service.engine.data.with_name(f"{service.victim}-{random.randrange(1_000_000)}")
    service.engine.copy(copy)
    service.await_progress(random)
    service.note_loss()
    service.engine.kill()
    _given_up(service, random)
    service.engine.put_back(copy)
    _back(service)


def divided(service: OnTables, random: Random) -> None:
    """One manager does not reach the engine, which the other server's clients do."""
    service.note_loss()
    with service.trouble([0], _silence(random)):
        _given_up(service, random)


def old_map(service: OnTables, random: Random) -> None:
    """The same, and the server that reaches it does not hear that it was given up."""
    service.note_loss(old_map_s=MAP_AGE_US_MAX / 1_000_000)
    unheard = service.folders[1] / OLD_MAP
    unheard.touch()
    try:
        with service.trouble([0], _silence(random)):
            _given_up(service, random)
    finally:
        unheard.unlink()


def at_odds(service: OnTables, random: Random) -> None:
    """Each manager sees another engine fail, at the same time: one of both plans is refused."""
    (other,) = set(TABLES[1:]) - {service.victim}
    service.note_loss()
    with (
        service.trouble([0], _silence(random)),
        service.trouble([1], _silence(random), other),
    ):
        service.await_without(service.victim, other)
        _await_some(service)
    service.note_return()


def _await_some(service: OnTables) -> None:
    """Return when clients of any server have noted something; who reaches a lost one waits."""
    enough = _noted(service) + _SOME
    until_s = time.monotonic() + _SOME_S_MAX
    while _noted(service) < enough and time.monotonic() < until_s and not service.is_violated:
        time.sleep(_LOOK_S)  # between two looks at what clients were told


def _noted(service: OnTables) -> int:
    return sum(book.tally[what] for book in service.books for what in ("sends", "deletes"))


def manager_killed(service: OnTables, random: Random) -> None:
    """The engine is stopped, and the manager killed after each step; the next one goes on."""
    other, dies_after = service.folders[1] / NO_MANAGER, service.folders[0] / DIES_AFTER
    other.touch()
    service.note_loss()
    service.engine.stop()
    dies_after.write_text("\n".join(STEPS))
    until_s = time.monotonic() + _DIED_S_MAX
    while (left := dies_after.read_text().split()) and time.monotonic() < until_s:
        time.sleep(_LOOK_S)  # between two looks at what the manager does
    if left:
        service.standard.accuse("answer", f"no manager got to {left} in {_DIED_S_MAX:.0f} s")
    _given_up(service, random)
    other.unlink()
    dies_after.unlink()
    service.engine.go_on()


FAULTS: Final[dict[str, Fault]] = {
    "killed": killed,
    "stopped": stopped,
    "throttled": throttled,
    "slow": slow,
    "stale": stale,
    "divided": divided,
    "old map": old_map,
    "at odds": at_odds,
    "manager killed": manager_killed,
}
_LOST: Final = frozenset({"killed", "stopped", "stale", "divided"})
"""Failures in which a cell is lost, and whoever is to see to it is well."""


def _given_up(service: OnTables, random: Random) -> None:
    service.await_without(service.victim)
    service.await_progress(random)
    service.note_waits()
    service.note_return()


def _back(service: OnTables) -> None:
    service.engine.start()
    service.engine.await_answer()


def _silence(random: Random) -> Storm:
    return Storm(random.randrange(1_000_000), (Trouble.SWALLOWED,), 1.0)


def several_tables(plan: Plan) -> Findings:
    """Let an engine fail in all of these ways, in an order of the seed: that is a round.

    A round ends early where time is up.
    """
    reason = reason_to_skip()
    if reason:
        return Findings(_DRILL, skipped=reason)
    findings = Findings(_DRILL, facts=[f"{len(TABLES)} engines, {_SERVERS} servers"])
    began_s = time.monotonic()
    waits: dict[str, list[float]] = {}
    with on_tables(plan, _DRILL) as service:
        try:
            _rounds(plan, service, findings, waits)
        except (*SERVER_FAILURES, EngineError) as error:
            service.standard.accuse("answer", f"{type(error).__name__}: {error}")
        findings.add(service.books)
    again = {what: n for what, n in sorted(findings.tally.items()) if "lost" in what}
    findings.facts += [f"{what} {count:,}" for what, count in again.items()]
    findings.facts += [_longest(fault, took_s) for fault, took_s in waits.items()]
    findings.seconds = time.monotonic() - began_s
    return findings


def _longest(fault: str, took_s: list[float]) -> str:
    aim = f" (aim: {UNAVAILABLE_S_WANTED:.0f} s)" if fault in _LOST else ""
    return f"{fault} {len(took_s)} times: a call waited {max(took_s):.1f} s at most{aim}"


@contextmanager
def on_tables(plan: Plan, name: str) -> Iterator[OnTables]:
    """Engines that answer, and servers that do, with logs of this name."""
    with ExitStack() as stack:
        made = stack.enter_context(engines(TABLES, plan.folder))
        ways = [
            {name: stack.enter_context(fault_proxy(made[name].url)) for name in TABLES[1:]}
            for _ in range(_SERVERS)
        ]
        folders = [plan.folder / f"server-{number}" for number in range(_SERVERS)]
        servers = []
        for folder, way in zip(folders, ways, strict=True):
            folder.mkdir()
            further = ",".join(f"{name}={proxy.url}/{name}" for name, proxy in way.items())
            options = (
                *("--cell", "dynamodb", "--endpoint", made[TABLES[0]].url, "--table", TABLES[0]),
                *("--cells-dynamodb", further, "--blobs", str(plan.folder / "bodies")),
                *("--master-keys", str(plan.folder / "master.keys"), "--log-level", "warning"),
                "--no-sixty-second-rules",
            )
            log = plan.folder / f"{name}-{folder.name}.log"
            fault = (plan.fault,) if plan.fault else ()
            wrapper = (sys.executable, "-m", "tests.drills.hurried", str(folder), *fault)
            server = ServerProcess(folder / "data", log, options, wrapper)
            stack.callback(_end, server)
            servers.append(server)
        for server in servers:  # the first one makes tables and keys
            server.start()
        yield OnTables(
            servers,
            len(TABLES),
            SAFE_US / 1_000_000,
            engines=made,
            ways=ways,
            folders=folders,
            noted=_NOTED,
            registry=client("dynamodb", made[TABLES[0]].url),
        )


def _end(server: ServerProcess) -> None:
    if server.process is not None:
        server.process.kill()
        server.process.wait()


def _rounds(
    plan: Plan, service: OnTables, findings: Findings, waits: dict[str, list[float]]
) -> None:
    random = Random(f"{_DRILL} {plan.seed}")
    until_s = time.monotonic() + max(plan.seconds, _SECONDS_LEAST)
    service.victim = random.choice(TABLES[1:])
    _make_queues(service)
    workers = Workers(service.servers, (service.standard, service.fifo), _PAUSE_S)
    try:
        while findings.rounds < plan.rounds and time.monotonic() < until_s:
            findings.rounds += 1
            causes = plan.causes or list(FAULTS)
            for name in random.sample(causes, len(causes)):
                if time.monotonic() > until_s:
                    break
                _suffer(plan, service, name, random, waits)
                if service.is_violated and not plan.keep_going:
                    return
                service.victim = random.choice(TABLES[1:])
        workers.drain()
        for book in service.books:
            book.end()
    finally:
        workers.stop()


def _make_queues(service: OnTables) -> None:
    """Make one of each kind whose head is the engine that fails first."""
    service.standard = StandardBook(_make_queue(service, "drill-{}", {}))
    service.fifo = FifoBook(_make_queue(service, "drill-{}.fifo", {"FifoQueue": "true"}), GROUPS)


def _make_queue(service: OnTables, name: str, attributes: dict[str, str]) -> str:
    for number in range(_NAMES_MAX):
        queue = name.format(number)
        service.insist("CreateQueue", QueueName=queue, Attributes=attributes)
        if service.decides_for(queue):
            return queue
    raise AssertionError(f"{service.victim} is the head of none of {_NAMES_MAX} queues")


def _suffer(
    plan: Plan, service: OnTables, name: str, random: Random, waits: dict[str, list[float]]
) -> None:
    """One failure, and everything well again; notes how long a call waited meanwhile."""
    service.await_whole()
    service.await_progress(random)
    service.note_waits()
    if service.is_violated:
        return
    service.is_soon = False
    service.waits.clear()
    began_s = time.monotonic()
    FAULTS[name](service, random)
    lost_s = time.monotonic() - began_s
    service.await_progress(random)
    if not service.waits:
        service.note_waits()
    service.await_whole()
    fault = name + (" soon after another cell" if service.is_soon else "")
    waits.setdefault(fault, []).append(max(service.waits.values(), default=0.0))
    shown = ", ".join(f"{what} {took_s:.1f} s" for what, took_s in service.waits.items())
    whole_s = time.monotonic() - began_s
    plan.progress(
        f"{_DRILL}: {service.victim} {fault}, {lost_s:.0f} s, whole after {whole_s:.0f} s: {shown}"
    )
