from collections.abc import Callable
from dataclasses import replace as replace_operation
from typing import Any

import pytest
from msgspec.structs import replace

from data_plane.frontend.front_end import FrontEnd
from data_plane.frontend.served import Served
from data_plane.frontend.settings import FrontEndSettings
from data_plane.operations.catalog import message_operations
from data_plane.ports import CellFullError, CellUnavailableError
from data_plane.protocol.http import HttpRequest
from data_plane.protocol.operation import Work
from data_plane.protocol.sqs import sqs
from tests.unit.data_plane.wire import (
    ACCOUNT,
    CREDENTIAL,
    NOW_US,
    REGION,
    URL,
    FakeBag,
    Server,
    json_request,
    query_request,
)
from tests.unit.repeatable import HandClock, SeededEntropy

SEND = {"QueueUrl": URL, "MessageBody": "hello"}
FORM = {"Action": "SendMessage", **SEND}
PATH = f"/{ACCOUNT}/orders"


def get(path: str, query: str) -> HttpRequest:
    return HttpRequest("GET", path, query, {"host": "sqs.example"}, b"")


def test_what_was_served() -> None:
    server = Server()
    server.answer(json_request("SendMessage", SEND))
    (served,) = server.served
    assert served.request_id == "ffffffff-ffff-4fff-bfff-ffffffffffff"
    assert (served.operation, served.queue, served.protocol) == ("SendMessage", "orders", "json")
    assert (served.account, served.region, served.client) == (ACCOUNT, REGION, "192.0.2.1")
    assert (served.status, served.code, served.exception) == (200, "", None)
    assert (served.started_us, served.finished_us) == (NOW_US, NOW_US)


def test_what_is_served_of_a_queue_counts_for_its_account() -> None:
    server = Server()
    server.json("SendMessage", {**SEND, "QueueUrl": "http://h/999999999999/orders"})
    assert [served.account for served in server.served] == ["999999999999"]


def test_refusals_are_served_too() -> None:
    server = Server()
    server.json("SendMessage", {"QueueUrl": URL})
    server.json("Nonsense", {})
    assert [(served.operation, served.status, served.code) for served in server.served] == [
        ("SendMessage", 400, "MissingParameter"),
        ("", 400, "InvalidAction"),
    ]
    assert [served.messages for served in server.served] == [0, 0]


@pytest.mark.parametrize(
    ("url", "looked_up"),
    [
        (URL, (ACCOUNT, REGION, "orders")),
        (URL + "/", (ACCOUNT, REGION, "orders")),
        (f"https://elsewhere:1/{ACCOUNT}/orders?x=y", (ACCOUNT, REGION, "orders")),
        ("http://h/999999999999/orders", ("999999999999", REGION, "orders")),
        ("orders", (ACCOUNT, REGION, "orders")),
        ("http://h/queue/orders", (ACCOUNT, REGION, "orders")),  # ElasticMQ's of before 1.0
    ],
)
def test_of_a_queue_url_only_account_and_name_count(url: str, looked_up: tuple[str, ...]) -> None:
    server = Server()
    assert server.json("SendMessage", {**SEND, "QueueUrl": url})[0] == 200
    assert server.looked_up == [looked_up]


@pytest.mark.parametrize(
    "url",
    [
        "http://h/queue/nothing",
        "http://h/queues/orders",
        "http://h/1234/orders",
        f"http://h/0{ACCOUNT}/orders",
    ],
)
def test_other_addresses_are_invalid(url: str) -> None:
    status, answer = Server().json("SendMessage", {**SEND, "QueueUrl": url})
    assert status == 404
    assert answer == {
        "__type": "com.amazonaws.sqs#InvalidAddress",
        "message": f"The address {url} is not valid for this endpoint.",
    }


