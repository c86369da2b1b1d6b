"""What strangers and tenants can do to another tenant's sends, with the worst that they can send.

Each case is compared with the times alone just before it, in the same run.
"""

import multiprocessing
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Final, Self

from tests.benchmarks import generator
from tests.benchmarks.latency import Latency
from tests.benchmarks.load import Group, Load
from tests.benchmarks.onslaught import (
    Onslaught,
    Running,
    Watched,
    of_strangers,
    of_tenant,
    request,
)
from tests.benchmarks.plan import Plan
from tests.benchmarks.process import anonymous_bytes
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.secured import create_account, create_queue, root_key, secured_server
from tests.benchmarks.server_process import Line, ServerProcess
from tests.benchmarks.signing import AccessKey

TIMES_MAX: Final = 3.0
IDLE_TIMES_MAX: Final = 2.0
GROWN_MB_MAX: Final = 64
SMOKE_TIMES_MAX: Final = 10.0
SMOKE_FLOOR_MS: Final = 100.0
SMOKE_GROWN_MB_MAX: Final = 256
"""Of a machine that does much else. Memory beyond it is a mechanism that is gone; times tell no
such thing, since there is no bound to what else a machine does."""

_MB: Final = 1_048_576
_SCRAPERS: Final = 8
_QUEUES: Final = 200
_BODY: Final = "x" * 1_000_000
_BIG_MESSAGES: Final = 20


class _Place:
    """Who is measured on which server."""

    def __init__(self, server: ServerProcess, plan: Plan, report: Report) -> None:
        self.server, self.plan, self.report = server, plan, report
        key = create_account(server, "quiet", {})
        self.group = Group(
            "send",
            create_queue(server, key, "quiet", {}),
            plan.isolation_quiet_connections,
            rate_hz=plan.isolation_quiet_hz,
            key=key,
        )

    def sends(self) -> Latency:
        """Times of the quiet tenant's sends now."""
        plan, server = self.plan, self.server
        load = Load(server.port, (self.group,), plan.strangers_seconds, 0.2, server.pid)
        outcome = generator.run(load)
        for error, count in outcome.errors.items():
            self.report.say(f"    {count} errors of the quiet tenant: {error[:200]}")
        return Latency.of(outcome.tallies[0].times_s.get("send", ()))

    def compare(self, onslaught: Onslaught, times_max: float = TIMES_MAX) -> None:
        """State what an onslaught does to times and memory."""
        alone = self.sends()
        before_mb = anonymous_bytes(self.server.pid) / _MB
        memory = Watched(lambda: anonymous_bytes(self.server.pid) / _MB)
        with _BesideProcess(self.server.port, onslaught) as running:
            beside = self.sends()
        grown_mb = memory.stop() - before_mb
        answers = ", ".join(f"{count} x {status}" for status, count in running.answers.items())
        self.report.say(
            f"{onslaught.name}\n    sends p50 {alone.p50_ms:.1f} -> {beside.p50_ms:.1f} ms, "
            f"p99 {alone.p99_ms:.1f} -> {beside.p99_ms:.1f} ms; answered {answers or 'nothing'}"
        )
        self._judge(onslaught.name, alone, beside, grown_mb, times_max)

    def _judge(
        self, name: str, alone: Latency, beside: Latency, grown_mb: float, times_max: float
    ) -> None:
        if self.plan.strangers_smoke:
            most_ms = max(SMOKE_FLOOR_MS, SMOKE_TIMES_MAX * alone.p50_ms)
            self.report.state(Fact(f"{name}: p50", beside.p50_ms, "ms", most_ms))
            fact = Fact(f"{name}: memory", grown_mb, "MB", SMOKE_GROWN_MB_MAX, required=True)
            self.report.state(fact)
            return
        times = beside.p99_ms / alone.p99_ms
        self.report.state(Fact(f"    {name}: p99 to that alone", times, "times", times_max))
        self.report.state(Fact(f"    {name}: memory at most", grown_mb, "MB", GROWN_MB_MAX))


class _BesideProcess:
    """An onslaught in a process of its own: what is measured does not wait for it."""

    def __init__(self, port: int, onslaught: Onslaught) -> None:
        self.answers: dict[str, int] = {}
        context = multiprocessing.get_context("fork")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_run_beside, args=(port, onslaught, theirs))

    def __enter__(self) -> Self:
        self._process.start()
        self._ours.recv()
        return self

    def __exit__(self, *_: object) -> None:
        self._ours.send("stop")
        self.answers = self._ours.recv()
        self._process.join()


def _run_beside(port: int, onslaught: Onslaught, pipe: Pipe) -> None:
    running = Running(port, onslaught)
    pipe.send("started")
    pipe.recv()
    running.stop()
    pipe.send(dict(running.answers))


def measure_strangers(folder: Path, log_level: str, plan: Plan, report: Report) -> None:
    """Report what each case does to another tenant's sends, and to the server's memory."""
    with secured_server(folder, "strangers", log_level) as server:
        place = _Place(server, plan, report)
        noisy = _account(server)
        queue_url = create_queue(server, noisy, "noisy", {})
        with Line(server.port, noisy) as line:
            for _ in range(_BIG_MESSAGES):
                line.call("SendMessage", {"QueueUrl": queue_url, "MessageBody": _BODY})
        place.sends()
        strangers = of_strangers(server.port, noisy)
        tenants = of_tenant(server.port, noisy, queue_url)
        chosen = [*strangers, *tenants]
        if plan.strangers_smoke:
            chosen = [strangers[0], strangers[4], tenants[0], tenants[3]]
        for onslaught in chosen:
            place.compare(onslaught)
        if not plan.strangers_smoke:
            _measure_idle(place)


def _account(server: ServerProcess) -> AccessKey:
    """A new account with the quotas of every account; the key of its root."""
    with Line(server.port, root_key(server)) as line:
        account = line.call("TidegateCreateAccount", {"Name": "noisy"})["AccountId"]
        made = line.call("TidegateCreateAccessKey", {"AccountId": account})
        return AccessKey(made["AccessKeyId"], made["SecretAccessKey"])


def _measure_idle(place: _Place) -> None:
    plan, port = place.plan, place.server.port
    with Line(port, root_key(place.server)) as line:
        for number in range(_QUEUES):
            line.create_queue(f"scraped-{number}")
    alone = place.sends()
    before_mb = anonymous_bytes(place.server.pid) / _MB
    scrape = request(port, b"", {}, method="GET", target="/metrics")
    name = f"{plan.strangers_idle:,} idle connections and {_SCRAPERS} scrapers"
    with _BesideProcess(
        port, Onslaught(name, [scrape], _SCRAPERS, idle=plan.strangers_idle)
    ) as running:
        beside = place.sends()
    grown_mb = anonymous_bytes(place.server.pid) / _MB - before_mb
    place.report.say(f"{name}\n    answered {running.answers}")
    times = beside.p99_ms / alone.p99_ms
    place.report.state(Fact(f"    {name}: p99 to that alone", times, "times", IDLE_TIMES_MAX))
    place.report.state(Fact("    the same: memory", grown_mb, "MB"))
