"""Usage of a real server: there at once, after a kill, after a stop; and budgets that tell."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import tidegate_sdk
from tests.integration.server_process import ServerProcess, run_command

TELLS_S_MAX = 75
"""Budgets are looked at every half minute."""


def client_of(server: ServerProcess) -> Any:
    return tidegate_sdk.client(
        server.url,
        region_name="us-east-1",
        aws_access_key_id="000000000000",
        aws_secret_access_key="any",
    )


def told(client: Any) -> Counter[tuple[str, str, str]]:
    """What the service says that queues have used, by queue, operation and what is counted."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in client.tidegate_get_usage(GroupBy=["Queue", "Operation"]).get("Usage", ()):
        if row["QueueName"]:
            for name in ("Requests", "Units", "Messages", "Bytes"):
                found[row["QueueName"], row["Operation"], name.lower()] += row[name]
    return found


def recorded(data: Path) -> Counter[tuple[str, str, str]]:
    """What the records say of that."""
    rows = {
        (row["writer"], row["number"]): row
        for path in (data / "usage/records").rglob("*.parquet")
        for row in parquet.read_table(path, partitioning=None).to_pylist()
    }
    found: Counter[tuple[str, str, str]] = Counter()
    for row in rows.values():
        if row["queue"]:
            for name in ("requests", "units", "messages", "bytes"):
                found[row["queue"], row["operation"], name] += row[name]
    return found


@pytest.mark.parametrize("options", [(), ("--cells", "3")], ids=["one cell", "three cells"])
def test_usage_is_there_at_once_and_equals_the_records(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=options)
    server.start()
    client = client_of(server)
    url = client.create_queue(QueueName="orders")["QueueUrl"]
    for size in (1, 70_000, 500):
        client.send_message(QueueUrl=url, MessageBody="m" * size)
    sends = {
        ("orders", "SendMessage", "requests"): 3,
        ("orders", "SendMessage", "units"): 4,
        ("orders", "SendMessage", "messages"): 3,
        ("orders", "SendMessage", "bytes"): 70_501,
    }
    assert told(client) == Counter(sends)

    server.kill()
    server.start()
    client = client_of(server)
    if not options:  # Sends to several cells come back within a minute of the start.
        assert told(client) == Counter(sends)
    received = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    client.send_message(QueueUrl=url, MessageBody="m")
    before = told(client)
    assert before["orders", "ReceiveMessage", "messages"] == len(received)
    if not options:
        assert before["orders", "SendMessage", "requests"] == 4

    assert server.stop() == 0
    server.start()
    after = told(client_of(server))
    assert after == recorded(tmp_path / "data")
    assert after["orders", "SendMessage", "requests"] == 4
    assert after["orders", "ReceiveMessage", "messages"] == len(received)
    assert server.stop() == 0


@contextmanager
def hook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A webhook's URL, and what it was called with."""
    heard: list[dict[str, Any]] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", heard
        server.shutdown()
        thread.join()


@pytest.mark.nightly
def test_a_budget_tells_the_log_the_metrics_a_webhook_and_a_queue_once(tmp_path: Path) -> None:
    with hook() as (url, heard):
        terms = tmp_path / "billing.json"
        terms.write_text(json.dumps({"schema": "tidegate.billing/1", "webhooks": [url]}))
        options = ("--billing", str(terms))
        server = ServerProcess(tmp_path / "data", tmp_path / "log", options=options)
        server.start()
        client = client_of(server)
        alarms = client.create_queue(QueueName="alarms")["QueueUrl"]
        budget = {"Of": "requests", "Limit": "2", "WebhookUrl": url, "QueueName": "alarms"}
        client.tidegate_set_budgets(Budgets=[budget])
        until_s = time.monotonic() + TELLS_S_MAX
        messages: list[Any] = []
        while not messages and time.monotonic() < until_s:
            answer = client.receive_message(QueueUrl=alarms, WaitTimeSeconds=20)
            messages = answer.get("Messages", [])
        body = json.loads(messages[0]["Body"])
        assert body == {
            "schema": "tidegate.budget/1",
            "account": "000000000000",
            "period": body["period"],
            "of": "requests",
            "limit": "2",
            "reached": body["reached"],
        }
        shown: dict[str, Any] = {}
        while shown.get("Notification") != "sent" and time.monotonic() < until_s:
            (shown,) = client.tidegate_get_usage()["Budgets"]
        assert shown["Notification"] == "sent"
        assert heard == [body]
        metrics = server.get("/metrics")[1]
        assert "tidegate_usage_budgets_reached_total 1.0\n" in metrics
        assert server.stop() == 0
        logged = [json.loads(line) for line in server.log.read_text().splitlines()]
        assert [its["limit"] for its in logged if its["event"] == "budget"] == ["2"]

        connection = ("--endpoint", server.url, "--access-key-id", "000000000000")
        server.start()
        table = run_command("usage", "--by", "operation", *connection)
        assert table.returncode == 0, table.stderr
        assert table.stdout.splitlines()[1].split() == [
            *("OPERATION", "REQUESTS", "UNITS", "MESSAGES", "BYTES", "COST", "USD")
        ]
        assert "Budget of 2 requests: reached 2" in table.stdout
        machine = json.loads(run_command("usage", "--json", *connection).stdout)
        assert machine["Total"]["Requests"] > 2
        listed = run_command("budget", "list", *connection).stdout.splitlines()[1].split()
        assert (listed[0], listed[1], listed[2], listed[4]) == ("requests", "2", url, "sent")
        assert server.stop() == 0
        assert len(heard) == 1


def test_a_wrong_billing_file_stops_the_start_in_one_line(tmp_path: Path) -> None:
    terms = tmp_path / "billing.json"
    terms.write_text('{"schema": "tidegate.billing/1", "webhook": []}')
    data = tmp_path / "data"
    ended = run_command("serve", "--data", str(data), "--port", "0", "--billing", str(terms))
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"tidegate: billing: {terms}: ")