@pytest.mark.parametrize(
    "url",
    [
        "",
        URL + "x",
        "other",
        URL + "%20",
        "a b",
        "/",
        "http://h",
        "http://whatever-incorrect-queue-address",
        "http://h/orders",
        f"http://h/a/{ACCOUNT}/orders",
        f"{ACCOUNT}/orders",
        f"ftp://h/{ACCOUNT}/orders",
        f"http:///{ACCOUNT}/orders",
        f"http://h/{ACCOUNT}/",
        f"http://[/{ACCOUNT}/orders",
    ],
)
def test_queues_that_do_not_exist(url: str) -> None:
    answer = Server().answer(json_request("SendMessage", {**SEND, "QueueUrl": url}))
    assert answer.status == 400
    assert answer.body == (
        b'{"__type":"com.amazonaws.sqs#QueueDoesNotExist",'
        b'"message":"The specified queue does not exist."}'
    )
    assert (
        "x-amzn-query-error",
        "AWS.SimpleQueueService.NonExistentQueue;Sender",
    ) in answer.headers
    status, document = Server().query({**FORM, "QueueUrl": url})
    assert status == 400
    assert "<Code>AWS.SimpleQueueService.NonExistentQueue</Code>" in document
    assert "does not exist for this wsdl version.</Message>" in document


def test_on_its_path_a_queue_needs_no_url() -> None:
    server = Server()
    assert server.query({"Action": "SendMessage", "MessageBody": "b"}, PATH)[0] == 200
    request = replace(json_request("SendMessage", {"MessageBody": "b"}), path=PATH)
    assert server.answer(request).status == 200
    query = "Action=SendMessage&MessageBody=b&Version=2012-11-05"
    credential = f"&X-Amz-Credential={CREDENTIAL.replace('/', '%2F')}"
    assert server.answer(get(PATH, query + credential)).status == 200
    assert server.looked_up == [(ACCOUNT, REGION, "orders")] * 3
    assert (
        server.query({"Action": "SendMessage", "MessageBody": "b", "QueueUrl": ""}, PATH)[0] == 200
    )
    assert server.json("SendMessage", {"MessageBody": "b"})[1]["message"] == (
        "The specified queue does not exist."
    )


@pytest.mark.parametrize(
    ("authorization", "account", "region"),
    [
        (
            "AWS4-HMAC-SHA256 Credential=111122223333/20260101/eu-north-1/sqs/aws4_request, S=a",
            "111122223333",
            "eu-north-1",
        ),
        (
            "AWS4-HMAC-SHA256 Credential=test/20260101/eu-north-1/sqs/aws4_request, S=a",
            "000000000000",
            "eu-north-1",
        ),
        ("AWS4-HMAC-SHA256 Credential=test", "000000000000", "us-east-1"),
        ("Credential=111122223333/x/..%2F/", "111122223333", "us-east-1"),
        ("Basic eDp5", "000000000000", "us-east-1"),
        ("", "000000000000", "us-east-1"),
    ],
)
def test_the_credential_names_account_and_region(
    authorization: str, account: str, region: str
) -> None:
    server = Server()
    server.json("SendMessage", {**SEND, "QueueUrl": "orders"}, {"authorization": authorization})
    assert server.looked_up == [(account, region, "orders")]
    assert (server.served[0].account, server.served[0].region) == (account, region)


def test_defaults_can_be_set() -> None:
    settings = FrontEndSettings(default_account="222222222222", default_region="xx-1")
    server = Server(settings=settings)
    server.json("SendMessage", {**SEND, "QueueUrl": "orders"}, {"authorization": ""})
    assert server.looked_up == [("222222222222", "xx-1", "orders")]


@pytest.mark.parametrize(
    "request_",
    [
        get("/", ""),
        get(PATH, ""),
        get("/favicon.ico", "Action=SendMessage"),
        get("/a/b/c", ""),
        HttpRequest("POST", "/", "", {}, b"MessageBody=b"),
        HttpRequest("PUT", "/", "Action=SendMessage", {}, b""),
        HttpRequest("DELETE", PATH, "Action=SendMessage", {}, b""),
    ],
)
def test_requests_without_an_action(request_: HttpRequest) -> None:
    answer = Server().answer(request_)
    assert (answer.status, answer.body) == (404, b"<UnknownOperationException/>")


