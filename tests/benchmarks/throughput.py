"""Scenarios that say how much the server does, and how long each request takes."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from tests.benchmarks import generator
from tests.benchmarks.latency import Latency, median
from tests.benchmarks.load import Group, Load, Outcome
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Row
from tests.benchmarks.server_process import Line, ServerProcess
from tests.benchmarks.wire import BATCH

FILL_CONNECTIONS: Final = 32
FILL_S_MAX: Final = 3600.0
PREFILL_MARGIN: Final = 1.3
TRIAL_MESSAGES: Final = 2_000
_US_PER_S: Final = 1e6


class Target(Protocol):
    """A server of this machine that is measured."""

    @property
    def port(self) -> int:
        """Where it listens."""

    @property
    def pid(self) -> int:
        """Process that is charged with its CPU time, with its children."""

    @property
    def drain_s(self) -> float:
        """How long answers are awaited after a run."""


def run_load(
    target: Target, groups: Sequence[Group], seconds: float, warm_up_s: float = 0
) -> Outcome:
    """Run groups of connections against a server; raises as `generator.run` does."""
    return generator.run(
        Load(
            target.port,
            tuple(groups),
            seconds,
            warm_up_s,
            target.pid,
            drain_s=target.drain_s,
        )
    )


def fill(
    target: Target,
    queue_url: str,
    messages: int,
    seconds_max: float = FILL_S_MAX,
    message_groups: int = 0,
) -> Outcome:
    """Send so many messages, in batches, as fast as possible."""
    connections = max(1, min(FILL_CONNECTIONS, messages // BATCH))
    group = Group(
        "send_batch",
        queue_url,
        connections,
        messages_max=messages,
        message_groups=message_groups,
    )
    return run_load(target, [group], seconds_max)


class ReceiveRuns:
    """Runs that receive and delete, each from a queue that holds more than the run can take."""

    def __init__(
        self,
        target: Target,
        group: Group,
        seconds: float,
        trial: int = TRIAL_MESSAGES,
        fill_s_max: float = FILL_S_MAX,
    ) -> None:
        """Find out in a trial, with so many messages, how much that is."""
        self._target = target
        self._group = group
        self._seconds = seconds
        self._trial = trial
        self._fill_s_max = fill_s_max
        self._stored = 0
        self._rate_hz = 0.0
        self._fill_up(trial)
        self.run()

    def fill(self) -> None:
        """Store what the next run needs."""
        self._fill_up(int(self._rate_hz * self._seconds * PREFILL_MARGIN) + self._trial)

    def run(self) -> Outcome:
        """Receive and delete."""
        outcome = run_load(self._target, [self._group], self._seconds)
        self._stored = max(0, self._stored - outcome.messages)
        self._rate_hz = max(self._rate_hz, outcome.rate())
        return outcome

    def _fill_up(self, wanted: int) -> None:
        if self._stored < wanted:
            missing = wanted - self._stored
            filled = fill(self._target, self._group.queue_url, missing, self._fill_s_max)
            self._stored += filled.messages


def row_of(
    scenario: str, group: Group, outcomes: Sequence[Outcome], ceiling_hz: float = math.nan
) -> Row:
    """Return the medians of the runs of one group; the latency is that of its first operation."""
    errors: Counter[str] = Counter()
    for outcome in outcomes:
        errors.update(outcome.errors)
    times = [tally.times_s for outcome in outcomes for tally in outcome.tallies]
    operations = list(dict.fromkeys(name for each in times for name in sorted(each, reverse=True)))
    latencies = {
        name: Latency.median_of([Latency.of(each[name]) for each in times if name in each])
        for name in operations
    }
    first = operations[0] if operations else ""
    return Row(
        scenario=scenario,
        connections=group.connections,
        messages_hz=median([outcome.rate() for outcome in outcomes]),
        calls_hz=median([_calls(outcome) / outcome.elapsed_s for outcome in outcomes]),
        latency=latencies.pop(first, Latency.of([])),
        server_us=median([_server_us(outcome) for outcome in outcomes]),
        generator_share=median([o.generator_cpu_s / o.elapsed_s for o in outcomes]),
        other_cores=median([outcome.other_cores for outcome in outcomes]),
        ceiling_hz=ceiling_hz,
        runs_hz=tuple(outcome.rate() for outcome in outcomes),
        also=latencies,
        errors=dict(errors),
    )


def _calls(outcome: Outcome) -> int:
    return sum(len(times) for tally in outcome.tallies for times in tally.times_s.values())


def _server_us(outcome: Outcome) -> float:
    return outcome.server_cpu_s / outcome.messages * _US_PER_S if outcome.messages else math.nan


def ceiling_hz(canned_port: int, group: Group, plan: Plan) -> float:
    """Calls a second that the generator reaches against the canned server."""
    load = Load(canned_port, (group,), plan.ceiling_s, plan.ceiling_s / 5)
    outcome = generator.run(load)
    return _calls(outcome) / outcome.elapsed_s


class Bench:
    """Runs scenarios against one server; a canned server shows what the generator could do."""

    def __init__(self, server: ServerProcess, canned_port: int, plan: Plan) -> None:
        self._server = server
        self._canned_port = canned_port
        self._plan = plan

    def _queue(self, name: str) -> str:
        with Line(self._server.port) as line:
            return line.create_queue(name)

    def _run(self, *groups: Group, warm_up_s: float | None = None) -> Outcome:
        plan = self._plan
        warm_up_s = plan.warm_up_s if warm_up_s is None else warm_up_s
        return run_load(self._server, groups, plan.seconds, warm_up_s)

    def ceiling_hz(self, group: Group) -> float:
        """Calls a second that the generator reaches against the canned server."""
        return ceiling_hz(self._canned_port, group, self._plan)

    def sends(self, work: str, connections: int) -> Row:
        """Send as fast as the answers come."""
        group = Group(work, self._queue(f"{work}-{connections}"), connections)
        outcomes = [
            self._run(group, warm_up_s=None if at == 0 else self._plan.warm_up_s / 5)
            for at in range(self._plan.runs)
        ]
        return row_of(work, group, outcomes, self.ceiling_hz(group))

    def paced_sends(self, rate_hz: float) -> Row:
        """Single sends at a steady rate."""
        group = Group("send", self._queue("paced"), self._plan.paced_connections, rate_hz=rate_hz)
        outcomes = [self._run(group) for _ in range(self._plan.runs)]
        return row_of("half_peak", group, outcomes, self.ceiling_hz(replace(group, rate_hz=0)))

    def receives(self, scenario: str, connections: int, count: int) -> Row:
        """Receive and delete, from a queue that holds more than the run can take."""
        queue_url = self._queue(f"{scenario}-{connections}")
        group = Group("receive_delete", queue_url, connections, count=count)
        runs = ReceiveRuns(self._server, group, self._plan.seconds)
        outcomes = []
        for _ in range(self._plan.runs):
            runs.fill()
            outcomes.append(runs.run())
        return row_of(scenario, group, outcomes, self.ceiling_hz(group))

    def end_to_end(self, rate_hz: int) -> Row:
        """Send at a steady rate to consumers in long polls; the latency is that of a message."""
        consumers = self._plan.consumers
        queue_url = self._queue(f"end-to-end-{rate_hz}")
        producers = Group("send", queue_url, consumers, rate_hz=rate_hz)
        polls = Group("long_poll", queue_url, consumers)
        outcomes = [self._run(polls, producers) for _ in range(self._plan.runs)]
        row = row_of(f"end_to_end at {rate_hz}/s", polls, outcomes)
        delivered = [Latency.of(outcome.tallies[0].deliveries_s) for outcome in outcomes]
        received = [outcome.tallies[0].messages for outcome in outcomes]
        return replace(
            row,
            messages_hz=median(
                [count / each.elapsed_s for count, each in zip(received, outcomes, strict=True)]
            ),
            latency=Latency.median_of(delivered),
            server_us=median(
                [
                    o.server_cpu_s / max(1, n) * _US_PER_S
                    for n, o in zip(received, outcomes, strict=True)
                ]
            ),
            also=_without_polls(row.also),
        )


def _without_polls(latencies: Mapping[str, Latency]) -> dict[str, Latency]:
    """A long poll takes as long as nothing comes: that is no cost."""
    return {name: each for name, each in latencies.items() if name != "long_poll"}
