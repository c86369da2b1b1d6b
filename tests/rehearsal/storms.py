"""A storm over some queues of some servers: rage, calm, and what was wrong then."""

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.integration.server_process import ServerProcess
from tests.rehearsal.fault_proxy import FaultProxy
from tests.rehearsal.faults import Fault, Storm
from tests.rehearsal.ledger import Failure, violations
from tests.rehearsal.workload import Workload

CELL_DEADLINE_S: Final = 0.5
"""Short, so that clients see failures, too."""

ANSWER_S_MAX: Final = 40.0
"""A call makes a few requests, one after the other, each repeated for the deadline and a bit."""

_SEEN_MIN: Final = 3
REQUESTS_MIN: Final = 100
PATIENCE_S: Final = 200.0
_STORM_S_MAX: Final = 600


class Scene(NamedTuple):
    """Servers that share a table, and the bad network behind them."""

    servers: Sequence[ServerProcess]
    proxy: FaultProxy


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What a storm did. `wrong` is what must never be."""

    wrong: list[str]
    seen: dict[Fault, int]
    failures: Counter[Failure]
    messages: int
    slowest_s: float


def storm_over(
    scene: Scene,
    storm: Storm,
    seeds: Sequence[int],
    *,
    requests_min: int = REQUESTS_MIN,
    patience_s: float = PATIENCE_S,
) -> Aftermath:
    """Let clients work on a queue for each seed until all faults were seen; then look.

    What is missing is waited for, for `patience_s`, which is longer than leases of the drain last.
    """
    proxy, urls = scene.proxy, [server.url for server in scene.servers]
    before, from_request = proxy.seen.copy(), proxy.requests
    workloads = [Workload(urls, seed) for seed in seeds]

    def seen() -> dict[Fault, int]:
        counts = dict.fromkeys(storm.faults, 0)
        for (fault, _), count in (proxy.seen - before).items():
            counts[fault] += count
        return counts

    proxy.storm = storm
    for workload in workloads:
        workload.begin()
    give_up_s = time.monotonic() + _STORM_S_MAX
    while min(seen().values()) < _SEEN_MIN or proxy.requests < from_request + requests_min:
        assert time.monotonic() < give_up_s, f"not every fault was seen: {seen()}"
        time.sleep(0.05)  # between two looks at what has happened
    proxy.storm = None
    for workload in workloads:
        workload.end()
    proxy.settle()
    with ThreadPoolExecutor() as pool:
        finals_s = list(pool.map(lambda workload: workload.drain(len(urls), patience_s), workloads))
    ledgers = [workload.ledger for workload in workloads]
    return Aftermath(
        wrong=[
            f"seed {seed}: {line}"
            for seed, ledger, final_s in zip(seeds, ledgers, finals_s, strict=True)
            for line in violations(ledger, final_s, ANSWER_S_MAX)
        ],
        seen=seen(),
        failures=sum((ledger.failures for ledger in ledgers), Counter()),
        messages=sum(len(ledger.sent) for ledger in ledgers),
        slowest_s=max(ledger.slowest_s for ledger in ledgers),
    )