@pytest.mark.parametrize(
    ("action", "path"), [("Nonsense", "/"), ("CreateQueue", PATH), ("ListQueues", PATH)]
)
def test_invalid_actions(action: str, path: str) -> None:
    status, document = Server().query({"Action": action}, path)
    assert status == 400
    assert "<Code>InvalidAction</Code>" in document
    assert f"<Message>The action {action} is not valid for this endpoint.</Message>" in document


@pytest.mark.parametrize(
    "target", ["AmazonSQS.Nonsense", "SendMessage", "AmazonSNS.SendMessage", "", "AmazonSQS."]
)
def test_unknown_operations(target: str) -> None:
    answer = Server().answer(json_request("x", SEND, {"x-amz-target": target}))
    assert answer.status == 400
    assert b"com.amazon.coral.service#UnknownOperationException" in answer.body
    assert ("x-amzn-query-error", "InvalidAction;Sender") in answer.headers
    assert Server().answer(replace(json_request("SendMessage", SEND), path="/x")).status == 400
    assert Server().answer(replace(json_request("SendMessage", SEND), method="GET")).status == 400


@pytest.mark.parametrize("target", ["AmazonSQSv20121105.ListQueues", "AmazonSQS.SendMessage"])
def test_a_form_is_a_form_whatever_target_it_names(target: str) -> None:
    """Perl's Amazon::SQS::Simple sends both."""
    request = query_request(FORM)
    answer = Server().answer(replace(request, headers={**request.headers, "x-amz-target": target}))
    assert answer.status == 200
    assert b"<SendMessageResponse" in answer.body


@pytest.mark.parametrize("content_type", ["", "application/json", "application/x-amz-json-1.1"])
def test_a_target_names_the_operation_of_all_that_is_no_form(content_type: str) -> None:
    answer = Server().answer(json_request("SendMessage", SEND, {"content-type": content_type}))
    assert answer.status == 200
    assert b'"MessageId"' in answer.body


@pytest.mark.parametrize("accept", ["application/json", "Application/JSON"])
def test_the_legacy_rendering_is_by_accept(accept: str) -> None:
    request = query_request(FORM)
    request = replace(request, headers={**request.headers, "accept": accept})
    answer = Server().answer(request)
    assert answer.body.startswith(b'{"SendMessageResponse":{"ResponseMetadata":{"RequestId":')
    answer = Server().answer(replace(request, body=b"Action=SendMessage"))
    assert answer.body.startswith(b'{"Error":{"Code":"AWS.SimpleQueueService.NonExistentQueue"')


@pytest.mark.parametrize(
    ("error", "status", "code", "observed"),
    [
        (CellUnavailableError("gone"), 503, "ServiceUnavailable", False),
        (CellFullError("full"), 503, "ServiceUnavailable", False),
        (ZeroDivisionError("bug"), 500, "InternalFailure", True),
    ],
)
def test_failures_behind_the_front_end(
    error: Exception, status: int, code: str, *, observed: bool
) -> None:
    server = Server(bag=FakeBag(broken=error))
    answer = server.answer(json_request("SendMessage", SEND))
    assert answer.status == status
    assert ("x-amzn-query-error", f"{code};Receiver") in answer.headers
    assert (("retry-after", "1") in answer.headers) is (status == 503)
    assert str(error).encode() not in answer.body
    assert (server.served[0].exception is error) is observed
    assert server.served[0].code == code
    assert "<Type>Receiver</Type>" in server.query(FORM)[1]


def test_a_full_cell_says_so() -> None:
    full = Server(bag=FakeBag(broken=CellFullError())).json("SendMessage", SEND)[1]
    away = Server(bag=FakeBag(broken=CellUnavailableError())).json("SendMessage", SEND)[1]
    assert full["message"] != away["message"]


