"""The same work by all contestants, in turns, so that what disturbs the machine hits all alike."""

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.canned_server import canned_server
from tests.benchmarks.load import Group, Outcome
from tests.benchmarks.peers.contestants import OURS, Contestant, contestants
from tests.benchmarks.peers.table import Comparison, aims, markdown, text
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Row, heading, machine_facts, without_nan
from tests.benchmarks.server_process import FIFO, ServerError
from tests.benchmarks.throughput import ReceiveRuns, ceiling_hz, fill, row_of, run_load
from tests.benchmarks.wire import BATCH, ResponseError

TRIAL_MESSAGES: Final = 200
TRIAL_ROUNDS: Final = 2
"""What the queue of a slow peer holds: little, for some take longer the more there is."""

LOST_RUN: Final = "a run failed"
ERROR_CHARACTERS: Final = 300

Run = Callable[[], Outcome]


class Contest:
    """Puts all contestants to a work. They run; a canned server shows what the generator can do."""

    def __init__(self, entered: Sequence[Contestant], canned_port: int, plan: Plan) -> None:
        self._entered = entered
        self._canned_port = canned_port
        self._plan = plan

    def sends(self, name: str, work: str, connections: int) -> Comparison:
        """Send as fast as the answers come."""
        plan = self._plan

        def prepare(contestant: Contestant, group: Group) -> Run:
            run_load(contestant.server, [group], plan.warm_up_s)
            return lambda: run_load(
                contestant.server, [group], plan.seconds, warm_up_s=plan.warm_up_s / 5
            )

        return self._compare(name, Group(work, "", connections), prepare)

    def fifo(self, name: str, work: str, connections: int, count: int) -> Comparison:
        """Send to a FIFO queue as fast as the answers come; or receive and delete that, too.

        Each run has a queue of its own: what was in flight when one ended would block groups.
        """
        plan = self._plan

        def prepare(contestant: Contestant, group: Group) -> Run:
            numbers = itertools.count()

            def run() -> Outcome:
                queue = f"{work}-{count}-{connections}-{next(numbers)}.fifo"
                url = contestant.create_queue(queue, FIFO)
                of_queue = replace(group, queue_url=url)
                return run_load(contestant.server, [of_queue], plan.seconds, plan.warm_up_s)

            return run

        groups = plan.peer_fifo_groups
        group = Group(work, "", connections, count=count, message_groups=groups)
        return self._compare(f"FIFO: {name}", group, prepare)

    def receives(self, name: str, connections: int, count: int) -> Comparison:
        """Receive and delete; each queue holds more than its server can take in a run."""

        def prepare(contestant: Contestant, group: Group) -> Run:
            runs = ReceiveRuns(
                contestant.server,
                group,
                self._plan.seconds,
                trial=max(TRIAL_MESSAGES, TRIAL_ROUNDS * connections * count),
                fill_s_max=self._plan.peer_fill_s_max,
            )

            def fill_and_run() -> Outcome:
                runs.fill()
                return runs.run()

            return fill_and_run

        group = Group("receive_delete", "", connections, count=count)
        return self._compare(name, group, prepare)

    def backlog(self, connections: int) -> Comparison:
        """Receive and delete from a long backlog: as long as can be filled within a bound."""
        plan = self._plan
        waiting: dict[str, int] = {}

        def prepare(contestant: Contestant, group: Group) -> Run:
            fill(contestant.server, group.queue_url, plan.peer_backlog, plan.peer_fill_s_max)
            waiting[contestant.name] = contestant.waiting(group.queue_url)
            return lambda: run_load(contestant.server, [group], plan.seconds)

        name = f"receive 10, delete them, {plan.peer_backlog:,} waiting"
        compared = self._compare(name, Group("receive_delete", "", connections), prepare)
        return replace(compared, waiting=waiting)

    def _compare(
        self, name: str, group: Group, prepare: Callable[[Contestant, Group], Run]
    ) -> Comparison:
        queue = "".join(each if each.isalnum() else "-" for each in name)
        turns = [Turns(each) for each in self._entered]
        for turn in turns:
            turn.prepare(f"{queue}-{group.connections}", group, prepare)
        for _ in range(self._plan.runs):
            for turn in turns:
                turn.take()
        ceiling = ceiling_hz(self._canned_port, group, self._plan)
        rows = {turn.contestant.name: turn.row(group, ceiling) for turn in turns}
        return Comparison(name, group.connections, rows)


