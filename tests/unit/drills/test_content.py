from typing import Any

import pytest

from data_plane.core.checksum import md5_of_body
from data_plane.core.limits import BATCH_SIZE_BYTES_MAX
from tests.drills.content import BIG, MIXED, Content, Sizes, content_of, differences, number_in

NUMBERS = range(1, 200)


def received(content: Content) -> dict[str, Any]:
    return {
        "Body": content.body,
        "MessageAttributes": content.attributes,
        "MD5OfBody": content.md5_of_body,
        "MD5OfMessageAttributes": content.md5_of_attributes,
    }


def test_a_number_has_one_message_and_shows_in_it() -> None:
    for number in NUMBERS:
        content = content_of(number)
        assert content == content_of(number)
        assert number_in({"Body": content.body}) == number
        assert content.md5_of_body == md5_of_body(content.body)
    assert len({content_of(number).body[12:] for number in NUMBERS}) == len(NUMBERS)


def test_some_messages_have_attributes_and_some_have_none() -> None:
    attributes = [content_of(number).attributes for number in NUMBERS]
    assert not all(attributes)
    kinds = {shown["DataType"] for message in attributes for shown in message.values()}
    assert kinds == {"String", "Number.int", "Binary"}


@pytest.mark.parametrize("sizes", [MIXED, BIG])
def test_messages_have_the_sizes_asked_for(sizes: Sizes) -> None:
    lengths = [len(content_of(number, sizes).body) for number in NUMBERS]
    assert min(lengths) < 2_100
    assert max(lengths) > 50_000


def test_ten_of_the_big_messages_make_a_batch() -> None:
    sizes = [len(content_of(number, BIG).body.encode()) for number in NUMBERS]
    attributes_bytes = 200
    assert 10 * (max(sizes) + attributes_bytes) <= BATCH_SIZE_BYTES_MAX


@pytest.mark.parametrize("body", ["", "short", "twelve chars", "000 00000001 body"])
def test_what_does_not_begin_with_a_number_has_none(body: str) -> None:
    assert number_in({"Body": body}) is None


def test_every_part_of_a_message_is_compared() -> None:
    number = next(number for number in NUMBERS if content_of(number).attributes)
    content = content_of(number)
    assert differences(received(content), content) == []
    for part, name in (
        ("Body", "body"),
        ("MessageAttributes", "attributes"),
        ("MD5OfBody", "MD5 of body"),
        ("MD5OfMessageAttributes", "MD5 of attributes"),
    ):
        changed = received(content)
        del changed[part]
        assert differences(changed, content) == [name]
