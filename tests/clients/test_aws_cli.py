"""The AWS CLI, unmodified, against a real server."""

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.clients.spoiling_proxy import cut_first_answer, spoiling_proxy
from tests.integration import fork_server, forked
from tests.integration.server_process import ServerProcess

AWS = Path(sys.executable).parent / "aws"
RUN_S_MAX = 60
FAILED = 255
"""The exit code of version 1 for whatever the service refused; version 2 has 254 for that."""

Run = Callable[..., subprocess.CompletedProcess[str]]
Call = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def forks() -> Iterator[forked.ForkServer | None]:
    """What starts `aws` from a process that has imported it."""
    server = forked.ForkServer(fork_server.AWS) if sys.platform == "linux" else None
    yield server
    if server is not None:
        server.close()


@pytest.fixture
def starts(forks: forked.ForkServer | None) -> list[forked.ForkServer]:
    """Who starts `aws`: the system, if it is empty."""
    return [] if forks is None else [forks]


@pytest.fixture
def started_by_the_system(starts: list[forked.ForkServer]) -> None:
    """The commands are as users start them."""
    starts.clear()


@pytest.fixture
def run(
    server: ServerProcess, client_environment: dict[str, str], starts: list[forked.ForkServer]
) -> Run:
    """Run `aws`, of a service, with some arguments."""

    def run_aws(
        *arguments: str, service: str = "sqs", endpoint: str = server.url
    ) -> subprocess.CompletedProcess[str]:
        line = ["--endpoint-url", endpoint, "--output", "json", service, *arguments]
        if starts:
            return forked.run(starts[0], line, client_environment, RUN_S_MAX)
        return subprocess.run(
            [str(AWS), *line],
            env=client_environment,
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
            check=False,
        )

    return run_aws


@pytest.fixture
def aws(run: Run) -> Call:
    """Run `aws` successfully; what it printed."""

    def run_well(*arguments: str, **options: str) -> dict[str, Any]:
        ran = run(*arguments, **options)
        assert (ran.returncode, ran.stderr) == (0, "")
        printed: dict[str, Any] = json.loads(ran.stdout or "{}")
        return printed

    return run_well


