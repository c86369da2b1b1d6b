"""One service under several names: signatures are for the name, and queue URLs have it."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace

from data_plane.core.errors import SIGNATURE_DOES_NOT_MATCH
from data_plane.protocol.http import HttpRequest, HttpResponse
from tests.conformance.in_process import ACCOUNT, InProcessServer

SHOP, BANK = "https://shop.example.com", "https://bank.example.com"


class Named(InProcessServer):
    """Ends TLS before the server, as API Gateway and load balancers do, and keeps the host."""

    def __init__(self) -> None:
        super().__init__(verifies=True)
        self.run(self.accounts.create_account("tests", ACCOUNT, {}))
        self.key = self.run(self.accounts.create_key(ACCOUNT))
        self.takes_for = ""
        self.scheme = "https"

    def at(self, name: str, protocol: str = "json") -> Any:
        self.endpoint = name
        return self.client(protocol, self.key.id, secret=self.key.secret)

    def answer(self, request: HttpRequest) -> HttpResponse:
        headers = {**request.headers, "x-forwarded-proto": self.scheme}
        if self.takes_for:
            headers["host"] = self.takes_for
        return super().answer(replace(request, headers=headers))


@pytest.fixture
def server() -> Iterator[Named]:
    started = Named()
    yield started
    started.close()


@pytest.mark.parametrize(("protocol", "scheme"), [("json", "https"), ("query", "HTTPS")])
def test_a_queue_has_the_name_under_which_it_is_asked_for(
    server: Named, protocol: str, scheme: str
) -> None:
    server.scheme = scheme
    shop, bank = server.at(SHOP, protocol), server.at(BANK, protocol)
    made = shop.create_queue(QueueName="orders")["QueueUrl"]
    found = bank.get_queue_url(QueueName="orders")["QueueUrl"]
    assert made == f"{SHOP}/{ACCOUNT}/orders"
    assert found == f"{BANK}/{ACCOUNT}/orders"
    assert bank.list_queues()["QueueUrls"] == [found]


def test_all_names_lead_to_the_same_queue(server: Named) -> None:
    shop, bank = server.at(SHOP), server.at(BANK)
    url = shop.create_queue(QueueName="orders")["QueueUrl"]
    shop.send_message(QueueUrl=url, MessageBody="hello")
    # SDKs send a call to the endpoint of the client, whatever host the queue's URL has.
    (message,) = bank.receive_message(QueueUrl=url)["Messages"]
    bank.delete_message(QueueUrl=url.replace(SHOP, BANK), ReceiptHandle=message["ReceiptHandle"])
    assert message["Body"] == "hello"


def test_a_signature_is_for_the_name_that_was_signed(server: Named) -> None:
    """So whatever replaces the Host header, as CloudFront before a function URL, breaks it."""
    server.takes_for = "bank.example.com"
    with pytest.raises(ClientError) as refused:
        server.at(SHOP).list_queues()
    assert refused.value.response["Error"]["Code"] == SIGNATURE_DOES_NOT_MATCH.code
    assert server.at(BANK).list_queues()["ResponseMetadata"]["HTTPStatusCode"] == 200
