"""What a message may look like. Messages of refusals are those of SQS.

Source: "Amazon SQS message quotas", "Amazon SQS message metadata", and answers recorded from AWS.
"""

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from data_plane.core.errors import (
    INVALID_PARAMETER_VALUE,
    UNSUPPORTED_OPERATION,
    RefusedError,
    invalid_character,
    invalid_parameter,
    wrong_queue_type,
)
from data_plane.core.identifiers import is_group_id
from data_plane.core.limits import (
    ATTRIBUTE_NAME_BYTES_MAX,
    ATTRIBUTE_TYPE_BYTES_MAX,
    DELAY_S_MAX,
    GROUP_ID_CHARS_MAX,
    MESSAGE_ATTRIBUTES_MAX,
    NUMBER_DIGITS_MAX,
    NUMBER_EXPONENT_MAX,
    NUMBER_EXPONENT_MIN,
    TRACE_HEADER_BYTES_MAX,
)
from data_plane.core.message import MessageAttribute, Outgoing

TRACE_HEADER: Final = "AWSTraceHeader"

_find_invalid_character: Final = re.compile(
    "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
).search
_ASCII_NOT_ALLOWED: Final = bytes(set(range(0x20)) - set(b"\t\n\r"))
_is_plain_name: Final = re.compile(r"[A-Za-z0-9_.-]*").fullmatch
_is_reserved_name: Final = re.compile(r"(aws|amazon)\.", re.IGNORECASE).match
_is_decimal: Final = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?"
).fullmatch
_TYPES: Final = ("Binary", "Number", "String")


class Content(NamedTuple):
    """What messages of all queues have: `size_bytes` is what limits and bills count of it."""

    body: str
    attributes: tuple[tuple[str, MessageAttribute], ...]
    trace_header: str
    size_bytes: int


def read_outgoing(params: Mapping[str, Any]) -> Outgoing:
    """A message for a standard queue from the parameters of a send, or of one entry of a batch.

    Its size is not compared with anything yet. Raises RefusedError.
    """
    content = read_content(params)
    group = params.get("MessageGroupId")
    if group is not None:
        check_group_id(group)
    if "MessageDeduplicationId" in params:  # refused, as cdklabs/construct-hub #905 saw it
        raise wrong_queue_type("MessageDeduplicationId", params["MessageDeduplicationId"])
    delay_s = params.get("DelaySeconds")
    if delay_s is not None and not 0 <= delay_s <= DELAY_S_MAX:
        raise invalid_parameter(
            "DelaySeconds", delay_s, f"DelaySeconds must be >= 0 and <= {DELAY_S_MAX}."
        )
    return Outgoing(
        body=content.body,
        attributes=content.attributes,
        delay_s=delay_s,
        trace_header=content.trace_header,
        group=group or "",
        size=content.size_bytes,
    )


def check_no_lists(params: Mapping[str, Any], operation: str) -> None:
    """Raise RefusedError where an attribute has a list for a value, be it empty.

    Messages that were received and are sent again as they are have empty ones
    (ruby-shoryuken/shoryuken #769, lumigo-io/lumigo-CLI #94).
    """
    for value in (params.get("MessageAttributes") or {}).values():
        if "StringListValues" in value or "BinaryListValues" in value:
            raise RefusedError(
                UNSUPPORTED_OPERATION,
                f"Message attribute list values in {operation} operation are not supported.",
            )


def read_content(params: Mapping[str, Any]) -> Content:
    """Body and attributes from the parameters of a send. Raises RefusedError."""
    body = params["MessageBody"]
    _check_characters(body)
    given = params.get("MessageAttributes")
    attributes = read_attributes(given) if given else ()
    system = params.get("MessageSystemAttributes")
    trace_header = _read_trace_header(system) if system else ""
    return Content(body, attributes, trace_header, size_bytes(body, attributes))


def check_group_id(group: str) -> None:
    """Raise RefusedError unless this may name a message group."""
    if not is_group_id(group):
        raise invalid_parameter(
            "MessageGroupId",
            group,
            "MessageGroupId can only include alphanumeric and punctuation characters. "
            f"1 to {GROUP_ID_CHARS_MAX} in length.",
        )


def size_bytes(body: str, attributes: tuple[tuple[str, MessageAttribute], ...]) -> int:
    """What limits and bills count: body and attributes' names, types and values in UTF-8."""
    size = len(body) if body.isascii() else len(body.encode())
    for name, attribute in attributes:
        size += len(name.encode()) + len(attribute.data_type.encode()) + len(attribute.value)
    return size


def rendered_size_bytes(body: str, attributes: Mapping[str, Mapping[str, Any]] | None) -> int:
    """`size_bytes` of a valid message as requests and answers have it."""
    size = len(body) if body.isascii() else len(body.encode())
    for name, value in (attributes or {}).items():
        data_type: str = value["DataType"]
        size += len(name.encode()) + len(data_type.encode())
        if data_type.startswith("Binary"):
            size += len(value["BinaryValue"])
        else:
            size += len(value["StringValue"].encode())
    return size


def read_attributes(
    given: Mapping[str, Mapping[str, Any]],
) -> tuple[tuple[str, MessageAttribute], ...]:
    """Checked message attributes, sorted by name. Raises RefusedError."""
    if len(given) > MESSAGE_ATTRIBUTES_MAX:
        raise _refused(
            f"Number of message attributes [{len(given)}] exceeds the allowed maximum "
            f"[{MESSAGE_ATTRIBUTES_MAX}]."
        )
    for name in given:
        _check_attribute_name(name)
    return tuple((name, _read_attribute(name, given[name])) for name in sorted(given))