class Turns:
    """The runs of one contestant at one work. A peer's failures are counted; ours are raised."""

    def __init__(self, contestant: Contestant) -> None:
        self.contestant = contestant
        self._run: Run | None = None
        self._outcomes: list[Outcome] = []
        self._failures: Counter[str] = Counter()

    def prepare(
        self, queue: str, group: Group, prepare: Callable[[Contestant, Group], Run]
    ) -> None:
        """Get ready, on a queue of its own."""
        with self._counting(), self.contestant.turn():
            url = self.contestant.create_queue(queue, {})
            self._run = prepare(self.contestant, replace(group, queue_url=url))

    def take(self) -> None:
        """Run once."""
        if self._run is not None:
            with self._counting(), self.contestant.turn():
                self._outcomes.append(self._run())

    def row(self, group: Group, ceiling: float) -> Row:
        """Return the medians of the runs, and all errors."""
        row = row_of(self.contestant.name, group, self._outcomes, ceiling)
        return replace(row, errors={**row.errors, **self._failures})

    @contextmanager
    def _counting(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ResponseError, ServerError) as failure:
            if self.contestant.name == OURS:
                raise
            self._failures[f"{LOST_RUN}: {failure!r}"[:ERROR_CHARACTERS]] += 1


def _steps(contest: Contest, plan: Plan) -> list[Callable[[], Comparison]]:
    steps: list[Callable[[], Comparison]] = []
    for connections in plan.peer_connections:
        steps += [
            partial(contest.sends, "send", "send", connections),
            partial(contest.sends, "send in batches of 10", "send_batch", connections),
            partial(contest.receives, "receive 1, delete it", connections, 1),
            partial(contest.receives, "receive 10, delete them", connections, BATCH),
        ]
    steps.append(partial(contest.backlog, plan.peer_backlog_connections))
    for connections in plan.peer_connections:
        steps += [
            partial(contest.fifo, "send", "send", connections, 1),
            partial(contest.fifo, "send in batches of 10", "send_batch", connections, BATCH),
            partial(contest.fifo, "send 1, receive it, delete it", "cycle", connections, 1),
            partial(
                contest.fifo, "send 10, receive them, delete them", "cycle", connections, BATCH
            ),
        ]
    return steps


def compare(folder: Path, peers: Sequence[str], plan: Plan, json_path: Path | None) -> int:
    """Run it, print it, save it; how many requests our own server failed.

    Raises:
        UnavailableError: a peer is not installed.
    """
    entered = contestants(folder, peers)
    labels = {each.name: f"{each.name} {each.version}, {each.keeps}" for each in entered}
    machine = machine_facts(folder)
    print(heading(machine), flush=True)
    compared: list[Comparison] = []
    with ExitStack() as started:
        canned_port = started.enter_context(canned_server())
        for contestant in entered:
            started.enter_context(contestant.server)
            started.callback(contestant.resume)
        for step in _steps(Contest(entered, canned_port, plan), plan):
            compared.append(step())
            print(f"\n{text(compared[-1], labels)}", flush=True)
    print(f"\n{markdown(compared, labels)}\n")
    print("\n".join(aims(compared)))
    if json_path is not None:
        json_path.write_text(json.dumps(_as_json(machine, labels, compared), indent=1) + "\n")
    return sum(sum(each.rows[OURS].errors.values()) for each in compared)


def _as_json(
    machine: dict[str, Any], labels: dict[str, str], compared: Sequence[Comparison]
) -> object:
    return without_nan(
        {
            "machine": machine,
            "contestants": labels,
            "comparisons": [dataclasses.asdict(each) for each in compared],
        }
    )
