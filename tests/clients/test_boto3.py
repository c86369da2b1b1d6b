"""boto3 against a real server: what tests/conformance leaves out.

(The conformance tests run over a socket too: tests/integration/test_conformance_over_a_socket.py.)
"""

from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.clients.spoiling_proxy import cut_first_answer, spoiling_proxy
from tests.conformance.client_calls import error
from tests.conformance.query_model import query_loader
from tests.integration.server_process import ServerProcess


def credentials(server: ServerProcess) -> dict[str, Any]:
    key_id, secret = server.access_key
    return {
        "region_name": "us-east-1",
        "aws_access_key_id": key_id,
        "aws_secret_access_key": secret,
    }


def client_of(protocol: str, server: ServerProcess, endpoint: str = "", **config: Any) -> Any:
    session = boto3.session.Session()
    if protocol == "query":
        session._session.register_component("data_loader", query_loader())
    make_client: Any = session.client
    return make_client(
        "sqs", endpoint_url=endpoint or server.url, config=Config(**config), **credentials(server)
    )


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_a_message_goes_round(server: ServerProcess, queue_name: str, protocol: str) -> None:
    client = client_of(protocol, server)
    url = client.create_queue(QueueName=queue_name)["QueueUrl"]
    attributes = {"bytes": {"DataType": "Binary", "BinaryValue": bytes(range(256))}}
    sent = client.send_message(QueueUrl=url, MessageBody="ü\n", MessageAttributes=attributes)
    (message,) = client.receive_message(
        QueueUrl=url, WaitTimeSeconds=10, MessageAttributeNames=["All"]
    )["Messages"]
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "ü\n")
    assert message["MessageAttributes"] == attributes
    client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert error(client.get_queue_url, QueueName="missing")[::2] == (
        "AWS.SimpleQueueService.NonExistentQueue",
        400,
    )
    client.close()


def test_resources(server: ServerProcess, queue_name: str) -> None:
    """The object-oriented half of boto3, which keeps URLs and handles for its user."""
    make_resource: Any = boto3.resource
    resource = make_resource("sqs", endpoint_url=server.url, **credentials(server))
    queue = resource.create_queue(QueueName=queue_name)
    queue.send_messages(Entries=[{"Id": str(at), "MessageBody": str(at)} for at in range(3)])
    messages = queue.receive_messages(MaxNumberOfMessages=10, WaitTimeSeconds=10)
    assert sorted(message.body for message in messages) == ["0", "1", "2"]
    messages[0].change_visibility(VisibilityTimeout=0)
    (again,) = queue.receive_messages(WaitTimeSeconds=10)
    assert again.message_id == messages[0].message_id
    for message in (again, *messages[1:]):
        message.delete()
    queue.reload()
    assert queue.attributes["ApproximateNumberOfMessages"] == "0"
    assert queue.attributes["ApproximateNumberOfMessagesNotVisible"] == "0"
    assert [each.url for each in resource.queues.filter(QueueNamePrefix=queue_name)] == [queue.url]
    resource.meta.client.close()


@pytest.mark.parametrize("protocol", ["json", "query"])
@pytest.mark.parametrize("mode", ["legacy", "standard"])
def test_a_send_whose_answer_was_lost_is_repeated_and_sends_once(
    server: ServerProcess, queue_name: str, protocol: str, mode: str
) -> None:
    direct = client_of(protocol, server)
    url = direct.create_queue(QueueName=queue_name)["QueueUrl"]
    with spoiling_proxy(server.port, cut_first_answer()) as proxy:
        client = client_of(
            protocol, server, proxy.url, retries={"mode": mode, "total_max_attempts": 3}
        )
        sent = client.send_message(QueueUrl=url, MessageBody="once")
        client.close()
    assert sent["ResponseMetadata"]["RetryAttempts"] == 1
    assert len(proxy.seen) == 2
    received = direct.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["MessageId"] for message in received] == [sent["MessageId"]]
    direct.close()