def test_sizes_are_checked_before_parsing() -> None:
    server = Server(settings=FrontEndSettings(body_bytes_max=2000))
    fits = b'{"QueueUrl":"orders","MessageBody":"x"}'.ljust(2000)
    assert server.answer(json_request("SendMessage", fits)).status == 200
    assert server.answer(json_request("SendMessage", b"x" * 2001)).status == 413
    assert server.answer(get("/", "Action=a&b=" + "x" * 65_536)).status == 404
    assert server.answer(json_request("SendMessage", SEND, {"x": "y" * 65_536})).status == 413
    many = {f"x-{number}": "" for number in range(130)}
    assert server.answer(json_request("SendMessage", SEND, many)).status == 413


@pytest.mark.parametrize(("path", "query"), [("/\u00fc", ""), ("/", "a=\u00fc"), ("/", "\udcff")])
def test_addresses_must_be_ascii(path: str, query: str) -> None:
    assert Server().answer(get(path, query)).status == 404


@pytest.mark.parametrize(
    ("headers", "calls"),
    [
        (
            {
                "amz-sdk-invocation-id": "i",
                "amz-sdk-request": "ttl=20260101T000000Z; attempt=3; max=5",
            },
            (True, True),
        ),
        ({"amz-sdk-invocation-id": "i"}, (True, False)),
        ({"amz-sdk-invocation-id": "i", "amz-sdk-request": "attempt=x; max"}, (True, False)),
        ({"amz-sdk-invocation-id": "i", "amz-sdk-request": "attempt=" + "9" * 99}, (True, False)),
        ({"amz-sdk-invocation-id": "\udcff", "amz-sdk-request": "attempt=2"}, (False, False)),
        ({"amz-sdk-invocation-id": "i" * 129, "amz-sdk-request": "attempt=2"}, (False, False)),
        ({"amz-sdk-request": "attempt=2"}, (False, False)),
    ],
)
def test_retry_headers(headers: dict[str, str], calls: tuple[bool, bool]) -> None:
    server = Server()
    assert server.json("SendMessage", SEND, headers)[0] == 200
    call, repeated = server.bag.sends[0]
    assert (call != b"", repeated) == calls


def test_forms_of_other_types_are_refused() -> None:
    request = replace(query_request(FORM), headers={"content-type": "multipart/form-data"})
    answer: Any = Server().answer(request)
    assert answer.status == 400


def broken(*_: object) -> Any:
    raise ArithmeticError


def front_end(
    server: Server, observe: Callable[[Served], None], measure: Callable[..., Work] | None = None
) -> list[tuple[str, Exception]]:
    """Give the server one that has these; what it could not tell of is in the list."""
    unobserved: list[tuple[str, Exception]] = []
    operations = message_operations(server.bag)
    server.front_end = FrontEnd(
        (sqs(replace_operation(one, measure=measure or one.measure) for one in operations),),
        server,
        HandClock(),
        SeededEntropy(),
        server.settings,
        observe,
        unobserved=lambda name, error: unobserved.append((name, error)),
    )
    return unobserved


def test_an_answer_that_cannot_be_observed_stands() -> None:
    server = Server()
    unobserved = front_end(server, broken)
    assert server.json("SendMessage", SEND)[0] == 200
    assert server.json("SendMessage", {"QueueUrl": URL})[0] == 400
    assert [(name, type(error)) for name, error in unobserved] == [("answer", ArithmeticError)] * 2


def test_what_cannot_be_measured_was_done_all_the_same() -> None:
    server = Server()
    unobserved = front_end(server, server.served.append, broken)
    assert server.json("SendMessage", SEND)[0] == 200
    assert [(name, type(error)) for name, error in unobserved] == [("measure", ArithmeticError)]
    assert [(served.status, served.messages) for served in server.served] == [(200, 0)]
