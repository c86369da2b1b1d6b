"""Run many universes: `python -m tests.simulation --seeds 1000`."""

import argparse
import gc
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

from tests.lanes.commands import module_command
from tests.simulation.clock import several
from tests.simulation.clock import universe as clock
from tests.simulation.fifo import universe as fifo
from tests.simulation.groups import universe as groups
from tests.simulation.guarantees import universe as guarantees
from tests.simulation.keys import universe as keys
from tests.simulation.kinesis_queues import universe as kinesis_queues
from tests.simulation.planted import PlantedBug, seeds_to_find
from tests.simulation.planted.body_bugs import BODY_BUGS
from tests.simulation.planted.bugs import BUGS
from tests.simulation.planted.clock_bugs import CELL_TIME_BUGS, MACHINE_BUGS
from tests.simulation.planted.dead_letter_bugs import DEAD_LETTER_BUGS, FIFO_DEAD_LETTER_BUGS
from tests.simulation.planted.dropping_bugs import DROPPING_BUGS, FIFO_DROPPING_BUGS
from tests.simulation.planted.fair_bugs import FAIR_BUGS
from tests.simulation.planted.group_bugs import GROUP_BUGS
from tests.simulation.planted.guarantee_bugs import FIFO_GUARANTEE_BUGS, GUARANTEE_BUGS
from tests.simulation.planted.key_bugs import FIFO_KEY_BUGS, KEY_BUGS
from tests.simulation.planted.kinesis_queue_bugs import KINESIS_QUEUE_BUGS
from tests.simulation.planted.log_bugs import LOG_BUGS
from tests.simulation.planted.log_reader_bugs import LOG_READER_BUGS
from tests.simulation.planted.replication_bugs import CHAIN_BUGS, FANOUT_BUGS
from tests.simulation.planted.stream_bugs import BUGS as STREAM_BUGS
from tests.simulation.planted.stream_bugs import KEPT_BUGS, NUMBERED_BUGS
from tests.simulation.planted.stream_queue_bugs import STREAM_QUEUE_BUGS
from tests.simulation.redrive import universe as redrive
from tests.simulation.replicated import directed
from tests.simulation.replicated import universe as replicated
from tests.simulation.stream_queues import universe as stream_queues
from tests.simulation.streams import universe as streams
from tests.simulation.universe import Outcome, run, run_dropping, run_on_machines

PROGRESS_S = 2.0
SEEDS_AT_ONCE = 4
"""Handed to a process together."""
OBJECTS_UNTIL_COLLECTED = 50_000
"""Most objects of a universe live as long as it: looking through them rarely saves a tenth."""
VIOLATIONS_SHOWN, LINES_SHOWN, COLUMNS_SHOWN = 3, 60, 400
KINDS: Mapping[str, Callable[[int], Outcome]] = {
    "standard": run,
    "fifo": fifo.run,
    "dropping": run_dropping,
    "dropping-fifo": fifo.run_dropping,
    "machines": run_on_machines,
    "machines-fifo": fifo.run_on_machines,
    "redrive": redrive.run,
    "redrive-fifo": partial(redrive.run, fifo=True),
    "guarantees": guarantees.run,
    "guarantees-fifo": partial(guarantees.run, fifo=True),
    "keys": keys.run,
    "keys-fifo": keys.run_fifo,
    "groups": groups.run,
    "clock": clock.run,
    "clock-several": several.run,
    "clock-several-fifo": partial(several.run, fifo=True),
    "replicated": replicated.run,
    "replicated-fifo": partial(replicated.run, fifo=True),
    "streams": streams.run,
    "streams numbered": streams.run_numbered,
    "streams kept": streams.run_kept,
    "queues over streams": stream_queues.run,
    "queues over streams replicated": partial(stream_queues.run, loses=True),
    "queues over streams half way": stream_queues.run_half_way,
    "queues over streams purged": stream_queues.run_purged,
    "queues over streams kept": stream_queues.run_kept,
    "kinesis queues": kinesis_queues.run,
    "kinesis queues replicated": partial(kinesis_queues.run, loses=True),
    **{
        f"replicated {how}": partial(replicated.run, directed=how)
        for how in directed.STANDARD_KINDS
    },
    **{
        f"replicated-fifo {how}": partial(replicated.run, fifo=True, directed=how)
        for how in directed.FIFO_KINDS
    },
}
PLANTED: Mapping[str, Sequence[PlantedBug]] = {
    "standard": (*BUGS, *BODY_BUGS, *FAIR_BUGS),
    "fifo": (*LOG_BUGS, *LOG_READER_BUGS),
    "dropping": DROPPING_BUGS,
    "dropping-fifo": FIFO_DROPPING_BUGS,
    "machines": MACHINE_BUGS,
    "redrive": DEAD_LETTER_BUGS,
    "redrive-fifo": FIFO_DEAD_LETTER_BUGS,
    "guarantees": GUARANTEE_BUGS,
    "guarantees-fifo": FIFO_GUARANTEE_BUGS,
    "keys": KEY_BUGS,
    "keys-fifo": FIFO_KEY_BUGS,
    "groups": GROUP_BUGS,
    "clock": CELL_TIME_BUGS,
    "replicated": FANOUT_BUGS,
    "replicated-fifo": CHAIN_BUGS,
    "streams": STREAM_BUGS,
    "streams numbered": NUMBERED_BUGS,
    "streams kept": KEPT_BUGS,
    "queues over streams": STREAM_QUEUE_BUGS,
    "kinesis queues": KINESIS_QUEUE_BUGS,
}


