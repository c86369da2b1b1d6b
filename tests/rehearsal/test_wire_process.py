"""`tidegate serve --cell dynamodb` on every engine that can be had, through boto3."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.conformance.client_calls import one
from tests.conformance.in_process import ACCOUNT, REGION
from tests.conformance.test_boto3_message_errors import (
    test_a_handle_of_another_queue,  # noqa: F401 - run here, as all the others
    test_the_visibility_of_what_is_gone,  # noqa: F401
    test_wrong_batches_store_nothing,  # noqa: F401
    test_wrong_handles,  # noqa: F401
)
from tests.conformance.test_boto3_messages import (
    test_a_message_comes_back_as_it_was_sent,  # noqa: F401
    test_batches,  # noqa: F401
    test_one_wrong_entry_does_not_harm_the_others,  # noqa: F401
    test_the_biggest_message_fits,  # noqa: F401
    url,  # noqa: F401 - their fixture
)
from tests.conformance.test_boto3_queues import (
    test_a_paginator_sees_every_queue_once,  # noqa: F401
    test_a_queue_that_is_not_there,  # noqa: F401
    test_tags,  # noqa: F401
    test_the_same_name_with_other_attributes,  # noqa: F401
)
from tests.conformance.test_boto3_redrive_configuration import (
    test_the_sources_of_a_dead_letter_queue,  # noqa: F401
)
from tests.integration.server_process import ServerProcess
from tests.rehearsal.conftest import EACH_ENGINE, EngineUrl
from tests.rehearsal.servers import serving


@pytest.fixture(scope="module", params=EACH_ENGINE)
def server(
    request: pytest.FixtureRequest, engine_url: EngineUrl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    with serving(engine_url(request.param), folder) as (started,):
        yield started


@pytest.fixture
def sqs(server: ServerProcess) -> Iterator[Any]:
    """A client to whom there are no queues yet."""
    client = boto3.client(
        "sqs",
        endpoint_url=server.url,
        region_name=REGION,
        aws_access_key_id=ACCOUNT,
        aws_secret_access_key="unused",
        config=Config(retries={"total_max_attempts": 1}),
    )
    yield client
    for found in client.list_queues().get("QueueUrls", []):
        client.delete_queue(QueueUrl=found)
    client.close()


def test_what_was_acknowledged_outlives_the_server(sqs: Any, server: ServerProcess) -> None:
    queue = sqs.create_queue(QueueName="kept", Attributes={"VisibilityTimeout": "3600"})["QueueUrl"]
    for text in ("deleted", "leased", "waiting"):
        sqs.send_message(QueueUrl=queue, MessageBody=text)
    handles: dict[str, str] = {}
    while len(handles) < 3:
        message = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"][0]
        handles[message["Body"]] = message["ReceiptHandle"]
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handles["deleted"])
    sqs.change_message_visibility(
        QueueUrl=queue, ReceiptHandle=handles["waiting"], VisibilityTimeout=0
    )
    server.kill()
    server.start()
    assert one(sqs, queue, WaitTimeSeconds=5)["Body"] == "waiting"
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)
