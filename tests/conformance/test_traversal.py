"""Addresses that try to name another queue, another account, or something beside the queues."""

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace

from tests.conformance.in_process import ACCOUNT, ENDPOINT, InProcessServer
from tests.conformance.raw_calls import PROTOCOLS, Bench, encode_form, form_request, json_request

OTHER = "444455556666"
SAME = (
    f"https://queues.example/{ACCOUNT}/orders",
    f"http://user:secret@h/{ACCOUNT}/orders",
    f"http://{OTHER}.example:1/{ACCOUNT}/orders",
    f"http://h/{ACCOUNT}/orders/",
    f"http://h/{ACCOUNT}/orders?QueueUrl=http://h/{OTHER}/other",
    f"http://h/{ACCOUNT}/orders#/{OTHER}/other",
    f"HTTP://h/{ACCOUNT}/orders",
    "orders",
)
"""Of an address only account and name count; these name "orders" in any case."""
NOTHING = (
    *("..", ".", "../orders", "./orders", "orders/..", "orders/../other", "..\\orders"),
    *("%6frders", "orders%00", "orders\x00", "orders\n", "orders;a=b", "orders?a", "orders#a"),
    *("orders%2fother", "orders//", "//orders", "///", "\\orders", "orders\u200b", "\uff4frders"),
    *("o" * 81, "o" * 100_000, "/" * 10_000, f"arn:aws:sqs:eu-west-1:{ACCOUNT}:orders", "orders:1"),
    *("orders.fifo.fifo", ".fifo", "registry", "account|orders", "orders|0", "~/orders"),
    f"http://h/{ACCOUNT}/../{ACCOUNT}/orders",
    f"http://h/{ACCOUNT}/./orders",
    f"http://h/{OTHER}/../{ACCOUNT}/orders",
    f"http://h/{OTHER}%2f..%2f{ACCOUNT}/orders",
    f"http://h/%31{ACCOUNT[1:]}/orders",
    f"http://h//{ACCOUNT}/orders",
    f"http://h/{ACCOUNT}//orders",
    f"http://h/{ACCOUNT}/orders;a=b",
    f"http://h/{ACCOUNT}/%6frders",
    f"http://h/{ACCOUNT}/orders%2f",
    f"http://h/{ACCOUNT}/orders%00",
    f"http://h/{ACCOUNT}/orders\x00",
    f"http://h/{ACCOUNT}/or\nders",
    f"http://h/{ACCOUNT[:6]}\t{ACCOUNT[6:]}/orders",
    f" http://h/{ACCOUNT}/orders",
    f"\x1fhttp://h/{ACCOUNT}/orders",
    f"http:\\\\h\\{ACCOUNT}\\orders",
    f"http://h\\{ACCOUNT}/orders",
    f"http://h/ {ACCOUNT}/orders",
    f"http://h/+{ACCOUNT}/orders",
    f"http://h/0{ACCOUNT}/orders",
    "http://h/\u0661\u0661\u0661\u0661\u0662\u0662\u0662\u0662\u0663\u0663\u0663\u0663/orders",
    f"http://[::1/{ACCOUNT}/orders",
    f"http://h:port]/{ACCOUNT}/orders",
    f"file:///{ACCOUNT}/orders",
    f"javascript://h/{ACCOUNT}/orders",
    f"s3://h/{ACCOUNT}/orders",
    f"//h/{ACCOUNT}/orders",
    f"http://h/?/{ACCOUNT}/orders",
    f"http://h/#/{ACCOUNT}/orders",
    f"arn:aws:sqs:eu-west-1:{ACCOUNT}:/{ACCOUNT}/orders",
)


