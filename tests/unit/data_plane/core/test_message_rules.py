from typing import Any

import pytest

from data_plane.core.errors import RefusedError
from data_plane.core.message_rules import check_no_lists, read_outgoing, rendered_size_bytes

STRING = {"DataType": "String", "StringValue": "v"}


def refusal(**params: Any) -> tuple[str, str]:
    with pytest.raises(RefusedError) as caught:
        read_outgoing({"MessageBody": "b", **params})
    return caught.value.fault.code, caught.value.message


def attribute_refusal(name: str, value: dict[str, Any]) -> str:
    code, message = refusal(MessageAttributes={name: value})
    assert code == "InvalidParameterValue"
    return message


@pytest.mark.parametrize("body", ["\t\n\r ", "\ud7ff\ue000\ufffd", "\U00010000\U0010ffff"])
def test_allowed_characters(body: str) -> None:
    assert read_outgoing({"MessageBody": body}).size == len(body.encode())


def test_every_ascii_character_is_allowed_or_refused_alike_beside_others() -> None:
    for code in range(0x80):
        allowed = code >= 0x20 or chr(code) in "\t\n\r"
        for body in (chr(code), chr(code) + "\u00fc"):
            if allowed:
                assert read_outgoing({"MessageBody": body}).body == body
            else:
                assert refusal(MessageBody=body)[0] == "InvalidMessageContents"


@pytest.mark.parametrize("body", ["\0", "a\x08", "\x0b", "\x1f", "\ufffe", "\uffff", "\ud800"])
def test_other_characters_are_refused(body: str) -> None:
    code, message = refusal(MessageBody=body)
    assert code == "InvalidMessageContents"
    assert message == (
        f"Invalid binary character '#x{ord(body[-1]):X}' was found in the message body, the set of "
        "allowed characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | "
        "[#x10000-#x10FFFF]."
    )


@pytest.mark.parametrize("delay_s", [0, 900])
def test_delays_inside_the_limits(delay_s: int) -> None:
    assert read_outgoing({"MessageBody": "b", "DelaySeconds": delay_s}).delay_s == delay_s


@pytest.mark.parametrize("delay_s", [-1, 901])
def test_delays_outside_the_limits(delay_s: int) -> None:
    assert refusal(DelaySeconds=delay_s) == (
        "InvalidParameterValue",
        (
            f"Value {delay_s} for parameter DelaySeconds is invalid. "
            "Reason: DelaySeconds must be >= 0 and <= 900."
        ),
    )


@pytest.mark.parametrize(
    "name",
    [
        *("a", "a" * 256, "a.b-c_9", "aws", "amazonx", "AWSx.a"),
        # Letters and digits of every script, as recorded from AWS.
        *("attr.1\u00f8\u00df\u00e4", "\u540d\u524d", "\u0661", "\U00010400", "\u00fc" * 128),
    ],
)
def test_names_of_attributes(name: str) -> None:
    given = {name: STRING}
    outgoing = read_outgoing({"MessageBody": "b", "MessageAttributes": given})
    assert outgoing.attributes[0][0] == name
    assert outgoing.size == 1 + len(name.encode()) + len("String") + 1
    assert rendered_size_bytes("b", given) == outgoing.size


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("", "non-empty message (user) attribute names"),
        ("a" * 257, "name must be shorter than 256 bytes"),
        ("AWS.a", "beginning with 'AWS.' or 'Amazon.'"),
        ("aMaZoN.a", "beginning with 'AWS.' or 'Amazon.'"),
        (".a", "successive dots"),
        ("a.", "successive dots"),
        ("a..b", "successive dots"),
        ("a b", "'#x20' was found"),
        ("\u00fc" * 129, "name must be shorter than 256 bytes"),
        ("\u00fc\u00a7", "'#xA7' was found"),
        ("\u00b2", "'#xB2' was found"),
        ("a\u0301", "'#x301' was found"),
        ("a\U0001f600", "'#x1F600' was found"),
    ],
)
def test_wrong_names_of_attributes(name: str, part: str) -> None:
    assert part in attribute_refusal(name, STRING)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({}, "non-empty message attribute value"),
        ({"StringValue": "v"}, "non-empty message attribute type"),
        ({"DataType": "Text", "StringValue": "v"}, "supported type prefixes"),
        ({"DataType": "StringX", "StringValue": "v"}, "supported type prefixes"),
        ({"DataType": "String." + "a" * 250, "StringValue": "v"}, "shorter than 256"),
        ({"DataType": "String", "StringValue": ""}, "value of type 'String'"),
        ({"DataType": "String", "BinaryValue": b"v"}, "value of type 'String'"),
        ({"DataType": "Binary.x", "StringValue": "v"}, "value of type 'Binary'"),
        ({"DataType": "Number", "StringValue": "12a"}, "to a number"),
        ({"DataType": "Number", "StringValue": "NaN"}, "to a number"),
        ({"DataType": "Number", "StringValue": "1" * 39}, "to a number"),
        ({"DataType": "Number", "StringValue": "1e127"}, "to a number"),
        ({"DataType": "Number", "StringValue": "1e-129"}, "to a number"),
        ({"DataType": "Number", "StringValue": "\u0661"}, "to a number"),
    ],
)
def test_wrong_values_of_attributes(value: dict[str, Any], part: str) -> None:
    assert part in attribute_refusal("a", value)


