"""`python -m tests.benchmarks`: start a server, measure it, print and save what was measured."""

import argparse
import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.benchmarks.backlog import measure_backlog
from tests.benchmarks.bare import measure_bare
from tests.benchmarks.bills import measure_bills
from tests.benchmarks.canned_server import canned_server
from tests.benchmarks.fair import measure_fair
from tests.benchmarks.fifo import measure_fifo
from tests.benchmarks.groups import measure_groups
from tests.benchmarks.isolation import measure_isolation
from tests.benchmarks.peers.contest import compare
from tests.benchmarks.peers.contestants import PEERS
from tests.benchmarks.plan import OF_FIFO, SCENARIOS, Plan, smoke
from tests.benchmarks.profile_server import profile
from tests.benchmarks.report import Fact, Report, heading, machine_facts
from tests.benchmarks.security import measure_security
from tests.benchmarks.server_process import LAG_S, ROOT, ServerProcess
from tests.benchmarks.soak import measure_soak
from tests.benchmarks.strangers import measure_strangers
from tests.benchmarks.streams import measure_streams
from tests.benchmarks.throughput import Bench
from tests.benchmarks.wire import BATCH
from tests.rehearsal.processes import UnavailableError

PROFILED = (
    *("send", "send_batch", "receive_delete", "cycle"),
    *("fifo_send", "fifo_send_batch", "fifo_cycle", "secured_send", "put"),
)
P99_MS_MAX = 10
BY_NAME = ("bills", "soak")
"""Scenarios that run only if they are named."""

OF_THEIR_OWN = {
    *("bare", "backlog", "fair", "security", "isolation", "strangers", "streams", "groups"),
    *BY_NAME,
    *OF_FIFO,
}
"""Scenarios that start servers of their own."""

IN_FOLDERS = {
    "security": measure_security,
    "isolation": measure_isolation,
    "strangers": measure_strangers,
    "streams": measure_streams,
    "groups": measure_groups,
}
"""Those of them that take a folder and start all that they measure, in their order."""

HALF = 0.5
TYPICAL_CONNECTIONS = 64


def _options(arguments: list[str] | None) -> argparse.Namespace:
    names = "\n".join(f"  {name:<22} {what}" for name, what in SCENARIOS.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measure a server that is started for it.",
        epilog=f"scenarios:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--smoke", action="store_true", help="everything short and small: some minutes")
    add(
        "--targets",
        action="store_true",
        help="fail where a target is missed, too: times need a machine that does nothing else",
    )
    add(
        "--only",
        metavar="NAME",
        action="append",
        choices=sorted(SCENARIOS),
        default=[],
        help="run this scenario; may be given several times (default: all)",
    )
    add(
        "--peers",
        metavar="NAME",
        nargs="*",
        help="instead of the scenarios, put peers to the same work in the same run and print "
        f"ratios; of {', '.join(PEERS)} (default: all)",
    )
    add("--seconds", type=float, metavar="S", help="how long each run measures (default: 3)")
    add("--runs", type=int, metavar="N", help="runs, of which the median counts (default: 3)")
    add(
        "--backlog",
        type=int,
        metavar="N",
        help="messages of the long backlog (default: 1000000; with --peers 100000)",
    )
    add("--json", type=Path, metavar="FILE", help="save what was measured as JSON too")
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder on the disk to measure; what is made in it is removed (default: build)",
    )
    add(
        "--log-level",
        choices=("error", "warning", "info"),
        default="info",
        help="what the server logs, to a file (default: info, which is every request)",
    )
    add(
        "--profile",
        metavar="WORK",
        nargs="?",
        const="send",
        choices=PROFILED,
        help="instead of measuring, print which functions of the server take the time; of "
        f"{', '.join(PROFILED)} (default: send); with py-spy if it is installed, else cProfile",
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.peers or ()) - set(PEERS):
        parser.error(f"--peers: unknown: {', '.join(sorted(unknown))}")
    if options.peers is not None and (options.only or options.profile):
        parser.error("--peers does not go with --only or --profile")
    return options


