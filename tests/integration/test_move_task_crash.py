"""kill -9 while a message move task runs: the server that comes after it goes on, once."""

import time
from collections import Counter
from typing import Any

import pytest

from tests.integration.server_process import ServerProcess

MESSAGES = 250
RATE = 125
MOVED_BEFORE_KILL = 60
WAIT_S_MAX = 60


def arn(client: Any, url: str) -> str:
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return str(answer["Attributes"]["QueueArn"])


def visible(client: Any, url: str) -> int:
    name = "ApproximateNumberOfMessages"
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
    return int(answer["Attributes"][name])


@pytest.mark.nightly
def test_a_task_goes_on_after_a_crash_and_moves_everything_once(server: ServerProcess) -> None:
    client = server.client()
    dead = client.create_queue(QueueName="dead")["QueueUrl"]
    other = client.create_queue(QueueName="other")["QueueUrl"]
    policy = f'{{"deadLetterTargetArn":"{arn(client, dead)}","maxReceiveCount":1}}'
    client.create_queue(QueueName="work", Attributes={"RedrivePolicy": policy})
    bodies = [f"m{number}" for number in range(MESSAGES)]
    for start in range(0, MESSAGES, 10):
        entries = [{"Id": body, "MessageBody": body} for body in bodies[start : start + 10]]
        client.send_message_batch(QueueUrl=dead, Entries=entries)
    source = arn(client, dead)
    client.start_message_move_task(
        SourceArn=source, DestinationArn=arn(client, other), MaxNumberOfMessagesPerSecond=RATE
    )
    # The count rises in the middle of a step: that is where the kill shall fall.
    deadline = time.monotonic() + WAIT_S_MAX
    while visible(client, other) < MOVED_BEFORE_KILL:
        assert time.monotonic() < deadline, "the task does not begin"
    server.kill()
    server.start()
    client = server.client()
    assert visible(client, dead) > 0, "the task was through before the kill"
    task = await_end(client, source)
    assert task["Status"] == "COMPLETED"
    assert task["ApproximateNumberOfMessagesMoved"] <= MESSAGES
    arrived: Counter[str] = Counter()
    while messages := client.receive_message(QueueUrl=other, MaxNumberOfMessages=10).get(
        "Messages"
    ):
        arrived.update(message["Body"] for message in messages)
    assert arrived == Counter(bodies)
    assert "Messages" not in client.receive_message(QueueUrl=dead)


def await_end(client: Any, source: str) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline:
        (task,) = client.list_message_move_tasks(SourceArn=source)["Results"]
        if task["Status"] != "RUNNING":
            return dict(task)
        time.sleep(0.1)  # between two looks at a task that runs
    raise AssertionError(f"the task does not end: {task}")
