"""A Celery application as its users write them. A task notes in a file that it ran."""

import json
import os
from pathlib import Path

from celery import Celery

RAN = Path(os.environ["TASKS_RAN"])

app = Celery("tasks", broker=os.environ["BROKER_URL"])
app.conf.update(
    broker_transport_options={
        "is_secure": False,
        "region": "us-east-1",
        "wait_time_seconds": 5,
        "visibility_timeout": 300,
        **json.loads(os.environ.get("BROKER_OPTIONS", "{}")),
    },
    task_default_queue="celery-tasks",
    task_ignore_result=True,
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=10,
)


@app.task  # type: ignore[untyped-decorator]
def double(number: int) -> int:
    """Note the number; appends of one short line do not interleave."""
    with RAN.open("a") as ran:
        ran.write(f"{number} {number * 2}\n")
    return number * 2
