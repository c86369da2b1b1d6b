"""Sends to the server beside those to the least server of the same parts, in turns in one run.

What the machine makes of both tells how much of a figure is its own: a figure of another machine
says nothing here, but the ratio of the two does.
"""

import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from data_plane import VERSION
from tests.benchmarks.load import Group, Outcome
from tests.benchmarks.peers.contestants import ON_DISK, OURS, Contestant
from tests.benchmarks.peers.process import PeerProcess
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.server_process import ROOT, ServerProcess
from tests.benchmarks.throughput import row_of, run_load
from tests.benchmarks.wire import ACCOUNT
from tests.ports import free_port
from tests.rehearsal.processes import Program

BARE: Final = "bare server"
HALF: Final = 0.5


def measure_bare(folder: Path, log_level: str, plan: Plan, report: Report) -> None:
    """Report the sends of both, as fast as they can and at half of the real server's rate."""
    with ExitStack() as started:
        contestants = both(folder / "beside", log_level, started)
        ours, bare = contestants
        groups = {OURS: Group("send", ours.create_queue("bare", {}), plan.bare_connections)}
        url = f"http://127.0.0.1:{bare.server.port}/{ACCOUNT}/bare"
        groups[BARE] = replace(groups[OURS], queue_url=url)
        rates_hz = in_turns("send", contestants, groups, plan, report)
        paced = {
            name: replace(group, connections=plan.paced_connections, rate_hz=rates_hz[OURS] * HALF)
            for name, group in groups.items()
        }
        in_turns("half_peak", contestants, paced, plan, report)
    ratio = rates_hz[BARE] / rates_hz[OURS]
    report.state(Fact("sends of the bare server to those of the real one", ratio, "times"))


def both(folder: Path, log_level: str, started: ExitStack) -> list[Contestant]:
    """The real server and the bare one, running; what they store goes to the folder."""
    folder.mkdir()
    ours = ServerProcess(folder / "data", folder / "log", ["--log-level", log_level])
    found = [
        Contestant(OURS, VERSION, ON_DISK, ours),
        Contestant(BARE, "", ON_DISK, PeerProcess(_bare(folder), folder / "bare-log")),
    ]
    for each in found:
        started.enter_context(each.server)
        started.callback(each.resume)
    return found


def in_turns(
    work: str, contestants: list[Contestant], groups: dict[str, Group], plan: Plan, report: Report
) -> dict[str, float]:
    """Report a row of each; their rates, in messages a second."""
    outcomes: dict[str, list[Outcome]] = {each.name: [] for each in contestants}
    for _ in range(plan.runs):
        for each in contestants:
            with each.turn():
                group = groups[each.name]
                outcome = run_load(each.server, [group], plan.seconds, plan.warm_up_s)
                outcomes[each.name].append(outcome)
    rows = [row_of(f"{work}, {name}", groups[name], found) for name, found in outcomes.items()]
    for row in rows:
        report.add(row)
    return {each.name: row.messages_hz for each, row in zip(contestants, rows, strict=True)}


def _bare(folder: Path) -> Program:
    data = folder / "bare-data"
    data.mkdir()
    port = free_port()
    command = [sys.executable, "-m", "tests.benchmarks.bare_server", str(port), str(data)]
    return Program("bare", command, port, folder=ROOT)
