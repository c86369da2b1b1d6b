import hashlib
from typing import Any

import pytest

from data_plane.core.errors import RefusedError
from data_plane.core.fifo_rules import (
    check_receive_attempt_id,
    read_fifo_outgoing,
    refusal_of_batch,
)
from data_plane.core.message import Outgoing

IDS: dict[str, Any] = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}


def read(*, content_based: bool = False, **params: Any) -> Outgoing:
    return read_fifo_outgoing({"MessageBody": "b", **params}, content_based=content_based)


def refusal(*, content_based: bool = False, **params: Any) -> RefusedError:
    with pytest.raises(RefusedError) as caught:
        read(content_based=content_based, **params)
    return caught.value


def test_both_ids_are_kept_as_given() -> None:
    message = read(**IDS)
    assert (message.group, message.deduplication_id, message.delay_s) == ("g", "d", None)
    assert message.size == 1


@pytest.mark.parametrize("value", ["a", "!~", "#\"$%&'()*+,-./:;<=>?@[]^_`{|}", "a" * 128])
def test_ids(value: str) -> None:
    message = read(MessageGroupId=value, MessageDeduplicationId=value)
    assert (message.group, message.deduplication_id) == (value, value)


@pytest.mark.parametrize("name", ["MessageGroupId", "MessageDeduplicationId"])
@pytest.mark.parametrize("value", ["", " ", "group 123", "a" * 129, "\u00fc", "a\n", "\x7f"])
def test_wrong_ids(name: str, value: str) -> None:
    refused = refusal(**{**IDS, name: value}, content_based=True)
    assert (refused.fault.code, refused.message) == (
        "InvalidParameterValue",
        (
            f"Value {value} for parameter {name} is invalid. Reason: {name} can only include "
            "alphanumeric and punctuation characters. 1 to 128 in length."
        ),
    )


def test_a_group_is_required() -> None:
    refused = refusal(MessageDeduplicationId="d")
    assert (refused.fault.code, refused.message) == (
        "MissingParameter",
        "The request must contain the parameter MessageGroupId.",
    )


def test_a_deduplication_id_is_required_unless_the_body_gives_one() -> None:
    refused = refusal(MessageGroupId="g")
    assert (refused.fault.code, refused.message) == (
        "InvalidParameterValue",
        (
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        ),
    )
    message = read(MessageGroupId="g", content_based=True)
    assert message.deduplication_id == hashlib.sha256(b"b").hexdigest()


def test_a_given_id_counts_more_than_the_body() -> None:
    assert read(**IDS, content_based=True).deduplication_id == "d"


def test_attributes_are_no_content() -> None:
    attributes = {"a": {"DataType": "String", "StringValue": "x"}}
    ids = {
        read(MessageGroupId="g", MessageAttributes=given, content_based=True).deduplication_id
        for given in ({}, attributes)
    }
    assert len(ids) == 1


@pytest.mark.parametrize("delay_s", [1, 2, 900, -1, 901])
def test_a_message_has_no_delay_of_its_own(delay_s: int) -> None:
    refused = refusal(**IDS, DelaySeconds=delay_s)
    assert (refused.fault.code, refused.message) == (
        "InvalidParameterValue",
        (
            f"Value {delay_s} for parameter DelaySeconds is invalid. Reason: The request include "
            "parameter that is not valid for this queue type."
        ),
    )


def test_no_delay_is_left_to_the_queue() -> None:
    assert read(**IDS, DelaySeconds=0).delay_s is None


def test_the_rules_of_all_messages_hold() -> None:
    assert refusal(**IDS, MessageAttributes={"AWS.x": {}}).fault.code == "InvalidParameterValue"
    with pytest.raises(RefusedError) as caught:
        read_fifo_outgoing({"MessageBody": "\x00", **IDS}, content_based=True)
    assert caught.value.fault.code == "InvalidMessageContents"


def test_what_is_missing_is_invalid_in_a_batch() -> None:
    missing = refusal_of_batch(refusal(MessageDeduplicationId="d"))
    assert (missing.fault.code, missing.message) == (
        "InvalidParameterValue",
        "The request must contain the parameter MessageGroupId.",
    )
    other = refusal(MessageGroupId="g")
    assert refusal_of_batch(other) is other


@pytest.mark.parametrize("attempt", ["", " ", "a" * 129])
def test_wrong_ids_of_attempts(attempt: str) -> None:
    check_receive_attempt_id("!" * 128)
    with pytest.raises(RefusedError) as caught:
        check_receive_attempt_id(attempt)
    assert caught.value.message == (
        f"Value {attempt} for parameter ReceiveRequestAttemptId is invalid. Reason: "
        "ReceiveRequestAttemptId can only include alphanumeric and punctuation characters. "
        "1 to 128 in length."
    )
