"""The audit of what a real server wrote, against what its client was told."""

import json
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import ROOT, ServerProcess, run_command

SPARK = ROOT / ".venvs/spark/bin/python"
AUDIT_S_MAX = 900
FACT_S_MAX = 120
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


def export(server: ServerProcess, out: Path) -> str:
    """Export; what was exported."""
    ran = run_command("export", str(out), "--data", str(server.data))
    assert ran.returncode == 0, ran.stderr
    folder = ran.stdout.partition(":")[0]
    return run_command("export", "show", folder, "--limit", "100000").stdout


def audit(server: ServerProcess, exports: Path, out: Path) -> tuple[int, dict[str, Any]]:
    places = {"exports": exports, "usage": server.data / "usage", "out": out}
    command = [str(SPARK), "-m", "glue_jobs.audit"]
    command += [f"--{name}={place}" for name, place in places.items()]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=AUDIT_S_MAX, check=False
    )
    (report,) = out.rglob("report.json")
    return ran.returncode, json.loads(report.read_bytes())


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


@pytest.mark.xdist_group("spark")
def test_the_audit_of_what_a_server_wrote(tmp_path: Path) -> None:
    if not SPARK.exists():
        pytest.skip(f"there is no Spark: {SPARK}")  # what installs it: `make rehearse`
    server = ServerProcess(tmp_path / "data", tmp_path / "log")
    server.start()
    try:
        client = Client(server.client())
        began_s = time.monotonic()
        traffic(client)
        # Until the first blocks were collected, and what is to expire has.
        while '"pk": "E|' not in export(server, tmp_path / "exports") or (
            time.monotonic() < began_s + RETENTION_S + 5
        ):
            assert time.monotonic() < began_s + FACT_S_MAX
            time.sleep(5)  # between two looks
        assert server.stop() == 0
        export(server, tmp_path / "exports")
        code, report = audit(server, tmp_path / "exports", tmp_path / "whole")
        assert (code, report["findings"]) == (0, [])
        check_fates(report, client)
    finally:
        server.kill()
