"""Dead letters and message move tasks of FIFO queues through clients of both protocols."""

from typing import Any

from tests.conformance.fifo_calls import Fifo
from tests.conformance.in_process import InProcessServer
from tests.conformance.test_boto3_dead_letters import arn_of

ALL: dict[str, Any] = {"AttributeNames": ["All"]}


def queues(sqs: Any, receives: int = 1) -> tuple[Fifo, Fifo]:
    """A FIFO queue and its dead-letter queue."""
    dead = Fifo(sqs, "dead.fifo")
    policy = {"deadLetterTargetArn": arn_of("dead.fifo"), "maxReceiveCount": receives}
    return Fifo(sqs, "work.fifo", RedrivePolicy=policy), dead


def steps(server: InProcessServer, count: int) -> None:
    for _ in range(count):
        server.run(server.move_runner.step())
        server.clock.advance(1)


def test_a_dead_letter_of_a_fifo_queue(sqs: Any, server: InProcessServer) -> None:
    work, dead = queues(sqs, receives=2)
    sent = work.send("a1", dedup="own-id")
    work.send("a2")
    for _ in range(2):
        (before,) = work.receive(1, VisibilityTimeout=0, **ALL)
    server.clock.advance(5)
    assert work.bodies() == ["a2"]
    (letter,) = dead.receive(**ALL)
    assert (letter["MessageId"], letter["Body"]) == (sent["MessageId"], "a1")
    attributes, old = letter["Attributes"], before["Attributes"]
    assert attributes["MessageGroupId"] == "a"
    assert attributes["MessageDeduplicationId"] == sent["MessageId"]
    assert attributes["DeadLetterQueueSourceArn"] == arn_of("work.fifo")
    assert attributes["ApproximateReceiveCount"] == "3"
    assert attributes["SequenceNumber"] > sent["SequenceNumber"]
    assert int(attributes["SentTimestamp"]) >= int(old["SentTimestamp"]) + 5_000
    first = "ApproximateFirstReceiveTimestamp"
    assert attributes[first] == old[first]


def test_a_group_that_is_blocked_by_a_dead_letter_goes_on(sqs: Any) -> None:
    work, dead = queues(sqs)
    for body in ("a1", "a2", "b1", "a3"):
        work.send(body)
    assert work.bodies(1, VisibilityTimeout=0) == ["a1"]
    assert sorted(work.bodies()) == ["a2", "a3", "b1"]
    assert dead.bodies() == ["a1"]


def test_dead_letters_go_back_in_the_order_of_their_group(
    sqs: Any, server: InProcessServer
) -> None:
    work, dead = queues(sqs)
    sent = [work.send(f"a{number}") for number in range(5)]
    assert len(work.receive(VisibilityTimeout=0)) == 5
    assert work.bodies() == []
    assert dead.bodies(VisibilityTimeout=0) == [f"a{number}" for number in range(5)]
    sqs.start_message_move_task(SourceArn=arn_of("dead.fifo"), MaxNumberOfMessagesPerSecond=2)
    steps(server, 4)
    again = work.receive(**ALL)
    assert [message["Body"] for message in again] == [f"a{number}" for number in range(5)]
    ids = {message["MessageId"] for message in again}
    assert ids.isdisjoint(answer["MessageId"] for answer in sent)
    assert all("DeadLetterQueueSourceArn" not in message["Attributes"] for message in again)
    assert dead.bodies() == []
    steps(server, 3)
    (task,) = sqs.list_message_move_tasks(SourceArn=arn_of("dead.fifo"))["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 5)


def test_another_fifo_queue_is_a_destination(sqs: Any, server: InProcessServer) -> None:
    _, dead = queues(sqs)
    other = Fifo(sqs, "other.fifo")
    dead.send("a1")
    dead.send("b1")
    sqs.start_message_move_task(SourceArn=arn_of("dead.fifo"), DestinationArn=arn_of("other.fifo"))
    steps(server, 3)
    assert sorted(other.bodies()) == ["a1", "b1"]
    assert dead.bodies() == []
    (task,) = sqs.list_message_move_tasks(SourceArn=arn_of("dead.fifo"))["Results"]
    assert task["Status"] == "COMPLETED"
