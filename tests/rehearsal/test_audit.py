"""The audit of what a real server wrote, against what its client was told, and what was planted."""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ROOT, ServerProcess, run_command
from tests.rehearsal import emulators
from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.forged import FORGED_BLOCK, Forger
from tests.rehearsal.servers import serving
from tests.rehearsal.stored_items import Directory, StoredItems, Table

SPARK = ROOT / ".venvs/spark/bin/python"
AUDIT_S_MAX = 900
FACT_S_MAX = 900
RETENTION_S = 60


@dataclass
class Client:
    """A client that notes what it was told."""

    sqs: Any
    sent: Counter[str] = field(default_factory=Counter)
    deleted: Counter[str] = field(default_factory=Counter)

    def queue(self, name: str, **attributes: str) -> str:
        attributes |= {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        return str(self.sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def redrive(self, dead: str) -> str:
        asked = self.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
        arn = asked["Attributes"]["QueueArn"]
        return json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})

    def send(self, queue: str, count: int) -> None:
        for number in range(count):
            fifo = {}
            if queue.endswith(".fifo"):
                fifo = {"MessageGroupId": f"g{number % 3}", "MessageDeduplicationId": f"{number}"}
            self.sqs.send_message(QueueUrl=queue, MessageBody=f"message {number}", **fifo)
            self.sent[queue] += 1

    def send_batch(self, queue: str) -> None:
        entries = [{"Id": str(entry), "MessageBody": "b" * 99} for entry in range(10)]
        self.sqs.send_message_batch(QueueUrl=queue, Entries=entries)
        self.sent[queue] += 10

    def receive(self, queue: str, visible_s: int = 600) -> list[str]:
        answer = self.sqs.receive_message(
            QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=visible_s
        )
        return [message["ReceiptHandle"] for message in answer.get("Messages", ())]

    def delete(self, queue: str, count: int) -> None:
        while count > 0 and (handles := self.receive(queue)[:count]):
            for handle in handles:
                self.sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
                self.deleted[queue] += 1
            count -= len(handles)

    def let_die(self, queue: str, count: int) -> None:
        """Receive until all of its messages have moved to its dead-letter queue."""
        self.send(queue, count)
        deadline = time.monotonic() + FACT_S_MAX
        while sum(self.counts(queue)):
            assert time.monotonic() < deadline
            self.receive(queue, 1)
            time.sleep(0.1)  # between two looks

    def counts(self, queue: str) -> tuple[int, int]:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)
        return (int(answer["Attributes"][names[0]]), int(answer["Attributes"][names[1]]))


def traffic(client: Client) -> None:
    """Every way in which a message can end, in both kinds of queues."""
    dead, dead_fifo = client.queue("dead"), client.queue("dead.fifo")
    orders = client.queue("orders")
    short = client.queue("short", MessageRetentionPeriod=str(RETENTION_S))
    client.send(short, 4)
    fifo = client.queue("fifo.fifo")
    for _ in range(13):
        client.send_batch(orders)
    client.send(orders, 7)
    client.delete(orders, 90)
    client.send(fifo, 40)
    client.delete(fifo, 25)
    client.let_die(client.queue("failing", RedrivePolicy=client.redrive(dead)), 6)
    client.delete(dead, 2)
    client.let_die(client.queue("failing.fifo", RedrivePolicy=client.redrive(dead_fifo)), 3)
    purged = client.queue("purged")
    client.send(purged, 9)
    client.sqs.purge_queue(QueueUrl=purged)
    client.send(purged, 1)
    gone = client.queue("gone")
    client.send(gone, 5)
    client.sqs.delete_queue(QueueUrl=gone)
    delayed = client.queue("delayed", DelaySeconds="600")
    client.send(delayed, 3)
    # In flight until the end.
    assert client.receive(orders)
    redrive(client)


