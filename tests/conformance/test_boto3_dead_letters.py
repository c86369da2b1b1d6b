"""Dead letters and message move tasks through clients of both protocols."""

import base64
import json
from typing import Any

from tests.conformance.client_calls import error, nothing, one
from tests.conformance.in_process import ACCOUNT, REGION, InProcessServer

EVERYTHING = {"AttributeNames": ["All"], "MessageAttributeNames": ["All"]}


def arn_of(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


class Letters:
    """A queue `work`, from which messages go to `dead` when they were received once."""

    def __init__(self, sqs: Any, server: InProcessServer, receives: int = 1) -> None:
        self.sqs, self.server = sqs, server
        self.dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        policy = {"deadLetterTargetArn": arn_of("dead"), "maxReceiveCount": receives}
        self.work = sqs.create_queue(
            QueueName="work", Attributes={"RedrivePolicy": json.dumps(policy)}
        )["QueueUrl"]

    def bury(self, *bodies: str) -> None:
        for body in bodies:
            self.sqs.send_message(QueueUrl=self.work, MessageBody=body)
        for _ in range(2 * len(bodies)):
            self.sqs.receive_message(QueueUrl=self.work, VisibilityTimeout=0)

    def steps(self, count: int) -> None:
        """What the server's upkeep does in so many seconds."""
        for _ in range(count):
            self.server.run(self.server.move_runner.step())
            self.server.clock.advance(1)

    def task(self) -> dict[str, Any]:
        (newest,) = self.sqs.list_message_move_tasks(SourceArn=arn_of("dead"))["Results"]
        return dict(newest)

    def bodies(self, url: str) -> list[str]:
        bodies = []
        while not nothing_left(found := self.sqs.receive_message(QueueUrl=url)):
            bodies += [message["Body"] for message in found["Messages"]]
        return sorted(bodies)


def nothing_left(answer: dict[str, Any]) -> bool:
    return "Messages" not in answer


def test_a_message_that_is_received_too_often_is_a_dead_letter(
    sqs: Any, server: InProcessServer
) -> None:
    letters = Letters(sqs, server, receives=2)
    sent = sqs.send_message(
        QueueUrl=letters.work,
        MessageBody="poison",
        MessageAttributes={"n": {"DataType": "Number", "StringValue": "1"}},
        MessageGroupId="tenant",
    )
    alive = []
    for count in ("1", "2"):
        alive.append(one(sqs, letters.work, VisibilityTimeout=0, **EVERYTHING))
        assert alive[-1]["Attributes"]["ApproximateReceiveCount"] == count
        assert "DeadLetterQueueSourceArn" not in alive[-1]["Attributes"]
    assert nothing(sqs, letters.dead)
    assert nothing(sqs, letters.work)
    dead = one(sqs, letters.dead, **EVERYTHING)
    assert dead["MessageId"] == sent["MessageId"]
    assert dead["Attributes"] == alive[0]["Attributes"] | {
        "ApproximateReceiveCount": "3",
        "DeadLetterQueueSourceArn": arn_of("work"),
    }
    for member in ("Body", "MD5OfBody", "MessageAttributes", "MD5OfMessageAttributes"):
        assert dead[member] == alive[0][member]
    sqs.delete_message(QueueUrl=letters.dead, ReceiptHandle=dead["ReceiptHandle"])
    server.clock.advance(60)
    assert nothing(sqs, letters.dead)
    assert nothing(sqs, letters.work)


def test_without_its_dead_letter_queue_a_message_is_delivered_on(
    sqs: Any, server: InProcessServer
) -> None:
    letters = Letters(sqs, server)
    sqs.send_message(QueueUrl=letters.work, MessageBody="poison")
    one(sqs, letters.work, VisibilityTimeout=0)
    sqs.delete_queue(QueueUrl=letters.dead)
    assert one(sqs, letters.work)["Body"] == "poison"


def test_counts_of_a_queue_and_its_dead_letter_queue(sqs: Any, server: InProcessServer) -> None:
    letters = Letters(sqs, server)
    letters.bury("a", "b")
    for url, count in ((letters.work, "0"), (letters.dead, "2")):
        attributes = sqs.get_queue_attributes(
            QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages"]
        )["Attributes"]
        assert attributes == {"ApproximateNumberOfMessages": count}


def test_a_big_body_is_moved_whole(sqs: Any, server: InProcessServer) -> None:
    letters = Letters(sqs, server)
    body = base64.b85encode(bytes(range(256)) * 3_000).decode()
    letters.bury(body)
    assert one(sqs, letters.dead, VisibilityTimeout=0)["Body"] == body
    sqs.start_message_move_task(SourceArn=arn_of("dead"))
    letters.steps(2)
    assert one(sqs, letters.work)["Body"] == body


def test_a_move_task(sqs: Any, server: InProcessServer) -> None:
    letters = Letters(sqs, server)
    sqs.create_queue(QueueName="other")
    letters.bury("a", "b")
    handle = sqs.start_message_move_task(
        SourceArn=arn_of("dead"), DestinationArn=arn_of("other"), MaxNumberOfMessagesPerSecond=1
    )["TaskHandle"]
    assert json.loads(base64.b64decode(handle)).keys() == {"taskId", "sourceArn"}
    task = letters.task()
    started_ms = task.pop("StartedTimestamp")
    assert abs(started_ms * 1000 - server.clock.now_us()) < 60_000_000
    assert task == {
        "TaskHandle": handle,
        "Status": "RUNNING",
        "SourceArn": arn_of("dead"),
        "DestinationArn": arn_of("other"),
        "MaxNumberOfMessagesPerSecond": 1,
        "ApproximateNumberOfMessagesMoved": 0,
        "ApproximateNumberOfMessagesToMove": 2,
    }
    code, message, status = error(sqs.start_message_move_task, SourceArn=arn_of("dead"))
    assert (code, status) == ("InvalidParameterValue", 400)
    assert message == (
        "There is already a task running. Only one active task is allowed for a source queue arn"
        " at a given time."
    )
    letters.steps(4)
    assert letters.bodies("other") == ["a", "b"]
    assert nothing(sqs, letters.dead)
    assert letters.task() == {
        "Status": "COMPLETED",
        "SourceArn": arn_of("dead"),
        "DestinationArn": arn_of("other"),
        "MaxNumberOfMessagesPerSecond": 1,
        "ApproximateNumberOfMessagesMoved": 2,
        "ApproximateNumberOfMessagesToMove": 2,
        "StartedTimestamp": started_ms,
    }


def test_a_redriven_message_is_a_new_one(sqs: Any, server: InProcessServer) -> None:
    letters = Letters(sqs, server)
    letters.bury("a")
    dead = one(sqs, letters.dead, VisibilityTimeout=0, **EVERYTHING)
    server.clock.advance(5)
    sqs.start_message_move_task(SourceArn=arn_of("dead"))
    letters.steps(1)
    again = one(sqs, letters.work, **EVERYTHING)
    assert again["MessageId"] != dead["MessageId"]
    assert "DeadLetterQueueSourceArn" not in again["Attributes"]
    assert again["Attributes"]["ApproximateReceiveCount"] == "1"
    late_ms = int(again["Attributes"]["SentTimestamp"]) - int(dead["Attributes"]["SentTimestamp"])
    assert late_ms >= 5_000


def test_each_message_goes_back_to_its_own_queue(sqs: Any, server: InProcessServer) -> None:
    letters = Letters(sqs, server)
    letters.bury("a")
    policy = json.dumps({"deadLetterTargetArn": arn_of("dead"), "maxReceiveCount": 1})
    second = sqs.create_queue(QueueName="second", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    sqs.send_message(QueueUrl=second, MessageBody="b")
    for _ in range(2):
        sqs.receive_message(QueueUrl=second, VisibilityTimeout=0)
    sqs.start_message_move_task(SourceArn=arn_of("dead"))
    letters.steps(2)
    assert (letters.bodies(letters.work), letters.bodies(second)) == (["a"], ["b"])
    assert letters.task()["ApproximateNumberOfMessagesMoved"] == 2


def test_a_task_is_cancelled(sqs: Any, server: InProcessServer) -> None:
    letters = Letters(sqs, server)
    letters.bury("a", "b", "c")
    handle = sqs.start_message_move_task(SourceArn=arn_of("dead"), MaxNumberOfMessagesPerSecond=1)[
        "TaskHandle"
    ]
    letters.steps(1)
    answer = sqs.cancel_message_move_task(TaskHandle=handle)
    assert answer["ApproximateNumberOfMessagesMoved"] == 1
    task = letters.task()
    assert task["Status"] == "CANCELLING"
    assert "TaskHandle" not in task
    letters.steps(2)
    assert letters.task()["Status"] == "CANCELLED"
    assert len(letters.bodies(letters.dead)) == 2
    code, message, status = error(sqs.cancel_message_move_task, TaskHandle=handle)
    assert (code, message, status) == ("ResourceNotFoundException", "Task does not exist.", 404)


def test_a_task_fails_when_its_destination_is_deleted(sqs: Any, server: InProcessServer) -> None:
    letters = Letters(sqs, server)
    other = sqs.create_queue(QueueName="other")["QueueUrl"]
    letters.bury("a", "b")
    sqs.start_message_move_task(
        SourceArn=arn_of("dead"), DestinationArn=arn_of("other"), MaxNumberOfMessagesPerSecond=1
    )
    letters.steps(1)
    sqs.delete_queue(QueueUrl=other)
    letters.steps(2)
    task = letters.task()
    assert (task["Status"], task["FailureReason"], task["ApproximateNumberOfMessagesMoved"]) == (
        "FAILED",
        "AWS.SimpleQueueService.NonExistentQueue",
        1,
    )
    assert len(letters.bodies(letters.dead)) == 1


def test_what_was_sent_to_the_dead_letter_queue_came_from_nowhere(
    sqs: Any, server: InProcessServer
) -> None:
    letters = Letters(sqs, server)
    sqs.send_message(QueueUrl=letters.dead, MessageBody="a")
    sqs.start_message_move_task(SourceArn=arn_of("dead"))
    letters.steps(1)
    task = letters.task()
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert letters.bodies(letters.dead) == ["a"]


def test_the_last_tasks_are_listed(sqs: Any, server: InProcessServer) -> None:
    letters = Letters(sqs, server)
    assert not sqs.list_message_move_tasks(SourceArn=arn_of("dead")).get("Results")
    for rate in range(1, 12):
        sqs.start_message_move_task(SourceArn=arn_of("dead"), MaxNumberOfMessagesPerSecond=rate)
        letters.steps(1)
    for count in (1, 3, 10):
        listed = sqs.list_message_move_tasks(SourceArn=arn_of("dead"), MaxResults=count)["Results"]
        rates = [task["MaxNumberOfMessagesPerSecond"] for task in listed]
        assert rates == list(range(11, 11 - count, -1))
