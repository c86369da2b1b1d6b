"""What a tenant at ten times its quota does to a quiet one: the quiet one's times, in turns."""

from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.benchmarks import generator
from tests.benchmarks.latency import Latency, median
from tests.benchmarks.load import Group, Load, Outcome
from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.secured import create_account, create_queue, secured_server
from tests.benchmarks.throughput import row_of

ALONE: Final = "quiet alone"
BESIDE: Final = "quiet beside noisy"
NOISY: Final = "noisy, at 10 times its quota"
THROTTLED: Final = "RequestThrottled"
TIMES_MAX: Final = 2.0
TENFOLD: Final = 10


def measure_isolation(folder: Path, log_level: str, plan: Plan, report: Report) -> None:
    """Report the times of the quiet tenant's calls, alone and beside the noisy one."""
    quota_hz = plan.isolation_quota_hz
    with secured_server(folder, "isolation", log_level) as server:
        quiet_key = create_account(server, "quiet", {})
        noisy_key = create_account(server, "noisy", {"account_send_per_s": quota_hz})
        quiet = Group(
            "cycle",
            create_queue(server, quiet_key, "quiet", {}),
            plan.isolation_quiet_connections,
            rate_hz=plan.isolation_quiet_hz,
            count=1,
            key=quiet_key,
        )
        noisy = Group(
            "send",
            create_queue(server, noisy_key, "noisy", {}),
            plan.isolation_noisy_connections,
            rate_hz=quota_hz * TENFOLD,
            key=noisy_key,
            tolerated=THROTTLED,
        )

        def load(group: Group, seconds: float, warm_up_s: float) -> Load:
            return Load(server.port, (group,), seconds, warm_up_s, server.pid)

        def run(group: Group) -> Outcome:
            return generator.run(load(group, plan.isolation_seconds, plan.warm_up_s))

        alone: list[Outcome] = []
        beside: list[Outcome] = []
        noise: list[Outcome] = []
        for _ in range(plan.isolation_turns):
            alone.append(run(quiet))
            # Each in a process of its own: the quiet one's answers do not wait for the noisy one's.
            with ThreadPoolExecutor(2) as pool:
                both = [pool.submit(run, group) for group in (quiet, noisy)]
                beside.append(both[0].result())
                noise.append(both[1].result())
    report.add(row_of(ALONE, quiet, alone))
    report.add(row_of(BESIDE, quiet, beside))
    report.add(row_of(NOISY, noisy, noise))
    served_hz = median([outcome.rate() for outcome in noise])
    refused_hz = median([outcome.tallies[0].refused / outcome.elapsed_s for outcome in noise])
    report.state(Fact("noisy tenant: sends served to its quota", served_hz / quota_hz, ""))
    report.state(Fact("noisy tenant: sends refused", refused_hz, "/s"))
    times = median([_p99_ms(two) / _p99_ms(one) for one, two in zip(alone, beside, strict=True)])
    report.state(Fact("quiet tenant: p99 beside the noisy one to alone", times, "", TIMES_MAX))


def _p99_ms(outcome: Outcome) -> float:
    """Of all calls of the quiet tenant."""
    times_s = array("d")
    for each in outcome.tallies[0].times_s.values():
        times_s.extend(each)
    return Latency.of(times_s).p99_ms
