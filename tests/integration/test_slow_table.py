"""A real server whose table is slow, or throttles: what it gets done, and what it says meanwhile.

The table is moto's, behind a proxy that delays or refuses. What is measured is compared with what
the proxy lets through, or with the same server a moment before.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.dynamodb_engine import Engine
from tests.integration.server_process import ServerProcess
from tests.rehearsal.fault_proxy import FaultProxy, fault_proxy
from tests.rehearsal.faults import Fault, Storm
from tests.rehearsal.servers import serving
from tests.rehearsal.steady_load import SteadyLoad, run_for, served

CONNECTIONS: Final = 8
SLOW: Final = Storm(1, (Fault.SLOW,), 1.0, patience_s=1.0)
THROTTLING: Final = Storm(1, (Fault.THROTTLED,), 0.5)
SLOW_GOODPUT_MIN: Final = 0.5
THROTTLED_GOODPUT_MIN: Final = 0.45
PAGE_S_MAX: Final = 1.0
"""A page waits for a quarter of a second at most; the rest is for a busy machine."""

DEADLINE_S: Final = 15.0


@pytest.fixture
def proxy() -> Iterator[FaultProxy]:
    engine = Engine()
    with fault_proxy(engine.url) as started:
        yield started
    engine.stop()


@pytest.fixture
def server(proxy: FaultProxy, tmp_path: Path) -> Iterator[ServerProcess]:
    with serving(proxy.url, tmp_path, "--connections", str(CONNECTIONS)) as (started,):
        yield started


def sends(server: ServerProcess, clients: int) -> dict[str, Any]:
    """A client for each queue, so that no two share a write."""
    urls = [server.client().create_queue(QueueName=f"slow-{n}")["QueueUrl"] for n in range(clients)]

    def send(url: str) -> Any:
        return lambda client: client.send_message(QueueUrl=url, MessageBody="m")

    return {f"send {n}": send(url) for n, url in enumerate(urls)}


def pages(server: ServerProcess, for_s: float) -> list[tuple[str, int, float]]:
    """What /health and /metrics answer for so long, and how fast."""
    told = []
    end_s = time.monotonic() + for_s
    while time.monotonic() < end_s:
        for path in ("/health", "/metrics"):
            began_s = time.monotonic()
            status, _ = server.get(path)
            told.append((path, status, time.monotonic() - began_s))
        time.sleep(0.3)  # between two looks
    return told


def check(told: list[tuple[str, int, float]]) -> None:
    """Slow and throttled is not ill, and told at once; one look may meet a busy machine."""
    assert {status for _, status, _ in told} == {200}
    for path in ("/health", "/metrics"):
        took_s = [took for asked, _, took in told if asked == path]
        assert statistics.median(took_s) < PAGE_S_MAX, path


@pytest.mark.nightly
def test_a_slow_table_serves_half_of_what_it_sustains(
    proxy: FaultProxy, server: ServerProcess
) -> None:
    load = SteadyLoad(server, sends(server, 3 * CONNECTIONS))
    with load.running():
        run_for(2)
        proxy.storm = SLOW
        run_for(4)
        begun_s = time.monotonic()
        check(pages(server, 16))
        ended_s = time.monotonic()
        proxy.storm = None
    during = load.during(begun_s, ended_s)
    # Served are also those that began before; what began at the end is not counted for it.
    sustained = CONNECTIONS * (ended_s - begun_s) / SLOW.late_s
    share = served(during) / sustained
    print(f"{served(during)} of {sustained:.0f} sends, {share:.2f} of what the table sustains")
    assert share >= SLOW_GOODPUT_MIN
    assert max(one.took_s for one in load.answered) <= DEADLINE_S + 2


@pytest.mark.nightly
def test_a_table_that_throttles_half_serves_nearly_half(
    proxy: FaultProxy, server: ServerProcess
) -> None:
    load = SteadyLoad(server, sends(server, 2 * CONNECTIONS))
    shares = []
    with load.running():
        run_for(2)
        for _ in range(3):  # in turns: the machine may be busier in one of them
            proxy.storm = None
            calm = run_for(2)
            proxy.storm = THROTTLING
            begun_s = time.monotonic()
            check(pages(server, 4))
            ended_s = time.monotonic()
            before = served(load.during(*calm)) / (calm[1] - calm[0])
            shares.append(served(load.during(begun_s, ended_s)) / (ended_s - begun_s) / before)
    print(f"goodput {shares} of what it was without; refused: {proxy.count(Fault.THROTTLED)}")
    assert proxy.count(Fault.THROTTLED) > 0
    assert max(shares) >= THROTTLED_GOODPUT_MIN
