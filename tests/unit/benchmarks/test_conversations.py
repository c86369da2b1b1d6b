import json

from tests.benchmarks.conversations import Conversation, conversations
from tests.benchmarks.load import Group, Tally
from tests.benchmarks.wire import BATCH, Request

URL = "http://127.0.0.1:9324/000000000000/q.fifo"


def cycle(connections: int, count: int) -> tuple[Tally, Conversation]:
    tally = Tally()
    group = Group("cycle", URL, connections, count=count, message_groups=5)
    return tally, conversations(9324, group, tally)()


def response(content: object) -> bytes:
    return b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(content).encode()


def received(count: int) -> bytes:
    return response({"Messages": [{"ReceiptHandle": f"h{at}"} for at in range(count)]})


def target(request: Request) -> str:
    head = bytes(request.raw).partition(b"\r\n\r\n")[0].decode()
    return head.partition("X-Amz-Target: AmazonSQS.")[2].partition("\r\n")[0]


def test_a_cycle_sends_receives_and_deletes_as_many() -> None:
    tally, talk = cycle(connections=1, count=BATCH)
    steps = [target(next(talk)[1])]
    answers = (response({}), received(BATCH), response({}))
    steps += [target(talk.send(answer)[1]) for answer in answers]
    assert steps == ["SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch", "SendMessageBatch"]
    assert (tally.messages, tally.empty, tally.errors) == (BATCH, 0, {})


def test_a_cycle_of_one_message_makes_no_batches() -> None:
    _, talk = cycle(connections=1, count=1)
    steps = [target(next(talk)[1])]
    steps += [target(talk.send(answer)[1]) for answer in (response({}), received(1))]
    assert steps == ["SendMessage", "ReceiveMessage", "DeleteMessage"]


def test_what_lies_in_the_queue_is_received_before_more_is_sent() -> None:
    tally, talk = cycle(connections=1, count=BATCH)
    assert next(talk)[0] == "send"
    assert talk.send(response({}))[0] == "long_poll"
    assert talk.send(received(0))[0] == "long_poll"
    assert talk.send(received(BATCH - 1))[0] == "delete"
    tally.forget()
    assert talk.send(response({}))[0] == "send"
    assert talk.send(response({}))[0] == "long_poll"
    assert talk.send(received(0))[0] == "long_poll"
    assert (tally.messages, tally.empty) == (BATCH - 1, 1)


def test_entries_that_fail_are_counted() -> None:
    tally, talk = cycle(connections=1, count=BATCH)
    next(talk)
    failed = response({"Successful": [], "Failed": [{"Id": "0"}]})
    for answer in (failed, received(BATCH), failed):
        talk.send(answer)
    assert tally.errors == {"entries of a batch failed": 2}
