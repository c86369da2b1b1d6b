"""An unmodified Celery worker does real work through the server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote

import pytest

import tidegate_sdk
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


def work(
    server: ServerProcess, tmp_path: Path, tasks: int, credentials: str, options: object
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
            *("--pool", "threads", "--concurrency", "8", "--loglevel", "WARNING"),
        ],
        cwd=ROOT,
        env=environment,
        stdout=worker_log,
        stderr=subprocess.STDOUT,
    )
    try:
        subprocess.run(
            [*python, "-c", SEND, str(tasks)],
            cwd=ROOT,
            env=environment,
            check=True,
            timeout=WORK_S_MAX,
        )
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