@pytest.fixture(scope="module", params=PROTOCOLS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(request.param)
    bench.ask("CreateQueue", QueueName="orders")
    yield bench
    bench.close()


def waiting(bench: Bench) -> int:
    """Messages in the queue, which is empty then."""
    found = bench.ask("ReceiveMessage", QueueUrl="orders", MaxNumberOfMessages=10)
    messages = found.get("Messages", [])
    for message in messages:
        bench.ask("DeleteMessage", QueueUrl="orders", ReceiptHandle=message["ReceiptHandle"])
    return len(messages)


@pytest.mark.parametrize("address", SAME)
def test_of_an_address_only_account_and_name_count(bench: Bench, address: str) -> None:
    assert bench.call("SendMessage", {"QueueUrl": address, "MessageBody": "x"}).status == 200
    assert waiting(bench) == 1


@pytest.mark.parametrize("address", NOTHING, ids=[f"{n}" for n in range(len(NOTHING))])
def test_no_other_writing_of_an_address_names_a_queue(bench: Bench, address: str) -> None:
    before = bench.state()
    reply = bench.call("SendMessage", {"QueueUrl": address, "MessageBody": "x"})
    assert reply.code in ("AWS.SimpleQueueService.NonExistentQueue", "InvalidAddress"), reply
    assert bench.call("DeleteQueue", {"QueueUrl": address}).status != 200
    assert bench.call("GetQueueUrl", {"QueueName": address}).status != 200
    assert waiting(bench) == 0
    assert bench.state() == before


PATHS = (
    f"/{ACCOUNT}/../{ACCOUNT}/orders",
    f"/{ACCOUNT}/%6frders",
    f"/{ACCOUNT}/orders/..",
    f"/{ACCOUNT}%2forders",
    f"/{ACCOUNT}/orders;a=b",
    f"/{ACCOUNT}\\orders",
    f"/..%2f{ACCOUNT}/orders",
    f"/{ACCOUNT}/orders%00",
    f"/{OTHER}/orders",
    "/health/orders",
)


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_name_no_queue(path: str) -> None:
    bench = Bench("query")
    bench.ask("CreateQueue", QueueName="orders")
    form = b"Action=SendMessage&MessageBody=x"
    assert bench.server.answer(form_request(form, path=path)).status in (400, 404)
    assert waiting(bench) == 0
    bench.close()


def test_a_request_that_names_two_queues_means_one(bench: Bench) -> None:
    """The parameter's; policies are asked about the same one, since it is resolved once."""
    bench.ask("CreateQueue", QueueName="other")
    params = {"QueueUrl": f"{ENDPOINT}/{ACCOUNT}/orders", "MessageBody": "x"}
    path = f"/{ACCOUNT}/other"
    if bench.protocol == "json":
        request = json_request("SendMessage", params, path=path)
    else:
        fields = [("Action", "SendMessage"), *params.items()]
        request = replace(form_request(encode_form(fields)), path=path)
    assert bench.send(request).status == 200
    assert waiting(bench) == 1


class Crossing:
    """A server that verifies, with two accounts, and a client of the one without the queue."""

    def __init__(self, protocol: str) -> None:
        self.server = InProcessServer(verifies=True)
        for account in (ACCOUNT, OTHER):
            self.server.run(self.server.accounts.create_account("one", account, {}))
        self.owner = self._client("json", ACCOUNT)
        self.owner.create_queue(QueueName="orders")
        self.stranger = self._client(protocol, OTHER)

    def _client(self, protocol: str, account: str) -> Any:
        key = self.server.run(self.server.accounts.create_key(account))
        return self.server.client(protocol, key.id, secret=key.secret)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_writing_of_an_address_leads_into_another_account(protocol: str) -> None:
    crossing = Crossing(protocol)
    for address in (*SAME, *NOTHING):
        with pytest.raises(ClientError) as raised:
            crossing.stranger.send_message(QueueUrl=address, MessageBody="x")
        code = raised.value.response["Error"]["Code"]
        assert code in ("AWS.SimpleQueueService.NonExistentQueue", "InvalidAddress", "AccessDenied")
    assert "Messages" not in crossing.owner.receive_message(QueueUrl="orders")
    assert "QueueUrls" not in crossing.stranger.list_queues()
    crossing.server.close()
