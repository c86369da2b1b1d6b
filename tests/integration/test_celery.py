"""An unmodified Celery worker does real work through the server."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.integration.server_process import ROOT, ServerProcess

TASKS = 1000
WORK_S_MAX = 120

SEND = f"""
from tests.integration.celery_tasks import double
for number in range({TASKS}):
    double.delay(number)
"""


def test_a_celery_worker_does_a_thousand_tasks(server: ServerProcess, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    ran.touch()
    environment = {
        **os.environ,
        "BROKER_URL": f"sqs://any:any@127.0.0.1:{server.port}",
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
        subprocess.run([*python, "-c", SEND], cwd=ROOT, env=environment, check=True, timeout=60)
        deadline = time.monotonic() + WORK_S_MAX
        while len(ran.read_text().splitlines()) < TASKS and time.monotonic() < deadline:
            assert worker.poll() is None, (tmp_path / "worker.log").read_text()
            # Celery has nothing to wait on that does not go through the queue itself.
            time.sleep(0.1)  # between two looks at what the worker has done
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(timeout=60)
        worker_log.close()
    done = ran.read_text().splitlines()
    assert sorted(done) == sorted(f"{number} {number * 2}" for number in range(TASKS))
    client = server.client()
    queue = client.get_queue_url(QueueName="celery-tasks")["QueueUrl"]
    counts = client.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert counts["ApproximateNumberOfMessages"] == "0"
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"
