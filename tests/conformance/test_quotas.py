"""Quotas as SDKs meet them: what boto3 gets, repeats, and for whom it counts."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from botocore.retries.standard import ThrottledRetryableChecker as Repeated

from control_plane.service import OPERATOR
from tests.conformance.in_process import InProcessServer

LOUD = "111122223333"
CALM = "444455556666"
QUOTAS = {"account_send_per_s": 5, "queue_receive_per_s": 2, "account_control_per_s": 100}


@pytest.fixture
def server() -> Iterator[InProcessServer]:
    made = InProcessServer(verifies=True)
    made.run(made.accounts.create_account("root", OPERATOR, {}))
    yield made
    made.close()


def tenant(server: InProcessServer, account: str, protocol: str = "json") -> tuple[Any, str]:
    """A client of the account, and the URL of a queue of its own."""
    if server.run(server.accounts.account(account)) is None:
        server.run(server.accounts.create_account("tenant", account, QUOTAS))
    key = server.run(server.accounts.create_key(account))
    assert key is not None
    client = server.client(protocol, account=key.id, secret=key.secret)
    return client, client.create_queue(QueueName="orders")["QueueUrl"]


def outcomes(call: Any, tries: int, **params: Any) -> Counter[str]:
    counted: Counter[str] = Counter()
    for _ in range(tries):
        try:
            call(**params)
        except ClientError as error:
            counted[error.response["Error"]["Code"]] += 1
        else:
            counted["served"] += 1
    return counted


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_what_is_too_much_is_an_error_that_sdks_repeat(
    server: InProcessServer, protocol: str
) -> None:
    client, url = tenant(server, LOUD, protocol)
    sends = outcomes(client.send_message, 8, QueueUrl=url, MessageBody="m")
    assert sends == {"served": 5, "RequestThrottled": 3}
    with pytest.raises(ClientError) as refused:
        client.send_message(QueueUrl=url, MessageBody="m")
    response = refused.value.response
    assert response["Error"]["Code"] in Repeated._THROTTLED_ERROR_CODES  # type: ignore[attr-defined]
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 403
    headers = response["ResponseMetadata"]["HTTPHeaders"]
    assert headers["retry-after"] == "1"
    assert headers["x-amz-retry-after"] == "200"
    server.clock.advance(0.2)
    assert client.send_message(QueueUrl=url, MessageBody="m")["MessageId"]


def test_nobody_pays_for_another(server: InProcessServer) -> None:
    loud, loud_url = tenant(server, LOUD)
    calm, calm_url = tenant(server, CALM)
    loud_sends = outcomes(loud.send_message, 50, QueueUrl=loud_url, MessageBody="m")
    assert loud_sends == {"served": 5, "RequestThrottled": 45}
    assert outcomes(calm.send_message, 5, QueueUrl=calm_url, MessageBody="m") == {"served": 5}
    entries = [{"Id": str(at), "MessageBody": "m"} for at in range(10)]
    server.clock.advance(1)
    batches = outcomes(loud.send_message_batch, 5, QueueUrl=loud_url, Entries=entries)
    assert batches == {"served": 5}


def test_a_queue_has_its_own_limit_and_others_are_not_concerned(server: InProcessServer) -> None:
    client, url = tenant(server, LOUD)
    other = client.create_queue(QueueName="others")["QueueUrl"]
    receives = outcomes(client.receive_message, 20, QueueUrl=url)
    assert receives == {"served": 2, "RequestThrottled": 18}
    assert outcomes(client.receive_message, 2, QueueUrl=other) == {"served": 2}


def test_a_new_quota_counts_at_once_on_the_server_that_sets_it(server: InProcessServer) -> None:
    client, url = tenant(server, LOUD)
    assert outcomes(client.send_message, 50, QueueUrl=url, MessageBody="m")["RequestThrottled"]
    server.run(server.accounts.set_quotas(LOUD, {}))
    assert outcomes(client.send_message, 50, QueueUrl=url, MessageBody="m") == {"served": 50}


def test_the_operators_account_has_no_quotas(server: InProcessServer) -> None:
    client, url = tenant(server, OPERATOR)
    assert outcomes(client.send_message, 50, QueueUrl=url, MessageBody="m") == {"served": 50}
