"""Whatever arrives, the answer is below 500 and well formed, and a refusal changes nothing."""

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.operations.catalog import extension_operations, message_operations
from data_plane.protocol.extension_shapes import extended_input
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.shapes import ListOf, MapOf, Scalar, Shape, Structure
from tests.conformance.raw_calls import form_fields
from tests.unit.data_plane.wire import URL, FakeBag, Server, handle, json_request, query_request

OPERATIONS = {
    operation.name: replace(operation, input=extended_input(operation.name, operation.input))
    for operation in (*message_operations(FakeBag()), *extension_operations(FakeBag()))
}
actions = st.sampled_from(sorted(OPERATIONS))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
texts = st.sampled_from(
    ["", "a", "All", "x.*", "String", "Number", "Binary", "AAE=", URL, "orders", handle(0), "1"]
) | st.text(st.characters(exclude_categories=[]), max_size=20)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "string": texts,
    "integer": st.integers(-5, 50_000),
    "boolean": st.booleans(),
    "blob": st.sampled_from(["", "AAE=", "A"]),
}


def values(shape: Shape) -> st.SearchStrategy[Any]:
    """Mostly of the shape, sometimes not."""
    match shape:
        case Scalar():
            right = SCALARS[shape.kind]
        case ListOf():
            right = st.lists(values(shape.member), max_size=12)
        case MapOf():
            names = st.sampled_from(["a", "b.c", "AWSTraceHeader", ""]) | texts
            right = st.dictionaries(names, values(shape.value), max_size=12)
        case Structure():
            right = structures(shape)
    return st.one_of(right, right, right, right, json_values)


def structures(shape: Structure) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={name: values(member) for name, member in shape.members.items()}
    )


def check(server: Server, answer: HttpResponse) -> None:
    assert answer.status < 500, server.served[-1].exception
    assert len(server.served) == 1
    if dict(answer.headers)["content-type"] == "text/xml":
        ET.fromstring(answer.body)  # noqa: S314 - our own document
    else:
        document = json.loads(answer.body)
        if answer.status != 200:
            assert document["__type"].startswith(("com.amazonaws.sqs#", "com.amazon.coral."))
            assert document["message"]
    if answer.status != 200:
        bag = server.bag
        assert bag == FakeBag()


def on_the_queue(params: dict[str, Any]) -> dict[str, Any]:
    return {**params, "QueueUrl": URL}


@settings(deadline=None)
@given(
    st.sampled_from(["GET", "POST", "PUT", ""]),
    st.text(max_size=30) | st.sampled_from(["/", "/123456789012/orders"]),
    st.text(max_size=60),
    st.dictionaries(
        st.sampled_from(
            [
                "x-amz-target",
                "content-type",
                "authorization",
                "host",
                "amz-sdk-invocation-id",
                "amz-sdk-request",
                "x-forwarded-proto",
            ]
        ),
        st.text(st.characters(exclude_categories=[]), max_size=40)
        | st.sampled_from(["AmazonSQS.SendMessage", "application/x-www-form-urlencoded"]),
    ),
    st.binary(max_size=200),
)
def test_arbitrary_requests(
    method: str, path: str, query: str, headers: dict[str, str], body: bytes
) -> None:
    server = Server()
    check(server, server.answer(HttpRequest(method, path, query, headers, body)))


@settings(deadline=None)
@given(actions, st.binary(max_size=100) | json_values.map(lambda value: json.dumps(value).encode()))
def test_arbitrary_bodies(action: str, body: bytes) -> None:
    server = Server()
    check(server, server.answer(json_request(action, body)))


@settings(deadline=None)
@given(st.data(), actions)
def test_requests_that_are_nearly_right_in_json(data: st.DataObject, action: str) -> None:
    params = data.draw(structures(OPERATIONS[action].input))
    body = json.dumps(data.draw(st.sampled_from([params, on_the_queue(params)])))
    server = Server()
    check(server, server.answer(json_request(action, body.encode())))


def encodable(form: dict[str, str]) -> dict[str, str]:
    return {
        key.encode(errors="replace").decode(): value.encode(errors="replace").decode()
        for key, value in form.items()
    }


@settings(deadline=None)
@given(st.data(), actions)
def test_requests_that_are_nearly_right_in_forms(data: st.DataObject, action: str) -> None:
    params = data.draw(structures(OPERATIONS[action].input))
    params = data.draw(st.sampled_from([params, on_the_queue(params)]))
    server = Server()
    form = encodable(dict(form_fields(action, params, OPERATIONS[action].input)))
    check(server, server.answer(query_request(form)))


names = st.text(st.sampled_from("Attribute.Name1MessgValuEntisQ"), max_size=40)


@settings(deadline=None)
@given(actions, st.dictionaries(names, st.text(max_size=10)))
def test_arbitrary_fields(action: str, form: dict[str, str]) -> None:
    server = Server()
    query = urlencode({"Action": action, **encodable(form)}, quote_via=quote)
    request = HttpRequest("GET", "/123456789012/orders", query, {}, b"")
    check(server, server.answer(request))


bodies = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff")
    | st.sampled_from("\t\n\r"),
    min_size=1,
)


@settings(deadline=None)
@given(bodies)
def test_a_body_comes_back_unchanged_in_both_protocols(body: str) -> None:
    server = Server()
    assert server.json("SendMessage", {"QueueUrl": URL, "MessageBody": body})[0] == 200
    form = {"Action": "SendMessage", "QueueUrl": URL, "MessageBody": body}
    assert server.query(form)[0] == 200
    receive = {"QueueUrl": URL, "MaxNumberOfMessages": 2}
    _, answer = server.json("ReceiveMessage", receive)
    assert [message["Body"] for message in answer["Messages"]] == [body, body]
    _, document = server.query({"Action": "ReceiveMessage", **receive})
    found = ET.fromstring(document).iterfind(".//{*}Body")  # noqa: S314 - our own document
    assert [element.text for element in found] == [body, body]