def main() -> int:
    """Run seeds, print what fails; 1 if anything did."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds of each kind")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--verbose", action="store_true", help="print the whole history")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    parser.add_argument("--planted", action="store_true", help="print seeds to find planted bugs")
    parser.add_argument("--check", action="store_true", help="only check the options")
    parser.add_argument(
        "--processes",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many run seeds side by side (as many as there are cores)",
    )
    parser.add_argument(
        "--kind",
        choices=KINDS,
        action="append",
        dest="kinds",
        help="which universes (all of them); may be given again",
    )
    options = parser.parse_args()
    kind = options.kinds[0] if options.kinds else None
    bugs = PLANTED.get(kind or "standard", ())
    if options.planted and not bugs:
        parser.error(f"no bugs are planted in {kind}: choose from {', '.join(PLANTED)}")
    if options.check:
        return 0
    if options.planted:
        return _print_seeds_to_find(bugs, options.seeds)
    if options.seed is not None:
        kind = kind or "standard"
        outcome = KINDS[kind](options.seed)
        print(outcome.plan)
        if options.verbose:
            for index in range(len(outcome.history.events)):
                print(outcome.history.line(index))
        if outcome.violations:
            print(_report(options.seed, outcome, kind))
        return 1 if outcome.violations else 0
    seeds = range(options.first, options.first + options.seeds)
    return max(
        _run_many(kind, seeds, options.processes, keep_going=options.keep_going)
        for kind in options.kinds or KINDS
    )


def _print_seeds_to_find(bugs: Sequence[PlantedBug], seeds_max: int) -> int:
    missed = 0
    for bug in bugs:
        found = seeds_to_find(bug, seeds_max)
        missed += found is None
        seeds = bug.first + found[0] if found else "missed"
        print(f"| {bug.name} | {', '.join(bug.invariants)} | {seeds} |", flush=True)
    return 1 if missed else 0


class _Run(NamedTuple):
    """What is kept of a universe; `report` says what went wrong in it."""

    seed: int
    requests: int
    redelivered: int
    report: str


def _run_one(kind: str, seed: int) -> _Run:
    try:
        outcome = KINDS[kind](seed)
    except Exception:  # noqa: BLE001 - a universe that breaks off has failed, and others go on
        told = traceback.format_exc()
        return _Run(seed, 0, 0, f"\nseed {seed} breaks off:\n{told}\n{_replay(kind, seed)}")
    report = _report(seed, outcome, kind) if outcome.violations else ""
    return _Run(seed, outcome.requests, outcome.redelivered, report)


def _collect_rarely() -> None:
    gc.freeze()
    gc.set_threshold(OBJECTS_UNTIL_COLLECTED)


def _run_many(kind: str, seeds: range, processes: int, *, keep_going: bool) -> int:
    began_s = shown_s = time.monotonic()
    failed: list[int] = []
    requests = redelivered = 0
    with ProcessPoolExecutor(processes, initializer=_collect_rarely) as pool:
        runs = pool.map(partial(_run_one, kind), seeds, chunksize=SEEDS_AT_ONCE)
        for done, ran in enumerate(runs, start=1):
            requests += ran.requests
            redelivered += ran.redelivered
            if ran.report:
                failed.append(ran.seed)
                print(ran.report, flush=True)
            ends = done == len(seeds) or (ran.report != "" and not keep_going)
            now_s = time.monotonic()
            if now_s - shown_s > PROGRESS_S or ends:
                shown_s = now_s
                rate = done / (now_s - began_s)
                print(
                    f"{kind}: {done} seeds, {len(failed)} failed, {rate:.1f} seeds/s,"
                    f" {requests / done:.0f} requests a seed",
                    file=sys.stderr,
                )
            if ends:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    print(f"{kind}: failed seeds: {failed}" if failed else f"{kind}: {len(seeds)} seeds, all well")
    if redelivered:
        print(f"{kind}: {redelivered} messages came again after their delete, as they may")
    return 1 if failed else 0


def _report(seed: int, outcome: Outcome, kind: str) -> str:
    lines: list[str] = []
    for violation in outcome.violations[:VIOLATIONS_SHOWN]:
        lines += ["", f"seed {seed}: {violation.invariant}: {violation.text}"]
        told = outcome.history.around(violation.words)[:LINES_SHOWN]
        lines += [f"     {line[:COLUMNS_SHOWN]}" for line in told]
    return "\n".join([*lines, "", _replay(kind, seed)])


def _replay(kind: str, seed: int) -> str:
    options = ("--kind", kind, "--seed", str(seed), "--verbose")
    return f"replay: {module_command('tests.simulation', *options)}"


if __name__ == "__main__":
    sys.exit(main())