def _check_attribute_name(name: str) -> None:
    if not name:
        raise _refused("The request must contain non-empty message (user) attribute names.")
    if len(name.encode()) > ATTRIBUTE_NAME_BYTES_MAX:
        raise _refused(
            f"Message (user) attribute name must be shorter than {ATTRIBUTE_NAME_BYTES_MAX} bytes."
        )
    wrong = _first_invalid_in_name(name)
    if wrong:
        raise _refused(
            f"Invalid non-alphanumeric character '#x{ord(wrong):X}' was found in the message "
            "attribute name. Can only include alphanumeric characters, hyphens, underscores, or "
            "dots."
        )
    if _is_reserved_name(name):
        raise _refused(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon.'. "
            "These strings are reserved for internal use."
        )
    if name.startswith(".") or name.endswith(".") or ".." in name:
        raise _refused(
            f"Message (user) attribute name '{name}' is invalid. A name can not start or end "
            "with a dot or have successive dots."
        )


def _first_invalid_in_name(name: str) -> str:
    """The first character that no name may have, or "".

    The documentation says A-Z, a-z, 0-9; SQS takes letters and decimal digits of every script
    (recorded from AWS, with "attr.1\u00f8\u00df\u00e4").
    """
    if _is_plain_name(name):
        return ""
    return next((one for one in name if not (one.isalpha() or one.isdecimal() or one in "_.-")), "")


def _read_attribute(name: str, value: Mapping[str, Any]) -> MessageAttribute:
    if not value:
        raise _refused(
            f"The message (user) attribute '{name}' must contain a non-empty message attribute "
            "value."
        )
    data_type = value.get("DataType") or ""
    kind = _check_data_type(name, data_type)
    if kind == "Binary":
        binary: bytes = value.get("BinaryValue") or b""
        if not binary:
            raise _empty_value(name, kind)
        return MessageAttribute(data_type, binary)
    text: str = value.get("StringValue") or ""
    if not text:
        raise _empty_value(name, kind)
    _check_characters_of_attribute(text)
    if kind == "Number" and not _is_number(text):
        raise _refused(f"Can't cast the value of message (user) attribute '{name}' to a number.")
    return MessageAttribute(data_type, text.encode())


def _check_data_type(name: str, data_type: str) -> str:
    """The type without its custom label."""
    if not data_type:
        raise _refused(
            f"The message (user) attribute '{name}' must contain a non-empty message attribute "
            "type."
        )
    if len(data_type.encode()) > ATTRIBUTE_TYPE_BYTES_MAX:
        raise _refused(
            f"Message (user) attribute type must be shorter than {ATTRIBUTE_TYPE_BYTES_MAX} bytes."
        )
    kind = data_type.partition(".")[0]
    if kind not in _TYPES:
        raise _refused(
            f"The type of message (user) attribute '{name}' is invalid. You must use only the "
            "following supported type prefixes: Binary, Number, String."
        )
    _check_characters_of_attribute(data_type)
    return kind


def _is_number(text: str) -> bool:
    if not _is_decimal(text):
        return False
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    if not number:
        return True
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return (
        len(digits) <= NUMBER_DIGITS_MAX
        and NUMBER_EXPONENT_MIN <= number.adjusted() <= NUMBER_EXPONENT_MAX
    )


def _read_trace_header(system: Mapping[str, Mapping[str, Any]]) -> str:
    for name in system:
        if name != TRACE_HEADER:
            raise _refused(f"Message system attribute name '{name}' is invalid.")
    value = system[TRACE_HEADER]
    text: str = value.get("StringValue") or ""
    if value.get("DataType") != "String" or not text:
        raise _refused(
            f"Message (system) attribute '{TRACE_HEADER}' must contain a non-empty value of type "
            "'String'."
        )
    _check_characters_of_attribute(text)
    if len(text.encode()) > TRACE_HEADER_BYTES_MAX:
        raise _refused(
            f"Message (system) attribute '{TRACE_HEADER}' must be shorter than "
            f"{TRACE_HEADER_BYTES_MAX} bytes."
        )
    return text


def _check_characters(body: str) -> None:
    wrong = first_invalid_character(body)
    if wrong:
        raise invalid_character(wrong)


def _check_characters_of_attribute(text: str) -> None:
    """As for bodies, but under another code: recorded from AWS."""
    wrong = first_invalid_character(text)
    if wrong:
        raise _refused(invalid_character(wrong, "message attribute").message)


def first_invalid_character(text: str) -> str:
    """The first character that no message may have, or ""."""
    if text.isascii():  # nearly all are, and bytes are checked several times as fast
        encoded = text.encode()
        if len(encoded.translate(None, _ASCII_NOT_ALLOWED)) == len(encoded):
            return ""
    found = _find_invalid_character(text)
    return found[0] if found else ""


def _empty_value(name: str, kind: str) -> RefusedError:
    return _refused(
        f"Message (user) attribute '{name}' must contain a non-empty value of type '{kind}'."
    )


def _refused(message: str) -> RefusedError:
    return RefusedError(INVALID_PARAMETER_VALUE, message)