def redrive(client: Client) -> None:
    """Three messages die, and are moved back to where they came from."""
    dead = client.queue("dead-for-now")
    client.let_die(client.queue("mended", RedrivePolicy=client.redrive(dead)), 3)
    asked = client.sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    client.sqs.start_message_move_task(SourceArn=asked["Attributes"]["QueueArn"])
    deadline = time.monotonic() + FACT_S_MAX
    while sum(client.counts(dead)):
        assert time.monotonic() < deadline
        time.sleep(0.5)  # between two looks


def audit(usage: Path, exports: Path, out: Path) -> tuple[int, dict[str, Any]]:
    places = {"exports": exports, "usage": usage, "out": out}
    command = [str(SPARK), "-m", "glue_jobs.audit"]
    command += [f"--{name}={place}" for name, place in places.items()]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=AUDIT_S_MAX, check=False
    )
    reports = list(out.rglob("report.json"))
    assert len(reports) == 1, ran.stderr
    return ran.returncode, json.loads(reports[0].read_bytes())


def check_fates(report: dict[str, Any], client: Client) -> None:
    """What the audit says of each queue is what the client was told."""
    fates: Counter[tuple[str, str]] = Counter()
    for row in report["conservation"]:
        for name, value in row.items():
            if isinstance(value, int):
                fates[row["queue"], name] += value
    for url, sent in client.sent.items():
        queue = url.rpartition("/")[2]
        assert fates[queue, "sent"] - fates[queue, "came_by_move"] == sent, queue
    for url, deleted in client.deleted.items():
        assert fates[url.rpartition("/")[2], "deleted"] == deleted, url
    assert fates["failing", "dead_lettered"] == fates["dead", "came_by_move"] == 6
    assert fates["failing.fifo", "dead_lettered"] == fates["dead.fifo", "came_by_move"] == 3
    assert (fates["dead", "stored"], fates["dead", "deleted"]) == (4, 2)
    assert (fates["purged", "purged"], fates["purged", "stored"]) == (9, 1)
    assert fates["short", "expired"] == 4
    assert fates["gone", "gone_with_queue"] == 5
    assert not any(value for (_queue, name), value in fates.items() if name == "lost")

    assert (fates["delayed", "stored"], fates["mended", "came_by_move"]) == (3, 3)
    assert (fates["dead-for-now", "redriven"], fates["mended", "stored"]) == (3, 3)


@contextmanager
def served(server: ServerProcess, store: StoredItems) -> Iterator[Client]:
    """A server that has had all of the traffic, and has stopped when this is left."""
    client = Client(server.client(attempts=3))
    traffic(client)
    sent_s = time.monotonic()
    yield client
    # Until what is to expire has, and meanwhile more minutes of usage come to be.
    while time.monotonic() < sent_s + RETENTION_S + 10:
        client.counts(next(iter(client.sent)))
        time.sleep(5)  # between two looks
    assert server.stop() == 0
    assert store.read()


def plant(store: StoredItems, usage: Path, *, has_ledger: bool) -> Forger:
    forger = Forger(store, usage)
    forger.remove_a_segment("orders")
    forger.shrink_a_segment("orders", has_ledger=has_ledger)
    forger.forget_a_delete("orders")
    forger.add_a_segment("purged")
    forger.drop_an_access_record()
    if has_ledger:
        forger.add_to_the_ledger("short")
        # Without a ledger, usage that is damaged tells nothing of sends any more.
        forger.flip_a_byte()
    return forger


def check_planted(report: dict[str, Any], forger: Forger) -> None:
    """Everything that was planted is named, and nothing else."""
    found: Counter[Any] = Counter()
    candidates = set()
    for its in report["findings"]:
        if its["kind"] == "not_sent_candidate":
            candidates.add(its["message"])
        else:
            key = (its["kind"], its["queue"] or "", its["message"] or "", its["count"])
            found[key] += 1
    assert found == forger.expected
    forged = f"block {FORGED_BLOCK.hex()} index "
    assert bool(candidates) == report["has_ledger"] == any(forged in its for its in candidates)


def check_digests(usage: Path, forger: Forger) -> None:
    """The digests name every object that was changed, removed or added."""
    ran = run_command("digest", "verify", str(usage))
    assert ran.returncode == 1
    *told, _head = ran.stdout.splitlines()
    named = [line.split(": ")[1] for line in told]
    assert sorted(named) == sorted([*forger.changed, *forger.added]), ran.stdout


