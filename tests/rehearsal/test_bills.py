"""Bills of what a server wrote while it was killed again and again, beside its clients' books."""

import json
import random
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from data_plane.usage.place import objects_of
from data_plane.usage.record import UsageRecord
from tests.integration.metered_client import Books, LostReplyError, MeteredClient, Send, Sums
from tests.integration.server_process import ROOT, ServerProcess

SPARK = ROOT / ".venvs/spark/bin/python"
BILL_S_MAX = 900
MINUTE_S = 60
MINUTE_TURNS_S_MAX = 600
TENANTS = ("111122223333", "222233334444")
QUEUES = ("orders", "mail", "events.fifo")
SENDS = ("SendMessage", "SendMessageBatch")
COUNTED = ("requests", "units", "messages", "bytes")
SEED = 8
REPEATED = 0.3
"""So many of the acknowledged sends are sent again."""
ENDS = ("killed", "killed late", "killed", "stopped")
"""How lives of the server end, in some order; late is when a minute was stored."""

LOCK = threading.Lock()


@dataclass
class Tenant:
    """What a tenant knows: what it was told of its sends, and when of each of its reads.

    Among the reads are sends of what had been acknowledged: they store nothing. `again` is what
    attempts without an answer may have been counted as beside that.
    """

    account: str
    sends: Sums = field(default_factory=Counter)
    again: Sums = field(default_factory=Counter)
    reads: list[tuple[float, Sums]] = field(default_factory=list)
    lost: int = 0

    def reads_at(self, minutes: Any) -> Sums:
        """Reads that were answered in these minutes."""
        found: Sums = Counter()
        for time_s, sums in self.reads:
            if int(time_s) // MINUTE_S in minutes:
                found += sums
        return found


@dataclass
class Life:
    """A server from its start to its end; `over` is for its clients."""

    server: ServerProcess
    over: threading.Event = field(default_factory=threading.Event)
    calls: int = 0


def send(life: Life, tenant: Tenant, url: str, left: list[Send], chance: random.Random) -> None:
    """First what earlier lives left unanswered, then more."""
    client = MeteredClient(life.server.port, tenant.account, Books())
    try:
        while left or not life.over.is_set():
            if not left:
                size, count = chance.choice((1, 300, 9_000, 70_000)), chance.choice((1, 1, 1, 10))
                left.append(Send(url, [size] * count, batch=count > 1 or chance.random() < 0.3))
            left[0].attempt(client)
            done = left.pop(0)
            life.calls += 1
            if chance.random() < REPEATED:
                repeated = done.repeat(client).again
                with LOCK:
                    tenant.reads.append((time.time(), repeated))
    except LostReplyError:
        return  # it is repeated in the next life
    finally:
        client.close()
        with LOCK:
            tenant.sends += client.books.sums
            tenant.again += client.books.again


def consume(life: Life, tenant: Tenant, url: str) -> None:
    client = MeteredClient(life.server.port, tenant.account, Books())
    try:
        while not life.over.is_set():
            client.receive_and_delete(url)
            noted = time.time()
            with LOCK:
                tenant.reads.append((noted, client.books.sums))
            client.books.sums = Counter()
    except LostReplyError:
        with LOCK:
            tenant.reads.append((time.time(), client.books.sums))
            tenant.lost += 1
    finally:
        client.close()


def live(
    life: Life, tenants: list[Tenant], left: dict[Any, list[Send]], chance: Any, end: str
) -> None:
    """Serve all tenants until the server dies or is stopped."""
    life.server.start()
    jobs: list[Future[None]] = []
    with ThreadPoolExecutor(len(TENANTS) * len(QUEUES) * 2) as pool:
        for tenant in tenants:
            opening = MeteredClient(life.server.port, tenant.account, Books())
            for url in [opening.create(name) for name in QUEUES]:
                waiting = left.setdefault((tenant.account, url), [])
                seeded = random.Random(chance.random())
                jobs.append(pool.submit(send, life, tenant, url, waiting, seeded))
                jobs.append(pool.submit(consume, life, tenant, url))
            opening.close()
        if end == "killed late":
            await_a_full_minute(life.server)
        enough = life.calls + chance.randrange(20, 120)
        while life.calls < enough:
            assert not all(job.done() for job in jobs)
            time.sleep(0.01)  # between two looks
        if end == "stopped":
            life.over.set()
            for job in jobs:
                job.result()
            assert life.server.stop() == 0
        life.server.kill()
        life.over.set()
        for job in jobs:
            job.result()


def await_a_full_minute(server: ServerProcess) -> None:
    """Until the server has stored a minute of what it serves now."""
    name = json.loads((server.data / "usage.writer").read_bytes())["writer"]
    mark = server.data / "usage" / "writers" / f"{name}.json"
    limit_s = time.monotonic() + MINUTE_TURNS_S_MAX
    while (told := json.loads(mark.read_bytes()))["complete_to"] == told["opened"]:
        assert time.monotonic() < limit_s
        time.sleep(0.2)  # between two looks


