"""Requests for what is not there: actions, paths, methods and queues, and what SQS answers."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from data_plane.protocol.http import HttpRequest
from tests.conformance.in_process import ACCOUNT
from tests.conformance.raw_calls import (
    PROTOCOLS,
    Bench,
    Reply,
    encode_form,
    form_request,
    json_request,
    refused,
    url,
)

PATH = f"/{ACCOUNT}/orders"
UNKNOWN = refused("InvalidAction", "The operation is unknown.")


@pytest.fixture(scope="module", params=PROTOCOLS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from opened(request.param)


@pytest.fixture(scope="module")
def documents() -> Iterator[Bench]:
    yield from opened("json")


@pytest.fixture(scope="module")
def forms() -> Iterator[Bench]:
    yield from opened("query")


def opened(protocol: str) -> Iterator[Bench]:
    bench = Bench(protocol)
    bench.ask("CreateQueue", QueueName="orders")
    yield bench
    bench.close()


@pytest.mark.parametrize(
    "target",
    [
        "AmazonSQS.Nonsense",
        "AmazonSQS.sendmessage",
        "AmazonSQS.SendMessage ",
        "AmazonSQS.",
        "AmazonSQS",
        "SendMessage",
        ".SendMessage",
        "AmazonSNS.SendMessage",
        "amazonsqs.SendMessage",
        "AmazonSQS.AmazonSQS.SendMessage",
        "AmazonSQS_20121105.SendMessage",
        "\u00fc",
        "",
    ],
)
def test_targets_that_name_no_operation(documents: Bench, target: str) -> None:
    """Code and status are recorded from AWS."""
    request = json_request("SendMessage", {"QueueUrl": "orders", "MessageBody": "x"})
    headers = {**request.headers, "x-amz-target": target}
    assert documents.send(replace(request, headers=headers)) == UNKNOWN


def test_json_without_a_target(documents: Bench) -> None:
    request = json_request("", {"QueueUrl": "orders", "MessageBody": "x"})
    headers = {name: text for name, text in request.headers.items() if name != "x-amz-target"}
    assert documents.send(replace(request, headers=headers)) == UNKNOWN


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "PATCH", "post", ""])
def test_json_is_posted(documents: Bench, method: str) -> None:
    request = json_request("SendMessage", {"QueueUrl": "orders", "MessageBody": "x"})
    assert documents.send(replace(request, method=method)) == UNKNOWN


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", ""])
def test_a_target_makes_it_json_unless_its_content_type_says_that_it_is_a_form(
    documents: Bench, content_type: str
) -> None:
    body = {"QueueUrl": "orders", "MessageBody": "x"}
    request = json_request("SendMessage", body, {"content-type": content_type})
    assert documents.send(request) == Reply(200)
    request = json_request("SendMessage", b"Action=ListQueues", {"content-type": content_type})
    assert documents.send(request).code == "MalformedInput"


def test_addresses_of_elasticmq_are_read_where_there_is_such_a_queue(forms: Bench) -> None:
    """Until 1.0 it had the word `queue` in the place of the account."""
    form = encode_form([("Action", "SendMessage"), ("MessageBody", "x")])
    assert forms.send(form_request(form, path="/queue/orders")) == Reply(200)
    assert forms.send(form_request(form, path="/queue/nothing")) == refused(
        "InvalidAddress", "The address /queue/nothing is not valid for this endpoint."
    )


def test_addresses_of_elasticmq_in_queue_urls(bench: Bench) -> None:
    params = {"QueueUrl": "http://elasticmq:9324/queue/orders", "MessageBody": "x"}
    assert bench.call("SendMessage", params) == Reply(200)
    for wrong in ("http://elasticmq:9324/queue/nothing", "http://elasticmq:9324/queues/orders"):
        assert bench.call("SendMessage", {**params, "QueueUrl": wrong}) == refused(
            "InvalidAddress", f"The address {wrong} is not valid for this endpoint."
        )


@pytest.mark.parametrize("action", ["ListQueues", "GetQueueUrl", "SendMessage"])
def test_a_path_of_two_words_is_an_address_of_a_queue(documents: Bench, action: str) -> None:
    """Whatever the operation is about: `/api/sqs` leads here no more than `/sqs` does."""
    params = {"QueueUrl": "orders", "QueueName": "orders", "MessageBody": "x"}
    request = replace(json_request(action, params), path="/api/sqs/")
    assert documents.send(request) == refused(
        "InvalidAddress", "The address /api/sqs/ is not valid for this endpoint."
    )
    assert documents.send(replace(json_request(action, params), path="/sqs")) == refused(
        "InvalidAction", "The path is unknown."
    )


@pytest.mark.parametrize("action", ["Nonsense", "sendMessage", "SendMessage ", "", "<b>&"])
def test_actions_that_do_not_exist(forms: Bench, action: str) -> None:
    fields = [("Action", action), ("QueueUrl", "orders"), ("MessageBody", "x")]
    message = f"The action {action} is not valid for this endpoint."
    assert forms.send(form_request(encode_form(fields))) == refused("InvalidAction", message)


@pytest.mark.parametrize("action", ["CreateQueue", "ListQueues"])
def test_actions_that_are_not_for_a_queue(forms: Bench, action: str) -> None:
    """Recorded from AWS."""
    before = forms.state()
    form = f"Action={action}&QueueName=other".encode()
    message = f"The action {action} is not valid for this endpoint."
    assert forms.send(form_request(form, path=PATH)) == refused("InvalidAction", message)
    request = HttpRequest("GET", PATH, form.decode(), {"host": "x"}, b"")
    assert forms.send(request) == refused("InvalidAction", message)
    assert forms.state() == before


@pytest.mark.parametrize(
    ("method", "path", "query", "form"),
    [
        ("GET", "/", "", b""),
        ("GET", PATH, "", b""),
        ("GET", PATH, "QueueUrl=orders", b""),
        ("GET", "/", "action=ListQueues", b""),
        ("GET", "/favicon.ico", "Action=ListQueues", b""),
        ("GET", f"{PATH}/more", "Action=ListQueues", b""),
        ("POST", "/", "", b""),
        ("POST", "/", "", b"QueueUrl=orders&MessageBody=x"),
        ("POST", "/orders", "", b"Action=SendMessage&MessageBody=x"),
        ("PUT", "/", "Action=ListQueues", b""),
        ("DELETE", PATH, "Action=SendMessage&MessageBody=x", b""),
        ("", "/", "Action=ListQueues", b""),
    ],
)
def test_requests_without_an_action(
    forms: Bench, method: str, path: str, query: str, form: bytes
) -> None:
    """Recorded from AWS, of GET."""
    before = forms.state()
    answer = forms.server.answer(HttpRequest(method, path, query, {"host": "x"}, form))
    assert (answer.status, answer.body) == (404, b"<UnknownOperationException/>")
    assert dict(answer.headers)["content-type"] == "text/xml"
    assert forms.state() == before


@pytest.mark.parametrize(
    "address",
    [None, "", "other", "orders ", "ORDERS", "or\u0434ers", url("other"), url("orders%20"), "\x00"],
)
def test_queues_that_do_not_exist(bench: Bench, address: str | None) -> None:
    """That a request which names none is answered so is recorded from AWS."""
    params = {"MessageBody": "x"} if address is None else {"MessageBody": "x", "QueueUrl": address}
    wording = " for this wsdl version." if bench.protocol == "query" else "."
    assert bench.call("SendMessage", params) == refused(
        "AWS.SimpleQueueService.NonExistentQueue", f"The specified queue does not exist{wording}"
    )


@pytest.mark.parametrize("name", ["", "other", "a b", "\u20ac", "x" * 81, "x" * 600, "x" * 15_000])
def test_names_of_no_queue(bench: Bench, name: str) -> None:
    wording = " for this wsdl version." if bench.protocol == "query" else "."
    assert bench.call("GetQueueUrl", {"QueueName": name}) == refused(
        "AWS.SimpleQueueService.NonExistentQueue", f"The specified queue does not exist{wording}"
    )
    assert bench.call("ListQueues", {"QueueNamePrefix": name}) == Reply(200)


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "//",
        f"{ACCOUNT}/orders",
        "http://h",
        "http://h/",
        "http://h/orders",
        f"http://h/{ACCOUNT}/",
        f"http://h/{ACCOUNT}/orders/more",
        f"http://h/a/{ACCOUNT}/orders",
        f"http:///{ACCOUNT}/orders",
        f"ftp://h/{ACCOUNT}/orders",
        f"http://[/{ACCOUNT}/orders",
    ],
)
def test_addresses_of_no_queue(bench: Bench, address: str) -> None:
    params = {"QueueUrl": address, "MessageBody": "x"}
    wording = " for this wsdl version." if bench.protocol == "query" else "."
    assert bench.call("SendMessage", params) == refused(
        "AWS.SimpleQueueService.NonExistentQueue", f"The specified queue does not exist{wording}"
    )


@pytest.mark.parametrize(
    "address",
    [
        "http://h/account/orders",
        f"http://h/{ACCOUNT}1/orders",
        f"arn:aws:sqs:eu-west-1:{ACCOUNT}:orders",
        f"arn:aws:sqs:eu-west-1:{ACCOUNT}:orders/",
    ],
)
def test_addresses_of_no_account(bench: Bench, address: str) -> None:
    params = {"QueueUrl": address, "MessageBody": "x"}
    assert bench.call("SendMessage", params) == refused(
        "InvalidAddress", f"The address {address} is not valid for this endpoint."
    )