@pytest.mark.parametrize("given", [["v"], []])
@pytest.mark.parametrize("member", ["StringListValues", "BinaryListValues"])
def test_lists_as_values_are_not_supported(member: str, given: list[str]) -> None:
    value = {"DataType": "String", "StringValue": "v", member: given}
    with pytest.raises(RefusedError) as refused:
        check_no_lists({"MessageAttributes": {"b": STRING, "a": value}}, "SendMessage")
    assert (refused.value.fault.code, refused.value.message) == (
        "AWS.SimpleQueueService.UnsupportedOperation",
        "Message attribute list values in SendMessage operation are not supported.",
    )
    check_no_lists({"MessageAttributes": {"b": STRING}}, "SendMessage")
    check_no_lists({}, "SendMessage")


@pytest.mark.parametrize("text", ["0", "-1.50", "+.5", "1.", "1" * 38 + "000", "1e126", "1E-128"])
def test_numbers(text: str) -> None:
    value = {"DataType": "Number.x", "StringValue": text}
    outgoing = read_outgoing({"MessageBody": "b", "MessageAttributes": {"n": value}})
    assert outgoing.attributes[0][1] == ("Number.x", text.encode())


def test_ten_attributes_and_no_more() -> None:
    ten = {f"a{number}": STRING for number in range(9, -1, -1)}
    outgoing = read_outgoing({"MessageBody": "b", "MessageAttributes": ten})
    assert [name for name, _ in outgoing.attributes] == sorted(ten)
    assert refusal(MessageAttributes={**ten, "b": STRING})[1] == (
        "Number of message attributes [11] exceeds the allowed maximum [10]."
    )


def test_characters_of_attribute_values_and_types_are_checked() -> None:
    for value in (
        {"DataType": "String", "StringValue": "\x01"},
        {"DataType": "String.\x01", "StringValue": "v"},
        {"DataType": "String", "StringValue": "\u00fc\uffff"},
    ):
        assert "was found in the message attribute, the" in attribute_refusal("a", value)


@pytest.mark.parametrize("group", ["a", "!~", "a" * 128])
def test_groups(group: str) -> None:
    assert read_outgoing({"MessageBody": "b", "MessageGroupId": group}).group == group


@pytest.mark.parametrize("group", ["", "group 123", "a" * 129])
def test_wrong_groups(group: str) -> None:
    assert refusal(MessageGroupId=group) == (
        "InvalidParameterValue",
        (
            f"Value {group} for parameter MessageGroupId is invalid. Reason: MessageGroupId can "
            "only include alphanumeric and punctuation characters. 1 to 128 in length."
        ),
    )


def test_a_deduplication_id_is_not_for_standard_queues() -> None:
    assert refusal(MessageDeduplicationId="d")[1] == (
        "Value d for parameter MessageDeduplicationId is invalid. Reason: The request include "
        "parameter that is not valid for this queue type."
    )


def test_the_trace_header_is_the_only_system_attribute() -> None:
    header = {"AWSTraceHeader": {"DataType": "String", "StringValue": "x" * 4096}}
    outgoing = read_outgoing({"MessageBody": "b", "MessageSystemAttributes": header})
    assert outgoing.trace_header == "x" * 4096
    assert outgoing.size == 1
    for wrong in (
        {"Other": STRING},
        {**header, "Other": STRING},
        {"AWSTraceHeader": {"DataType": "Number", "StringValue": "1"}},
        {"AWSTraceHeader": {"DataType": "String"}},
        {"AWSTraceHeader": {"DataType": "String", "StringValue": "x" * 4097}},
        {"AWSTraceHeader": {"DataType": "String", "StringValue": "x\x01"}},
    ):
        assert refusal(MessageSystemAttributes=wrong)[0] == "InvalidParameterValue"


def test_rendered_messages_have_the_size_that_was_sent() -> None:
    attributes: dict[str, dict[str, Any]] = {
        "s": {"DataType": "String", "StringValue": "\u00fc"},
        "b": {"DataType": "Binary.\u00fc", "BinaryValue": b"123", "StringValue": "ignored"},
    }
    outgoing = read_outgoing({"MessageBody": "\u00fc\u00fc", "MessageAttributes": attributes})
    assert outgoing.size == 4 + (1 + 6 + 2) + (1 + 9 + 3)
    assert rendered_size_bytes("\u00fc\u00fc", attributes) == outgoing.size
