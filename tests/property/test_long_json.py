"""Long bodies mean what they mean to the parser of short ones, and no slice of them is long."""

import json
from collections.abc import Generator
from random import Random
from typing import Any, TypeVar

import pytest

from data_plane.core.errors import RefusedError
from data_plane.core.limits import JSON_OUTSIDE_BYTES_MAX, JSON_STRINGS_MAX
from data_plane.protocol import aws_json, long_json
from data_plane.protocol.message_shapes import SEND_MESSAGE_BATCH_INPUT

T = TypeVar("T")

READ = aws_json.reader(SEND_MESSAGE_BATCH_INPUT)
PIECES = (
    *("a", "b", "/", "NaN", "Infinity", "ud83d", "\x01", "\x7f", "\n", "\u00e9", "\u6f22"),
    *(
        "\U0001f600",
        '"',
        "\\",
        "\\\\",
        '\\"',
        "\\n",
        "\\u0041",
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\ude00",
    ),
)
OCTETS = b'"\\{}[],:NaIu1-\x80\xff '


def finished(slices: Generator[None, None, T]) -> tuple[T, int]:
    """What comes out, and after how many pauses."""
    pauses = 0
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value, pauses
        pauses += 1


def decoded(body: bytes) -> Any:
    try:
        return finished(long_json.decode_in_slices(body, READ))[0]
    except RefusedError as refusal:
        return refusal.fault, refusal.message


def expected(body: bytes) -> Any:
    try:
        return aws_json.decode(body, READ)
    except RefusedError as refusal:
        return refusal.fault, refusal.message


def random_body(random: Random) -> bytes:
    def text() -> str:
        return "".join(random.choice(PIECES) for _ in range(random.choice((0, 3, 20, 100))))

    if random.random() < 0.3:
        return f'{{"QueueUrl":"{text()}","x":"{text()}"}}'.encode("utf-8", "surrogatepass")
    entries = [{"Id": text(), "MessageBody": text(), text(): 1} for _ in range(2)]
    document = {"QueueUrl": text(), "Entries": entries}
    encoded = json.dumps(document, ensure_ascii=random.random() < 0.5)
    body = bytearray(encoded.encode("utf-8", "surrogatepass"))
    for _ in range(random.choice((0, 0, 1, 3))):
        body[random.randrange(len(body))] = random.choice(OCTETS)
    return bytes(body)


def test_it_agrees_with_the_parser_of_short_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_json, "_SLICE_BYTES", 64)
    monkeypatch.setattr(long_json, "_SHORT_BYTES", 8)
    random = Random(7)
    read = 0
    for _ in range(3_000):
        body = random_body(random)
        assert decoded(body) == expected(body), body
        read += isinstance(decoded(body), dict)
    assert read > 500


def test_a_long_text_is_decoded_in_slices() -> None:
    escapes = {"QueueUrl": "\n" * 1_000_000}
    body = json.dumps(escapes).encode()
    params, pauses = finished(long_json.decode_in_slices(body, READ))
    assert params == escapes
    assert pauses >= len(body) // long_json._SLICE_BYTES


@pytest.mark.parametrize("part", [b"{},", b"[],", b"1,", b"1.5e300,", b"[", b" "])
def test_what_is_outside_of_strings_is_bounded(part: bytes) -> None:
    bad = b'{"x":[' + part * (JSON_OUTSIDE_BYTES_MAX // len(part) + 1)
    assert decoded(bad + b'1],"QueueUrl":"q"}')[0].code == "MalformedInput"


def test_the_number_of_strings_is_bounded() -> None:
    members = {f"member {number}": "" for number in range(JSON_STRINGS_MAX // 2 - 1)}
    assert decoded(json.dumps({**members, "QueueUrl": "q"}).encode()) == {"QueueUrl": "q"}
    members["one more"] = ""
    assert decoded(json.dumps({**members, "QueueUrl": "q"}).encode())[0].code == "MalformedInput"


def test_only_a_short_name_is_a_name() -> None:
    for chars, fault in ((4_000, False), (5_000, True)):
        answer = decoded(json.dumps({"n" * chars: 1, "QueueUrl": "q"}).encode())
        assert (answer == {"QueueUrl": "q"}) is not fault
