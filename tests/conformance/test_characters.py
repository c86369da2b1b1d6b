"""Which characters messages may have, and what others are answered, in both protocols.

Source: API reference, SendMessage: #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to
#x10FFFF; others get InvalidMessageContents, and within attributes InvalidParameterValue (recorded
from AWS).
"""

import json
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.conformance.raw_calls import (
    PROTOCOLS,
    Bench,
    Reply,
    form_request,
    json_request,
    refused,
    url,
)

ORDERS = url("orders")
ACCEPTED = [0x9, 0xA, 0xD, 0x20, 0x7F, 0x85, 0xD7FF, 0xE000, 0xFFFD, 0x10000, 0x1FFFE, 0x10FFFF]
REFUSED = [*range(0x9), 0xB, 0xC, *range(0xE, 0x20), 0xFFFE, 0xFFFF]


def words(point: int, place: str = "message body") -> str:
    return (
        f"Invalid binary character '#x{point:X}' was found in the {place}, the set of allowed "
        "characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]."
    )


def invalid(point: int) -> Reply:
    return refused("InvalidMessageContents", words(point))


NOT_JSON = refused("MalformedInput", "The request body is not valid JSON.")
NOT_A_FORM = refused("MalformedQueryString", "The query string contains a syntax error.")


def attributed(name: str, **value: str) -> dict[str, Any]:
    return {name: {"DataType": "String", "StringValue": "x", **value}}


PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "body": lambda text: {"MessageBody": text},
    "value": lambda text: {
        "MessageBody": "x",
        "MessageAttributes": attributed("a", StringValue=text),
    },
    "type": lambda text: {
        "MessageBody": "x",
        "MessageAttributes": attributed("a", DataType=f"String.{text}"),
    },
    "trace header": lambda text: {
        "MessageBody": "x",
        "MessageSystemAttributes": attributed("AWSTraceHeader", StringValue=text),
    },
}


@pytest.fixture(scope="module", params=PROTOCOLS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(request.param)
    bench.ask("CreateQueue", QueueName="orders")
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def forms() -> Iterator[Bench]:
    bench = Bench("query")
    bench.ask("CreateQueue", QueueName="orders")
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def documents() -> Iterator[Bench]:
    bench = Bench("json")
    bench.ask("CreateQueue", QueueName="orders")
    yield bench
    bench.close()


def received_bodies(reply: Reply) -> list[str]:
    if isinstance(reply.result, ET.Element):
        return [element.text or "" for element in reply.result.iterfind(".//{*}Body")]
    return [message["Body"] for message in reply.result["Messages"]]


@pytest.mark.parametrize("point", ACCEPTED, ids=hex)
def test_characters_come_back_as_they_were_sent(bench: Bench, point: int) -> None:
    bench.ask("CreateQueue", QueueName=hex(point))
    text = f"a{chr(point)}b"
    for place in PLACES.values():
        assert bench.call("SendMessage", {"QueueUrl": hex(point), **place(text)}) == Reply(200)
    bodies: list[str] = []
    while len(bodies) < len(PLACES):
        receive = {"QueueUrl": hex(point), "MaxNumberOfMessages": 10, "VisibilityTimeout": 900}
        bodies += received_bodies(bench.call("ReceiveMessage", receive))
    assert sorted(bodies) == sorted([text, "x", "x", "x"])


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("point", REFUSED, ids=hex)
def test_other_characters_are_refused(bench: Bench, point: int, place: str) -> None:
    before = bench.state()
    params = PLACES[place](f"a{chr(point)}b")
    in_attribute = refused("InvalidParameterValue", words(point, "message attribute"))
    expected = invalid(point) if place == "body" else in_attribute
    assert bench.call("SendMessage", {"QueueUrl": ORDERS, **params}) == expected
    assert bench.state() == before


@pytest.mark.parametrize("point", REFUSED, ids=hex)
def test_in_a_batch_they_fail_their_entry_alone(bench: Bench, point: int) -> None:
    entries = [{"Id": "a", "MessageBody": "x"}, {"Id": "b", "MessageBody": chr(point)}]
    reply = bench.call("SendMessageBatch", {"QueueUrl": ORDERS, "Entries": entries})
    assert reply.status == 200
    if bench.protocol == "json":
        (failed,) = reply.result["Failed"]
        assert [entry["Id"] for entry in reply.result["Successful"]] == ["a"]
    else:
        failed = {
            name: reply.result.findtext(f".//{{*}}BatchResultErrorEntry/{{*}}{name}")
            for name in ("Id", "SenderFault", "Code", "Message")
        }
        failed["SenderFault"] = failed["SenderFault"] == "true"
        assert reply.result.findtext(".//{*}SendMessageBatchResultEntry/{*}Id") == "a"
    assert failed == {
        "Id": "b",
        "SenderFault": True,
        "Code": "InvalidMessageContents",
        "Message": words(point),
    }


def body_of(text: bytes) -> bytes:
    return b'{"QueueUrl":"%s","MessageBody":"%s"}' % (ORDERS.encode(), text)


@pytest.mark.parametrize("point", [*ACCEPTED, *REFUSED], ids=hex)
def test_json_has_its_own_rule_for_control_characters(documents: Bench, point: int) -> None:
    """They are text as escapes alone; all others may be written either way."""
    escaped = json.dumps(chr(point)).encode().strip(b'"')
    written = chr(point).encode()
    expected = invalid(point) if point in REFUSED else Reply(200)
    assert documents.send(json_request("SendMessage", body_of(escaped))) == expected
    expected = NOT_JSON if point < 0x20 else expected
    assert documents.send(json_request("SendMessage", body_of(written))) == expected


@pytest.mark.parametrize(
    "text", ["\\ud800", "\\udbff", "\\udc00", "\\udfff", "\\ude00\\ud83d", "\\ud83dx\\ude00"]
)
def test_lone_surrogates_in_json(documents: Bench, text: str) -> None:
    before = documents.state()
    expected = invalid(int(text[2:6], 16))
    assert documents.send(json_request("SendMessage", body_of(text.encode()))) == expected
    assert documents.state() == before


NOT_UTF_8 = [
    b"\x80",
    b"\xc3",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xed\xbf\xbf",
    b"\xf4\x90\x80\x80",
    b"\xfe",
    b"\xff",
]
"""Lone continuations, cut and overlong sequences, surrogates, beyond #x10FFFF, never used."""


@pytest.mark.parametrize("text", NOT_UTF_8, ids=repr)
def test_what_is_not_utf_8(documents: Bench, forms: Bench, text: bytes) -> None:
    before = documents.state(), forms.state()
    assert documents.send(json_request("SendMessage", body_of(text))) == NOT_JSON
    start = b"Action=SendMessage&QueueUrl=orders&MessageBody="
    escaped = "".join(f"%{byte:02x}" for byte in text).encode()
    assert forms.send(form_request(start + text)) == NOT_A_FORM
    assert forms.send(form_request(start + escaped)) == NOT_A_FORM
    assert (documents.state(), forms.state()) == before