def store_again(place: Path, chance: random.Random) -> None:
    """As repeated deliveries do: some records once more, in other company and order."""
    rows = [row for _, found in stored(place) for row in found if chance.random() < 0.5]
    by_hour = sorted((UsageRecord(**row) for row in rows), key=lambda its: (its.writer, its.number))
    for name, content in objects_of(by_hour):
        (place / name).write_bytes(content)


def stored(place: Path) -> list[tuple[Path, list[dict[str, Any]]]]:
    return [
        (path, parquet.read_table(path, partitioning=None).to_pylist())
        for path in sorted((place / "records").rglob("*.parquet"))
    ]


def bill(place: Path, out: Path, period: str) -> None:
    options = {"usage": place, "out": out, "period": period}
    command = [str(SPARK), "-m", "glue_jobs.bill"]
    command += [f"--{name}={value}" for name, value in options.items()]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=BILL_S_MAX, check=False
    )
    assert ran.returncode in {0, 1}, ran.stderr  # 1: gaps were found


def billed(out: Path) -> dict[str, Sums]:
    """What the run's hourly usage has, by account."""
    sums: dict[str, Sums] = {account: Counter() for account in TENANTS}
    for path in (out / "usage_hourly").rglob("*.parquet"):
        for row in parquet.read_table(path, partitioning=None).to_pylist():
            if row["account"] in sums and row["queue"] and row["status"] == "2xx":
                for name in COUNTED:
                    sums[row["account"]][row["queue"], row["operation"], name] += row[name]
    return {account: +found for account, found in sums.items()}


def of_sends(sums: Sums) -> Sums:
    return Counter({key: number for key, number in sums.items() if key[1] in SENDS})


def check(tenant: Tenant, found: Sums, gaps: list[dict[str, int]]) -> int:
    """Sends are equal; of reads nothing is missing but in gaps. How many requests are missing."""
    all_time = range(1 << 40)
    everything = tenant.reads_at(all_time)
    # What was sent again is a request each time, and no message.
    for key in of_sends(found) | of_sends(tenant.sends):
        most = tenant.sends[key] + tenant.again[key] + everything[key]
        assert tenant.sends[key] <= found[key] <= most, key
        assert key[2] in {"requests", "units"} or found[key] == tenant.sends[key], key
    found = found - of_sends(tenant.sends)
    minutes = {m for gap in gaps for m in range(gap["from_minute"], gap["to_minute"] + 1)}
    outside = Counter(everything)
    outside.subtract(tenant.reads_at(minutes))
    for key in everything:
        assert found[key] >= outside[key], key
        if key[2] == "requests":
            assert found[key] <= everything[key] + tenant.lost + tenant.again[key], key
    missing = [everything[key] - found[key] for key in everything if key[2] == "requests"]
    return sum(max(0, many) for many in missing)


@pytest.mark.xdist_group("spark")
def test_bills_are_what_clients_were_told(tmp_path: Path, record_property: Any) -> None:
    if not SPARK.exists():
        pytest.skip(f"there is no Spark: {SPARK}")  # what installs it: `make rehearse`
    chance = random.Random(SEED)
    server = ServerProcess(tmp_path / "data", tmp_path / "log")
    tenants, left = [Tenant(account) for account in TENANTS], dict[Any, list[Send]]()
    period = time.strftime("%Y-%m", time.gmtime())
    try:
        for end in chance.sample(ENDS, len(ENDS)):
            live(Life(server), tenants, left, chance, end)
        # The last one is stopped as it should be, when all that was begun is answered.
        server.start()
        for (account, _), waiting in left.items():
            tenant = next(its for its in tenants if its.account == account)
            client = MeteredClient(server.port, account, Books())
            for one in waiting:
                one.attempt(client)
            client.close()
            tenant.sends += client.books.sums
            tenant.again += client.books.again
        assert server.stop() == 0
    finally:
        server.kill()
    place, out = server.data / "usage", tmp_path / "bills"
    bill(place, out, period)
    found = billed(out)
    (pointer,) = (out / "runs").rglob("*.json")
    said = json.loads(pointer.read_bytes())
    said = said.get("said", said)
    assert (said["quarantined"], said["conflicts"]) == ([], [])
    assert all(gap["to_minute"] >= 0 and not gap["last"] for gap in said["gaps"])
    missing = sum(check(its, found[its.account], said["gaps"]) for its in tenants)
    served = sum(n for its in tenants for key, n in its.reads_at(range(1 << 40)).items()
                 if key[2] == "requests")  # fmt: skip
    record_property("says", f"{missing} of {served} reads in {len(said['gaps'])} gaps")
    assert missing > 0

    store_again(place, chance)
    bill(place, tmp_path / "again", period)
    assert billed(tmp_path / "again") == found
