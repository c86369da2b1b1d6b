"""A server process from the outside: what it says, serves, refuses, and how it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.server_process import PROGRAM, ROOT, ServerProcess, run_command
from tests.ports import free_port

pytestmark = pytest.mark.usefixtures("started_by_the_system")

IN_FLIGHT = "tidegate_requests_in_flight 2.0"
"""One besides that which asks for the metrics."""


def log_events(server: ServerProcess) -> Iterator[dict[str, Any]]:
    for line in server.log.read_text().splitlines():
        yield json.loads(line)


def test_a_message_goes_round(server: ServerProcess) -> None:
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    assert queue == f"{server.url}/000000000000/orders"
    sent = client.send_message(QueueUrl=queue, MessageBody="one")
    (message,) = client.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "one")
    client.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert "Messages" not in client.receive_message(QueueUrl=queue)


def test_the_greeting_says_that_authentication_is_off(server: ServerProcess) -> None:
    assert server.url in server.greeting
    assert "AUTHENTICATION IS OFF" in server.greeting


def test_health_and_metrics(server: ServerProcess) -> None:
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    client.send_message(QueueUrl=queue, MessageBody="12345")
    status, body = server.get("/health")
    assert status == 200
    assert json.loads(body)["cells"] == {"local": "available"}
    status, text = server.get("/metrics")
    assert status == 200
    labels = '{account="000000000000",queue="orders",region="us-east-1"}'
    assert f"tidegate_sqs_number_of_messages_sent_total{labels} 1.0" in text
    assert f"tidegate_sqs_sent_message_size_bytes_sum{labels} 5.0" in text
    assert f"tidegate_sqs_approximate_number_of_messages_visible{labels} 1.0" in text


def test_logs_are_lines_of_json_without_bodies(server: ServerProcess) -> None:
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    client.send_message(QueueUrl=queue, MessageBody="a-secret-body")
    with pytest.raises(client.exceptions.QueueDoesNotExist):
        client.send_message(QueueUrl=queue + "-not", MessageBody="another-secret-body")
    server.stop()
    events = list(log_events(server))
    assert [event["event"] for event in events] == [
        "authentication is off", "started", "request", "request", "request", "stopping", "stopped",
    ]  # fmt: skip
    assert events[0]["level"] == "warning"
    refused = events[4]
    assert (refused["level"], refused["status"]) == ("warning", 400)
    assert refused["operation"] == "SendMessage"
    assert "secret-body" not in server.log.read_text()


def test_an_embedded_store_starts_without_the_sdk_of_aws(tmp_path: Path) -> None:
    tells_imports = ("-X", "importtime", *PROGRAM)
    server = ServerProcess(tmp_path / "data", tmp_path / "log", program=tells_imports)
    server.start()
    server.stop()
    imported = set(
        re.findall(r"^import time: .*\| +([\w.]+)$", server.log.read_text(), re.MULTILINE)
    )
    assert {"control_plane.server", "data_plane.embedded.store"} <= imported
    assert not imported & {"boto3", "botocore", "urllib3"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_answers_a_long_poll_and_exits_with_0(server: ServerProcess, number: int) -> None:
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    with ThreadPoolExecutor() as pool:
        poll = pool.submit(client.receive_message, QueueUrl=queue, WaitTimeSeconds=20)
        await_in_flight(server)
        assert server.stop(number) == 0
        assert "Messages" not in poll.result()


def await_in_flight(server: ServerProcess) -> None:
    """Return when a request is being answered besides the one that asks."""
    until_s = time.monotonic() + 60
    while IN_FLIGHT not in server.get("/metrics")[1]:
        assert time.monotonic() < until_s, "no request came to be in flight"
        time.sleep(0.02)  # what is shown is up to a second old


def test_a_stop_loses_no_send_that_was_answered(server: ServerProcess) -> None:
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    acknowledged: list[str] = []
    enough = threading.Event()

    def send() -> None:
        sender = server.client()
        while True:
            try:
                answer = sender.send_message(QueueUrl=queue, MessageBody="x")
            except Exception:  # noqa: BLE001 - the server is gone; which way does not matter
                return
            acknowledged.append(answer["MessageId"])
            if len(acknowledged) >= 100:
                enough.set()

    with ThreadPoolExecutor() as pool:
        senders = [pool.submit(send) for _ in range(4)]
        assert enough.wait(30)
        assert server.stop() == 0
        for sender in senders:
            sender.result(30)
    server.start()
    assert received_ids(server, queue) >= set(acknowledged)


def received_ids(server: ServerProcess, queue: str) -> set[str]:
    client = server.client()
    found: set[str] = set()
    while messages := client.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=600
    ).get("Messages"):
        found.update(message["MessageId"] for message in messages)
    return found


def test_a_client_that_leaves_its_long_poll_takes_no_message_along(server: ServerProcess) -> None:
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    body = json.dumps({"QueueUrl": queue, "WaitTimeSeconds": 20}).encode()
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(
            b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: AmazonSQS.ReceiveMessage\r\n"
            b"content-type: application/x-amz-json-1.0\r\ncontent-length: %d\r\n\r\n"
            % len(body)
            + body
        )
        await_in_flight(server)
    while IN_FLIGHT in (metrics := server.get("/metrics")[1]):
        time.sleep(0.02)  # what is shown is up to a second old
    assert 'tidegate_requests_total{operation="CreateQueue"' in metrics
    assert 'operation="ReceiveMessage"' not in metrics, "its long poll went on to its end"
    client.send_message(QueueUrl=queue, MessageBody="mine")
    (message,) = client.receive_message(QueueUrl=queue)["Messages"]
    assert message["Body"] == "mine"


def test_a_body_that_is_too_long_is_refused_without_being_kept(server: ServerProcess) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(
            b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: AmazonSQS.ListQueues\r\n"
            b"content-type: application/x-amz-json-1.0\r\ncontent-length: 99999999\r\n\r\n"
        )
        chunk = b"x" * 65536
        for _ in range(200):
            try:
                connection.sendall(chunk)
            except ConnectionError:
                break
        assert connection.recv(4096).startswith(b"HTTP/1.1 413 ")
    assert server.get("/health")[0] == 200


def test_a_port_in_use_is_said_in_one_line(server: ServerProcess, tmp_path: Path) -> None:
    result = run_command("serve", "--port", str(server.port), "--data", str(tmp_path / "other"))
    assert result.returncode == 1
    assert result.stderr == f"tidegate: port: {server.port} on 127.0.0.1 is in use\n"


def test_a_data_folder_in_use_is_said_in_one_line(server: ServerProcess) -> None:
    result = run_command("serve", "--port", str(free_port()), "--data", str(server.data))
    assert result.returncode == 1
    assert result.stderr.startswith("tidegate: ")
    assert result.stderr.count("\n") == 1
    assert str(server.data) in result.stderr


def test_a_data_folder_that_cannot_be_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    wrong = tmp_path / "file" / "data"
    result = run_command("serve", "--port", str(free_port()), "--data", str(wrong))
    assert result.returncode == 2
    assert result.stderr == f"tidegate: data: cannot use {wrong}: Not a directory\n"


def test_the_queue_commands(server: ServerProcess) -> None:
    queue = ("queue", "--endpoint", server.url)
    assert run_command(*queue, "create", "orders", "--attribute", "DelaySeconds=900").stdout == (
        f"{server.url}/000000000000/orders\n"
    )
    server.client().send_message(QueueUrl=f"{server.url}/000000000000/orders", MessageBody="later")
    assert run_command(*queue, "list").stdout == (
        "NAME    VISIBLE  IN FLIGHT  DELAYED\n"
        "orders        0          0        1\n"
    )  # fmt: skip
    again = run_command(*queue, "create", "orders", "--attribute", "DelaySeconds=800")
    assert again.returncode == 1
    assert again.stderr.startswith("tidegate: A queue already exists with the same name")
    assert run_command(*queue, "delete", "orders", "--yes").stdout == "Deleted orders.\n"
    gone = run_command(*queue, "delete", "orders", "--yes")
    assert (gone.returncode, gone.stderr.count("\n")) == (1, 1)


def test_a_server_that_is_not_there_is_said_in_one_line() -> None:
    result = run_command("queue", "--endpoint", f"http://127.0.0.1:{free_port()}", "list")
    assert result.returncode == 1
    assert result.stderr.startswith("tidegate: Could not connect")
    assert result.stderr.count("\n") == 1


def test_the_example_of_the_readme_works_as_pasted(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", auth="on")
    server.start()
    readme = (ROOT / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    assert len(example.splitlines()) <= 20
    assert "http://127.0.0.1:9324" in example
    script = example.replace("http://127.0.0.1:9324", server.url)
    (line,) = re.findall(r"^    (export .*)$", readme, re.MULTILINE)
    assert line.replace("$PWD/data", str(server.data)) in server.greeting.splitlines()
    name, _, value = line.removeprefix("export ").partition("=")
    try:
        ran = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={"PATH": os.environ["PATH"], name: value.replace("$PWD/data", str(server.data))},
        )
    finally:
        server.stop()
    assert ran.stdout == "two coffees\n"
    assert ran.stderr == ""