def _plan(options: argparse.Namespace) -> Plan:
    plan = smoke(Plan()) if options.smoke else Plan()
    given = {name: getattr(options, name) for name in ("seconds", "runs", "backlog")}
    given["peer_backlog"] = given["fair_backlog"] = given["stream_backlog"] = options.backlog
    given["strangers_seconds"] = given["soak_seconds"] = options.seconds
    given["fifo_seconds"] = given["fifo_cycle_seconds"] = options.seconds
    return replace(plan, **{name: value for name, value in given.items() if value})


def _measure_sends(bench: Bench, plan: Plan, chosen: list[str], report: Report) -> None:
    connections = plan.send_connections if "send" in chosen else (TYPICAL_CONNECTIONS,)
    best_hz = 0.0
    for each in connections:
        row = bench.sends("send", each)
        report.add(row)
        best_hz = max(best_hz, row.messages_hz)
    if "half_peak" in chosen:
        row = bench.paced_sends(best_hz * HALF)
        report.add(row)
        name = "single sends at half of the best rate: p99"
        report.state(Fact(name, row.latency.p99_ms, "ms", P99_MS_MAX))


def _measure_throughput(bench: Bench, plan: Plan, chosen: list[str], report: Report) -> None:
    if {"send", "half_peak"} & set(chosen):
        _measure_sends(bench, plan, chosen, report)
    steps = (
        ("send_batch", plan.batch_connections, lambda n: bench.sends("send_batch", n)),
        (
            "receive_delete",
            plan.batch_connections,
            lambda n: bench.receives("receive_delete", n, BATCH),
        ),
        (
            "receive_delete_single",
            plan.single_connections,
            lambda n: bench.receives("receive_delete_single", n, 1),
        ),
        ("end_to_end", plan.end_to_end_hz, bench.end_to_end),
    )
    for name, sizes, measure in steps:
        if name in chosen:
            for size in sizes:
                report.add(measure(size))


def _measure(folder: Path, options: argparse.Namespace) -> Report:
    plan = _plan(options)
    chosen = options.only or [name for name in SCENARIOS if name not in BY_NAME]
    server_options = ["--log-level", options.log_level]
    report = Report(machine_facts(folder))
    report.say(heading(report.machine))
    if set(chosen) - OF_THEIR_OWN:
        server = ServerProcess(folder / "data", folder / "log", server_options)
        with canned_server() as canned_port, server:
            _measure_throughput(Bench(server, canned_port, plan), plan, chosen, report)
    if "bare" in chosen:
        measure_bare(folder, options.log_level, plan, report)
    if "backlog" in chosen:
        server = ServerProcess(folder / "backlog-data", folder / "backlog-log", server_options)
        with server:
            measure_backlog(server, plan, report)
    if "fair" in chosen:
        with ServerProcess(folder / "fair-data", folder / "fair-log", server_options) as server:
            measure_fair(server, plan, report)
    for name, measure in IN_FOLDERS.items():
        if name in chosen:
            measure(folder, options.log_level, plan, report)
    if "soak" in chosen:
        measure_soak(folder, options.log_level, plan, report)
    if "bills" in chosen:
        measure_bills(plan, report)
    if set(chosen) & set(OF_FIFO):
        server = ServerProcess(folder / "fifo-data", folder / "fifo-log", server_options)
        with server:
            measure_fifo(server, plan, chosen, report)
    return report


def _compare(folder: Path, options: argparse.Namespace) -> int:
    peers = options.peers or PEERS
    try:
        return compare(folder, peers, _plan(options), options.json)
    except UnavailableError as missing:
        sys.exit(str(missing))


def main(arguments: list[str] | None = None) -> int:
    """Run it; the exit code is 1 if a request failed, or what does not depend on times is missed.

    With --targets also if any target is.
    """
    options = _options(arguments)
    if options.smoke:
        os.environ["TIDEGATE_LAG"] = LAG_S
    where = options.data or ROOT / "build"
    where.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-data-", dir=where) as name:
        folder = Path(name).resolve()
        if options.profile:
            level = ["--log-level", options.log_level]
            print(profile(folder, level, options.profile, _plan(options)))
            return 0
        if options.peers is not None:
            errors = _compare(folder, options)
            failures = [f"{errors} requests failed"] if errors else []
        else:
            report = _measure(folder, options)
            failures = report.failures(all_targets=options.targets)
            if options.json:
                report.save(options.json)
    for line in failures:
        print(line, file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