def test_messages(aws: Call, queue_name: str) -> None:
    url = aws("create-queue", "--queue-name", queue_name)["QueueUrl"]
    queue = ("--queue-url", url)
    attributes = {
        "text": {"DataType": "String", "StringValue": "x"},
        "bytes": {"DataType": "Binary", "BinaryValue": "ABC"},
    }
    sent = aws(
        *("send-message", *queue, "--message-body", "one"),
        *("--message-attributes", json.dumps(attributes)),
    )
    wrong = {"MessageAttributes": {"wrong": {"DataType": "Colour", "StringValue": "x"}}}
    entries = [{"Id": "a", "MessageBody": "two"}, {"Id": "b", "MessageBody": "three", **wrong}]
    batch = aws("send-message-batch", *queue, "--entries", json.dumps(entries))
    assert [entry["Id"] for entry in batch["Successful"]] == ["a"]
    assert [(entry["Id"], entry["SenderFault"]) for entry in batch["Failed"]] == [("b", True)]

    receive = ("receive-message", *queue, "--max-number-of-messages", "10")
    everything = ("--message-attribute-names", "All", "--message-system-attribute-names", "All")
    received = aws(*receive, *everything, "--visibility-timeout", "600")["Messages"]
    one, two = sorted(received, key=lambda message: str(message["Body"]))
    assert (one["Body"], two["Body"]) == ("one", "two")
    assert one["MessageId"] == sent["MessageId"]
    shown_bytes = {"DataType": "Binary", "BinaryValue": base64.b64encode(b"ABC").decode()}
    assert one["MessageAttributes"] == attributes | {"bytes": shown_bytes}
    assert one["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    assert one["Attributes"]["ApproximateReceiveCount"] == "1"

    aws("delete-message", *queue, "--receipt-handle", one["ReceiptHandle"])
    handle = ("--receipt-handle", two["ReceiptHandle"])
    aws("change-message-visibility", *queue, *handle, "--visibility-timeout", "0")
    (again,) = aws(*receive, "--wait-time-seconds", "10")["Messages"]
    assert again["MessageId"] == two["MessageId"]
    aws("purge-queue", *queue)
    assert aws(*receive) == {}


def test_fifo_queues(aws: Call, run: Run, queue_name: str) -> None:
    made = ("--attributes", "FifoQueue=true,ContentBasedDeduplication=true")
    url = aws("create-queue", "--queue-name", f"{queue_name}.fifo", *made)["QueueUrl"]
    queue = ("--queue-url", url)
    entries = [{"Id": body, "MessageBody": body, "MessageGroupId": "group-1"} for body in "123"]
    sent = aws("send-message-batch", *queue, "--entries", json.dumps(entries))["Successful"]
    again = aws("send-message", *queue, "--message-body", "1", "--message-group-id", "group-1")
    assert again.items() <= sent[0].items()
    receive = ("receive-message", *queue, "--max-number-of-messages", "2")
    names = ("--message-system-attribute-names", "All", "--receive-request-attempt-id", "first")
    messages = aws(*receive, *names)["Messages"]
    assert [message["Body"] for message in messages] == ["1", "2"]
    shown = [message["Attributes"]["SequenceNumber"] for message in messages]
    assert shown == [entry["SequenceNumber"] for entry in sent[:2]]
    assert aws(*receive) == {}
    repeated = aws(*receive, *names)["Messages"]
    assert repeated[0]["ReceiptHandle"] == messages[0]["ReceiptHandle"]
    refused = run("send-message", *queue, "--message-body", "x")
    assert refused.stderr.strip() == (
        "An error occurred (MissingParameter) when calling the SendMessage operation: "
        "The request must contain the parameter MessageGroupId."
    )


def test_dead_letters(aws: Call, server: ServerProcess, queue_name: str) -> None:
    client = server.client()
    dead_url = client.create_queue(QueueName=f"{queue_name}-dead")["QueueUrl"]
    policy = {
        "deadLetterTargetArn": f"arn:aws:sqs:us-east-1:000000000000:{queue_name}-dead",
        "maxReceiveCount": 1,
    }
    attributes = ("--attributes", json.dumps({"RedrivePolicy": json.dumps(policy)}))
    url = aws("create-queue", "--queue-name", queue_name, *attributes)["QueueUrl"]
    sent = client.send_message(QueueUrl=url, MessageBody="poison")
    assert client.receive_message(QueueUrl=url, VisibilityTimeout=0)["Messages"]
    assert "Messages" not in client.receive_message(QueueUrl=url)
    dead = ("--queue-url", dead_url)
    (message,) = aws("receive-message", *dead, "--wait-time-seconds", "10")["Messages"]
    assert message["MessageId"] == sent["MessageId"]
    assert aws("list-dead-letter-source-queues", *dead)["queueUrls"] == [url]


def test_queues(aws: Call, run: Run, queue_name: str) -> None:
    url = aws("create-queue", "--queue-name", queue_name, "--tags", "team=orders")["QueueUrl"]
    queue = ("--queue-url", url)
    assert aws("get-queue-url", "--queue-name", queue_name) == {"QueueUrl": url}
    aws("set-queue-attributes", *queue, "--attributes", "VisibilityTimeout=77,DelaySeconds=3")
    names = ("--attribute-names", "VisibilityTimeout", "DelaySeconds", "QueueArn")
    assert aws("get-queue-attributes", *queue, *names) == {
        "Attributes": {
            "VisibilityTimeout": "77",
            "DelaySeconds": "3",
            "QueueArn": f"arn:aws:sqs:us-east-1:000000000000:{queue_name}",
        }
    }
    aws("tag-queue", *queue, "--tags", "stage=test")
    assert aws("list-queue-tags", *queue) == {"Tags": {"team": "orders", "stage": "test"}}
    aws("delete-queue", *queue)
    gone = run("get-queue-url", "--queue-name", queue_name)
    assert gone.returncode == FAILED


@pytest.fixture
def streams(aws: Call) -> Call:
    """Run `aws kinesis` successfully; what it printed."""
    return partial(aws, service="kinesis")


def test_a_stream(streams: Call, queue_name: str) -> None:
    stream = ("--stream-name", queue_name)
    streams("create-stream", *stream, "--shard-count", "1")
    streams("wait", "stream-exists", *stream)
    put = streams("put-record", *stream, "--partition-key", "ann", "--data", "hello")
    records = [{"Data": "world", "PartitionKey": "bob"}]
    assert (
        streams("put-records", *stream, "--records", json.dumps(records))["FailedRecordCount"] == 0
    )
    iterator = streams(
        *("get-shard-iterator", *stream, "--shard-id", put["ShardId"]),
        *("--shard-iterator-type", "TRIM_HORIZON"),
    )["ShardIterator"]
    page = streams("get-records", "--shard-iterator", iterator)
    assert [one["Data"] for one in page["Records"]] == ["aGVsbG8=", "d29ybGQ="]
    assert page["Records"][0]["SequenceNumber"] == put["SequenceNumber"]
    streams("split-shard", *stream, "--shard-to-split", "0", "--new-starting-hash-key", "9")
    assert len(streams("list-shards", *stream)["Shards"]) == 3
    assert queue_name in streams("list-streams")["StreamNames"]
    streams("delete-stream", *stream)
    streams("wait", "stream-not-exists", *stream)


def test_a_list_in_pages(aws: Call, server: ServerProcess, queue_name: str) -> None:
    client = server.client()
    urls = [client.create_queue(QueueName=f"{queue_name}-{at}")["QueueUrl"] for at in range(5)]
    listed = ("list-queues", "--queue-name-prefix", f"{queue_name}-")
    assert aws(*listed, "--page-size", "2")["QueueUrls"] == urls
    first = aws(*listed, "--page-size", "2", "--max-items", "3")
    rest = aws(*listed, "--page-size", "2", "--starting-token", first["NextToken"])
    assert first["QueueUrls"] + rest["QueueUrls"] == urls


@pytest.mark.usefixtures("started_by_the_system")
@pytest.mark.parametrize(
    ("arguments", "code", "operation", "message"),
    [
        (
            ("get-queue-url", "--queue-name", "missing"),
            "AWS.SimpleQueueService.NonExistentQueue",
            "GetQueueUrl",
            "The specified queue does not exist.",
        ),
        (
            ("create-queue", "--queue-name", "no name"),
            "InvalidParameterValue",
            "CreateQueue",
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        ),
    ],
)
def test_an_error_is_said_in_the_words_of_aws(
    run: Run, arguments: tuple[str, ...], code: str, operation: str, message: str
) -> None:
    ran = run(*arguments)
    assert (ran.returncode, ran.stdout) == (FAILED, "")
    text = f"An error occurred ({code}) when calling the {operation} operation: {message}"
    assert ran.stderr.strip() == text


@pytest.mark.usefixtures("started_by_the_system")
def test_a_send_whose_answer_was_lost_is_repeated_and_sends_once(
    aws: Call, server: ServerProcess, queue_name: str
) -> None:
    client = server.client()
    url = client.create_queue(QueueName=queue_name)["QueueUrl"]
    send = ("send-message", "--queue-url", url, "--message-body", "once")
    with spoiling_proxy(server.port, cut_first_answer()) as proxy:
        sent = aws(*send, endpoint=proxy.url)
    assert len(proxy.seen) == 2
    received = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["MessageId"] for message in received] == [sent["MessageId"]]
