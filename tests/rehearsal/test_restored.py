"""A backup under load, everything lost, a restore: it names exactly what came after the backup."""

import json
import shutil
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.drills.consumers import LATE
from tests.integration.server_process import ROOT, ServerProcess, command, run_command
from tests.rehearsal.test_audit import AUDIT_S_MAX, SPARK

QUEUES = ("orders", "fifo.fifo")
BEFORE, DELETED_MEANWHILE, DELETED_AFTER, UNSEEN = 60, 20, 5, 7
LOAD_MIN = 10
VISIBILITY_S = 2

Message = tuple[str, str]
"""Its queue, and its body."""


@dataclass
class Client:
    """Sends and deletes, and notes what was acknowledged."""

    sqs: Any
    urls: dict[str, str] = field(default_factory=dict)
    ids: dict[Message, str] = field(default_factory=dict)
    deleted: list[Message] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in QUEUES:
            attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
            made = self.sqs.create_queue(QueueName=name, Attributes=attributes)
            self.urls[name] = made["QueueUrl"]

    def send(self, name: str, body: str) -> None:
        fifo = {"MessageGroupId": body, "MessageDeduplicationId": body}
        sent = self.sqs.send_message(
            QueueUrl=self.urls[name], MessageBody=body, **(fifo if ".fifo" in name else {})
        )
        self.ids[name, body] = sent["MessageId"]

    def receive(self, name: str) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(
            QueueUrl=self.urls[name], MaxNumberOfMessages=10, VisibilityTimeout=VISIBILITY_S
        )
        return list(answer.get("Messages", ()))

    def delete(self, name: str, prefix: str, count: int) -> None:
        """Delete so many messages that begin so."""
        left = count
        while left:
            for message in self.receive(name):
                its = name, message["Body"]
                if left and its[1].startswith(prefix) and self._delete(name, message):
                    self.deleted.append(its)
                    left -= 1

    def _delete(self, name: str, message: dict[str, Any]) -> bool:
        """Whether the message is deleted; False: its lease has ended before."""
        try:
            self.sqs.delete_message(
                QueueUrl=self.urls[name], ReceiptHandle=message["ReceiptHandle"]
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in LATE:
                raise
            return False
        return True

    def drained(self) -> set[Message]:
        """All that is there, which is deleted."""
        found: set[Message] = set()
        for name, url in self.urls.items():
            names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
            while True:
                for message in self.receive(name):
                    self._delete(name, message)
                    found.add((name, message["Body"]))
                asked = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
                if not any(int(count) for count in asked["Attributes"].values()):
                    break
        return found


class Load:
    """Senders and consumers, until `stop`, when each has done something while it ran."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._done = threading.Event()
        self._failures: list[Exception] = []
        work = [(self._send, name) for name in QUEUES] + [(self._delete, name) for name in QUEUES]
        self._threads = [threading.Thread(target=self._run, args=each) for each in work]
        for thread in self._threads:
            thread.start()

    def _run(self, work: Any, name: str) -> None:
        try:
            work(name)
        except Exception as error:  # noqa: BLE001 - told by `stop`
            self._failures.append(error)

    def _send(self, name: str) -> None:
        number = 0
        while number < LOAD_MIN or not self._done.is_set():
            self._client.send(name, f"during-{number}")
            number += 1

    def _delete(self, name: str) -> None:
        for _ in range(DELETED_MEANWHILE):
            self._client.delete(name, "before", 1)

    def stop(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join()
        assert not self._failures


def use(client: Client, tmp_path: Path, data: Path) -> None:
    """A backup while messages come and go; then more of both, an export, and sends after that."""
    for name in QUEUES:
        for number in range(BEFORE):
            client.send(name, f"before-{number}")
    load = Load(client)
    made = run_command(
        *("backup", str(tmp_path / "backup"), "--data", str(data)),
        *("--keys", str(tmp_path / "keys")),
    )
    assert made.returncode == 0, made.stderr
    load.stop()
    for name in QUEUES:
        for number in range(DELETED_AFTER):
            client.send(name, f"after-{number}")
        client.delete(name, "before", DELETED_AFTER)
        client.delete(name, "after", 1)
    assert run_command("export", str(tmp_path / "exports"), "--data", str(data)).returncode == 0


def restore(tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """What it says, and the report."""
    places = ("--exports", str(tmp_path / "exports"), "--usage", str(tmp_path / "usage"))
    ran = subprocess.run(
        command(
            *("restore", str(tmp_path / "backup"), "--data", str(tmp_path / "data")),
            *("--keys", str(tmp_path / "keys"), *places),
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=AUDIT_S_MAX,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    (report,) = (tmp_path / "data/audits").rglob("report.json")
    return ran.stdout, json.loads(report.read_bytes())


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("cells", [1, 3])
def test_what_came_after_the_backup_is_named_as_lost(tmp_path: Path, cells: int) -> None:
    if not SPARK.exists():
        pytest.skip(f"there is no Spark: {SPARK}")  # what installs it: `make rehearse`
    usage = tmp_path / "usage"
    options = ("--cells", str(cells), "--usage", str(usage))
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=options)
    server.start()
    try:
        client = Client(server.client(attempts=3))
        use(client, tmp_path, server.data)
        exported = set(client.ids)
        for name in QUEUES:
            for number in range(UNSEEN):
                client.send(name, f"unseen-{number}")
        # So that what was sent last is in usage: of a crash it is the last minute that is missing.
        assert server.stop() == 0
    finally:
        server.kill()
    assert run_command("digest", "add", str(usage), "--apart", "writers/").returncode == 0
    shutil.rmtree(server.data)
    told, report = restore(tmp_path)
    assert f"{usage}: head: " in told

    server.start()
    try:
        back = Client(server.client(attempts=3)).drained()
    finally:
        server.kill()
    check(report, client, exported, back)
    lost = Counter(name for name, _ in exported - back - set(client.deleted))
    for name, count in lost.items():
        assert f"lost: {count} of {name}\n" in told


def check(
    report: dict[str, Any], client: Client, exported: set[Message], back: set[Message]
) -> None:
    """What the report names is what is not there, and what is there again; and nothing else."""
    deleted = set(client.deleted)
    expected = Counter(("lost", name) for name, _body in exported - back - deleted)
    # Of those that were sent after the backup, too, and are not there.
    undone = {its for its in deleted if its in back or its[1].startswith("after")}
    expected += Counter(("deletion_forgotten", name) for name, _body in undone)
    assert all(expected["lost", name] >= DELETED_AFTER - 1 for name in QUEUES)
    assert all(expected["deletion_forgotten", name] > DELETED_AFTER for name in QUEUES)

    wrong = [its for its in report["findings"] if its["severity"] == "error"]
    # Other copies than the one that counts forget the same deletes.
    named = {(its["kind"], its["queue"], its["message"]) for its in wrong if its["message"]}
    assert Counter((kind, name) for kind, name, _message in named) == expected
    lost = {
        client.ids[its].replace("-", "") for its in exported - back - deleted if ".fifo" in its[0]
    }
    assert lost == {
        message.rpartition(" ")[2]
        for kind, name, message in named
        if kind == "lost" and name == "fifo.fifo"
    }
    unnamed = Counter[tuple[str, str | None]]()
    notes = [its for its in report["findings"] if its["kind"] == "sends_without_message"]
    for its in (*wrong, *notes):
        if not its["message"]:
            unnamed[its["kind"], its["queue"]] += its["count"]
    kind = "sent_and_not_seen" if report["has_ledger"] else "sends_without_message"
    after = {(kind, name): UNSEEN for name in QUEUES}
    assert unnamed == after | ({("ledger_gap", None): 1} if report["has_ledger"] else {})
