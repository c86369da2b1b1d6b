"""Messages and redrive policies through boto3 once more, on a DynamoDB cell on moto."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.in_process import InProcessServer
from tests.conformance.runners import RUNNERS
from tests.conformance.test_boto3_dead_letters import *  # noqa: F403 - its tests are run here
from tests.conformance.test_boto3_messages import *  # noqa: F403 - its tests are run here
from tests.conformance.test_boto3_redrive_configuration import *  # noqa: F403 - as above
from tests.conformance.test_fair_queues import *  # noqa: F403 - as above
from tests.conformance.test_two_front_ends import *  # noqa: F403 - its tests are run here


@pytest.fixture(params=RUNNERS)
def server(request: pytest.FixtureRequest, dynamodb: Any) -> Iterator[InProcessServer]:
    with serving_on_dynamodb(dynamodb, RUNNERS[request.param]) as started:
        yield started


@pytest.fixture
def sqs(server: InProcessServer) -> Any:
    return server.client("json")


def test_a_batch_of_the_greatest_size_goes_through_items_of_400_kb(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="big")["QueueUrl"]
    # 1 MiB in total, of which zstd takes off less than half.
    bodies = [os.urandom(52_428).hex() for _ in range(10)]
    entries = [{"Id": str(i), "MessageBody": body} for i, body in enumerate(bodies)]
    assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 10
    received = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in received] == bodies
