"""A dependency that hangs for long: others go on, nobody waits in vain for long, and all recovers.

Nothing here is done by a human: the breakers open, try again, and close.
"""

import base64
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.integration.server_process import ServerProcess
from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.emulators import client
from tests.rehearsal.fault_proxy import FaultProxy, fault_proxy
from tests.rehearsal.faults import Fault, Storm
from tests.rehearsal.gate import Gate, gate_before
from tests.rehearsal.servers import serving
from tests.rehearsal.steady_load import (
    UNAVAILABLE,
    SteadyLoad,
    median_s,
    run_for,
    served,
    wait_for_service,
)

pytestmark = pytest.mark.xdist_group("ministack")

CALM_S: Final = 4.0
OPENS_S_MAX: Final = 120.0
OUTAGE_S: Final = 12.0
RECOVERS_S_MAX: Final = 120.0
AT_ONCE_S: Final = 1.0
"""A call that waits for what is away takes two seconds for each of its requests."""
GOODPUT_MIN: Final = 0.1
"""Of what it was before, on a machine that has other things to do, too."""


@pytest.fixture
def proxy(engine_url: EngineUrl) -> Iterator[FaultProxy]:
    with fault_proxy(engine_url("ministack")) as started:
        yield started


@pytest.fixture
def gate(engine_url: EngineUrl) -> Iterator[Gate]:
    with gate_before(engine_url("ministack")) as opened:
        yield opened


def random_text() -> str:
    """A body of 30 KB that does not get small by being packed."""
    return base64.b64encode(random.randbytes(22_500)).decode()


def circuit(server: ServerProcess, use: str) -> float:
    """The state of the breaker before this use of the table, from the metrics."""
    _, text = server.get("/metrics")
    (line,) = (
        line
        for line in text.splitlines()
        if line.startswith("tidegate_dependency_circuit_state") and f'/{use}"' in line
    )
    return float(line.split()[-1])


def await_open(server: ServerProcess, use: str) -> None:
    """Return when the breaker before this use of the table is open."""
    give_up_s = time.monotonic() + OPENS_S_MAX
    while circuit(server, use) == 0:
        assert time.monotonic() < give_up_s
        time.sleep(0.1)  # between two looks


def test_a_table_that_hangs(proxy: FaultProxy, tmp_path: Path) -> None:
    with serving(proxy.url, tmp_path) as (server,):
        sqs = server.client()
        url = sqs.create_queue(QueueName="outage")["QueueUrl"]
        calls: dict[str, Any] = {
            f"send {n}": lambda c: c.send_message(QueueUrl=url, MessageBody="m") for n in range(4)
        }
        calls["find"] = lambda c: c.get_queue_url(QueueName="outage")
        load = SteadyLoad(server, calls)
        sends = {kind for kind in calls if kind != "find"}
        with load.running():
            run_for(1)
            calm = run_for(CALM_S)
            proxy.storm = Storm(1, (Fault.SWALLOWED,), 1.0)
            await_open(server, "messages")
            requests_before = proxy.requests
            away = run_for(OUTAGE_S)
            requests = proxy.requests - requests_before
            assert circuit(server, "messages") > 0
            assert server.get("/health")[0] == UNAVAILABLE
            proxy.storm = None
            back_s, _ = run_for(0)
            took_s = wait_for_service(load, back_s, {*calls}, RECOVERS_S_MAX)
            after = run_for(CALM_S)
        # Who waits when the table comes back may be served.
        refused = [
            one
            for one in load.during(*away)
            if one.kind in sends and one.began_s + one.took_s < away[1]
        ]
        found = load.during(*away, "find")
        goodput = served(load.during(*after)) / served(load.during(*calm))
        print(
            f"recovered in {took_s:.1f} s, goodput {goodput:.2f}; of {len(refused)} sends while it"
            f" was away the median took {median_s(refused) * 1000:.1f} ms; {requests} requests were"
            f" sent to the table; {served(found)} of {len(found)} times the queue was found, the"
            f" slowest in {max(one.took_s for one in found):.2f} s"
        )
        assert {one.status for one in refused} == {UNAVAILABLE}
        assert median_s(refused) < AT_ONCE_S, "they do not wait for what does not come"
        assert served(found) == len(found), "what a queue is, is known from before"
        assert median_s(found) < AT_ONCE_S
        # Probes and no more: three at a time in as many seconds, for each of the two uses.
        assert requests <= 2 * 3 * ((away[1] - away[0]) / 2 + 2)
        assert goodput >= GOODPUT_MIN


def test_a_blob_store_that_hangs(proxy: FaultProxy, gate: Gate, tmp_path: Path) -> None:
    s3 = client("s3", gate.url)
    s3.create_bucket(Bucket="bodies")
    options = ("--blobs", "s3://bodies", "--blobs-endpoint", gate.url)
    with serving(proxy.url, tmp_path, *options) as (server,):
        sqs = server.client()
        small = sqs.create_queue(QueueName="small")["QueueUrl"]
        big = sqs.create_queue(QueueName="big")["QueueUrl"]

        def send_big(c: Any) -> None:
            c.send_message(QueueUrl=big, MessageBody=random_text())

        def receive_small(c: Any) -> None:
            for message in c.receive_message(QueueUrl=small).get("Messages", ()):
                c.delete_message(QueueUrl=small, ReceiptHandle=message["ReceiptHandle"])

        bigs = [f"big {n}" for n in range(4)]
        calls: dict[str, Any] = {
            "send": lambda c: c.send_message(QueueUrl=small, MessageBody="m"),
            "receive": receive_small,
            **dict.fromkeys(bigs, send_big),
        }
        load = SteadyLoad(server, calls)
        with load.running():
            run_for(1)
            calm = run_for(CALM_S)
            gate.shut()
            shut_s, _ = run_for(0)
            await_open(server, "bodies")
            away = shut_s, run_for(OUTAGE_S)[1]
            assert circuit(server, "bodies") > 0
            assert circuit(server, "messages") == 0
            gate.open()
            back_s, _ = run_for(0)
            took_s = wait_for_service(load, back_s, {*calls}, RECOVERS_S_MAX)
        for kind in ("send", "receive"):
            before, meanwhile = load.during(*calm, kind), load.during(*away, kind)
            print(
                f"{kind}: median {median_s(before) * 1000:.1f} ms before,"
                f" {median_s(meanwhile) * 1000:.1f} ms meanwhile"
            )
            assert served(meanwhile) == len(meanwhile), "small messages go on"
            assert median_s(meanwhile) < AT_ONCE_S, "at their own pace"
        bigger = [one for kind in bigs for one in load.during(*away, kind)]
        late = [one for one in bigger if one.began_s > away[1] - 4]
        print(
            f"of {len(bigger)} bigger ones {served(bigger)} were served;"
            f" all was well {took_s:.1f} s after its return"
        )
        assert served(bigger) == len(bigger), "in their items"
        assert median_s(late) < AT_ONCE_S, "without a look at the blob store"