@pytest.fixture(autouse=True)
def needs_spark() -> None:
    if not SPARK.exists():
        pytest.skip(f"there is no Spark: {SPARK}")  # what installs it: `make rehearse`


@pytest.mark.xdist_group("spark")
def test_the_audit_of_what_a_server_wrote(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log")
    store, usage = Directory(server.data), server.data / "usage"
    whole = tmp_path / "exports"
    server.start()
    try:
        with served(server, store) as client:
            deadline = time.monotonic() + FACT_S_MAX
            # Until the first blocks were collected; each look is an export while it serves.
            while '"pk": "E|' not in exported(server, whole):
                assert time.monotonic() < deadline
                time.sleep(5)  # between two looks
    finally:
        server.kill()
    store.export(whole)
    code, report = audit(usage, whole, tmp_path / "of-whole")
    assert (code, report["findings"]) == (0, [])
    assert report["has_ledger"]
    check_fates(report, client)

    assert run_command("digest", "add", str(usage), "--apart", "writers/").returncode == 0
    assert run_command("digest", "verify", str(usage)).returncode == 0
    forger = plant(store, usage, has_ledger=True)
    store.export(whole)
    code, report = audit(usage, whole, tmp_path / "of-planted")
    assert code == 1
    check_planted(report, forger)
    check_digests(usage, forger)


def test_a_queue_that_is_deleted_and_made_anew(tmp_path: Path) -> None:
    """No export sees the first one, nor its definition; what was sent to it is accounted for."""
    options = ("--no-sixty-second-rules", "--request-deadline", "2")
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=options)
    store = Directory(server.data)
    server.start()
    try:
        client = Client(server.client(attempts=3))
        url = client.queue("again")
        client.send(url, 5)
        client.delete(url, 2)
        client.sqs.delete_queue(QueueUrl=url)
        client.send(client.queue("again"), 3)
        deadline = time.monotonic() + FACT_S_MAX
        while '"pk": "X|"' in exported(server, tmp_path / "looks"):
            assert time.monotonic() < deadline
            time.sleep(2)  # between two looks
        assert server.stop() == 0
    finally:
        server.kill()
    store.export(tmp_path / "exports")
    code, report = audit(server.data / "usage", tmp_path / "exports", tmp_path / "out")
    assert (code, report["findings"]) == (0, [])
    first, second = sorted(report["conservation"], key=lambda row: -row["sent"])
    assert first["queue"] == second["queue"] == "again"
    assert (first["sent"], first["deleted"], first["gone_with_queue"]) == (5, 2, 3)
    assert (second["sent"], second["stored"]) == (3, 3)


def exported(server: ServerProcess, out: Path) -> str:
    """Export; what was exported."""
    ran = run_command("export", str(out), "--data", str(server.data))
    assert ran.returncode == 0, ran.stderr
    folder = ran.stdout.partition(":")[0]
    return run_command("export", "show", folder, "--limit", "100000").stdout


@pytest.mark.parametrize("engine", [pytest.param("moto", marks=pytest.mark.xdist_group("moto"))])
def test_the_audit_of_a_table(engine_url: EngineUrl, engine: str, tmp_path: Path) -> None:
    url, exports = engine_url(engine), tmp_path / "exports"
    with serving(url, tmp_path) as (server,):
        name = server.options[server.options.index("--table") + 1]
        store = Table(emulators.client("dynamodb", url), name)
        with served(server, store) as client:
            pass
    usage = server.data / "usage"
    store.export(exports)
    code, report = audit(usage, exports, tmp_path / "of-whole")
    assert (code, report["findings"]) == (0, [])
    assert not report["has_ledger"]
    check_fates(report, client)

    forger = plant(store, usage, has_ledger=False)
    store.export(exports)
    code, report = audit(usage, exports, tmp_path / "of-planted")
    assert code == 1
    check_planted(report, forger)
