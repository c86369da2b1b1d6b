"""An unmodified Celery worker does real work through the server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import tidegate_sdk
from tests.integration.sdk_site import sdk_client
from tests.integration.server_process import ROOT, ServerProcess

MANY, FEW = 1000, 50
QUEUE = "celery-tasks"
WORK_S_MAX = 300

SEND = """
import sys
from tests.integration.celery_tasks import double
for number in range(int(sys.argv[1])):
    double.delay(number)
"""


def send(tasks: int, environment: Mapping[str, str]) -> None:
    """Send tasks as Celery's users do."""
    command = [sys.executable, "-W", "ignore", "-c", SEND, str(tasks)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=WORK_S_MAX)


def work(  # noqa: PLR0913 - what a worker needs to know, and who sends
    server: ServerProcess,
    tmp_path: Path,
    tasks: int,
    credentials: str,
    options: object,
    *,
    queue: str = QUEUE,
    sending: Callable[[int, Mapping[str, str]], None] = send,
) -> list[str]:
    """Send tasks and have a worker do them; what it noted."""
    ran = tmp_path / "ran"
    ran.touch()
    environment = {
        **os.environ,
        "BROKER_URL": f"sqs://{credentials}@127.0.0.1:{server.port}",
        "BROKER_OPTIONS": json.dumps(options),
        "TASKS_RAN": str(ran),
    }
    python = [sys.executable, "-W", "ignore"]
    worker_log = (tmp_path / "worker.log").open("w")
    worker = subprocess.Popen(
        [
            *(*python, "-m", "celery", "-A", "tests.integration.celery_tasks", "worker"),
            *(
                "--queues",
                queue,
                "--pool",
                "threads",
                "--concurrency",
                "8",
                "--loglevel",
                "WARNING",
            ),
        ],
        cwd=ROOT,
        env=environment,
        stdout=worker_log,
        stderr=subprocess.STDOUT,
    )
    try:
        sending(tasks, environment)
        deadline = time.monotonic() + WORK_S_MAX
        while len(ran.read_text().splitlines()) < tasks and time.monotonic() < deadline:
            assert worker.poll() is None, (tmp_path / "worker.log").read_text()
            # Celery has nothing to wait on that does not go through the queue itself.
            time.sleep(0.1)  # between two looks at what the worker has done
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=60)
        worker_log.close()
    return ran.read_text().splitlines()


@pytest.mark.nightly
def test_a_celery_worker_does_a_thousand_tasks(server: ServerProcess, tmp_path: Path) -> None:
    done = work(server, tmp_path, MANY, "any:any", {})
    assert sorted(done) == sorted(f"{number} {number * 2}" for number in range(MANY))
    client = server.client()
    queue = client.get_queue_url(QueueName="celery-tasks")["QueueUrl"]
    counts = client.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "0"
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"


def test_the_policy_of_the_page_is_all_that_celery_needs(tmp_path: Path) -> None:
    page = (ROOT / "docs/celery.md").read_text("utf-8")
    (policy,) = re.findall(r"(?s)```json\n(.*?)```", page)
    server = ServerProcess(tmp_path / "data", tmp_path / "log", auth="on")
    server.start()
    try:
        root = server.client()
        url = root.create_queue(QueueName="celery-tasks")["QueueUrl"]
        client = tidegate_sdk.client(
            server.url,
            region_name="us-east-1",
            aws_access_key_id=server.access_key[0],
            aws_secret_access_key=server.access_key[1],
        )
        client.tidegate_create_user(
            UserName="celery", Policies=[policy.replace(":celery", ":celery-tasks")]
        )
        key = client.tidegate_create_access_key(UserName="celery")
        credentials = f"{key['AccessKeyId']}:{quote(key['SecretAccessKey'], safe='')}"
        options = {"predefined_queues": {QUEUE: {"url": url}}}
        assert len(work(server, tmp_path, FEW, credentials, options)) == FEW
    finally:
        server.kill()


@pytest.mark.parametrize("queue", ["tasks", "tasks.fifo"])
def test_a_worker_does_what_is_put_into_a_stream_as_the_page_says(
    server: ServerProcess, tmp_path: Path, queue: str
) -> None:
    page = (ROOT / "docs/celery.md").read_text("utf-8")
    [program] = re.findall(r"(?s)```python\n(import json\n.*?)```", page)
    recipe: dict[str, Any] = {}
    exec(program, recipe)  # noqa: S102 - the page's own words are what is tried
    kinesis, sqs = sdk_client(server.url, "kinesis"), sdk_client(server.url, "sqs")
    kinesis.create_stream(StreamName="orders", ShardCount=2)
    stream = kinesis.describe_stream_summary(StreamName="orders")["StreamDescriptionSummary"]
    attributes = {
        "TidegateStreamArn": stream["StreamARN"],
        "TidegateStartingPosition": "TRIM_HORIZON",
        **({"FifoQueue": "true"} if queue.endswith(".fifo") else {}),
    }
    url = sqs.create_queue(QueueName=queue, Attributes=attributes)["QueueUrl"]

    def put(tasks: int, _environment: Mapping[str, str]) -> None:
        for number in range(tasks):
            task = recipe["task"]("tests.integration.celery_tasks.double", queue, number)
            kinesis.put_record(StreamName="orders", PartitionKey=f"{number % 7}", Data=task)

    options = {
        "region": "eu-west-1",
        "wait_time_seconds": 1,
        "predefined_queues": {queue: {"url": url}},
    }
    done = work(server, tmp_path, FEW, "any:any", options, queue=queue, sending=put)
    assert sorted(done) == sorted(f"{number} {number * 2}" for number in range(FEW))
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    assert set(counts.values()) == {"0"}
