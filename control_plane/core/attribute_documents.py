"""Attributes that hold JSON documents: Policy, RedrivePolicy, RedriveAllowPolicy.

Messages are those AWS answers with.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from data_plane.core.errors import (
    INVALID_ATTRIBUTE_VALUE,
    INVALID_PARAMETER_VALUE,
    RefusedError,
    invalid_parameter,
)
from data_plane.core.limits import MAX_RECEIVE_COUNT_MAX, REDRIVE_SOURCE_QUEUES_MAX

RECEIVE_COUNT_DEFAULT: Final = 10

_ARN_PARTS: Final = 6


@dataclass(frozen=True, slots=True)
class RedrivePolicy:
    """Where messages go that were received more than `receive_count_max` times."""

    account: str
    region: str
    dead_letter_queue: str
    receive_count_max: int


def parse(name: str, value: str) -> str:
    """Validate the document and answer its canonical text; "" stays "" and means removal.

    Raises RefusedError.
    """
    if value == "":
        return ""
    match name:
        case "Policy":
            return _parse_policy(value)
        case "RedrivePolicy":
            return _parse_redrive_policy(value)
        case "RedriveAllowPolicy":
            return _parse_redrive_allow_policy(value)
    raise KeyError(name)


def redrive_policy(canonical: str) -> RedrivePolicy:
    """Read a RedrivePolicy that `parse` has let pass."""
    document = json.loads(canonical)
    _, _, _, region, account, queue = document["deadLetterTargetArn"].split(":")
    return RedrivePolicy(account, region, queue, document["maxReceiveCount"])


def invalid_redrive_policy(value: str, reason: str) -> RefusedError:
    """The refusal of a RedrivePolicy."""
    return invalid_parameter("RedrivePolicy", value, reason)


def _parse_policy(value: str) -> str:
    """The text is kept as it was given: who authorises reads it."""
    document = _json_map(value)
    statements = document.get("Statement") if document is not None else None
    if not isinstance(statements, list | dict) or not statements:
        raise RefusedError(INVALID_ATTRIBUTE_VALUE, "Invalid value for the parameter Policy.")
    return value


def _parse_redrive_policy(value: str) -> str:
    document = _json_map(value)
    if document is None:
        raise invalid_redrive_policy(value, "Redrive policy is not a valid JSON map.")
    if not document.keys() <= {"deadLetterTargetArn", "maxReceiveCount"}:
        raise invalid_redrive_policy(
            value,
            "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].",
        )
    if "deadLetterTargetArn" not in document:
        raise invalid_redrive_policy(
            value,
            "Redrive policy does not contain mandatory attribute: deadLetterTargetArn.",
        )
    arn = document["deadLetterTargetArn"]
    if not isinstance(arn, str) or not _is_queue_arn(arn):
        raise invalid_redrive_policy(
            value, "Only SQS queues are valid resources for deadLetterTargetArn."
        )
    count = document.get("maxReceiveCount", RECEIVE_COUNT_DEFAULT)
    return _compact(
        {
            "deadLetterTargetArn": arn,
            "maxReceiveCount": _receive_count(value, count),
        }
    )


def _receive_count(value: str, count: object) -> int:
    """The count may come as a number or as its digits; it is kept as a number."""
    number = int(count) if isinstance(count, str) and _is_digits(count) else count
    if (
        isinstance(number, bool)
        or not isinstance(number, int)
        or not 1 <= number <= MAX_RECEIVE_COUNT_MAX
    ):
        raise invalid_redrive_policy(
            value,
            f"Invalid value for maxReceiveCount: {count}, "
            f"valid values are from 1 to {MAX_RECEIVE_COUNT_MAX} both inclusive.",
        )
    return number


def _parse_redrive_allow_policy(value: str) -> str:
    document = _json_map(value)
    permission = document.get("redrivePermission") if document is not None else None
    if (
        document is None
        or not document.keys() <= {"redrivePermission", "sourceQueueArns"}
        or permission not in ("allowAll", "denyAll", "byQueue")
    ):
        raise _unsupported_allow_policy()
    sources = document.get("sourceQueueArns", [])
    if not isinstance(sources, list) or not all(
        isinstance(arn, str) and _is_queue_arn(arn) for arn in sources
    ):
        raise _unsupported_allow_policy()
    if permission != "byQueue" and sources:
        raise _invalid_allow_policy(
            value,
            "To specify one or more source queue ARNs, you must set redrivePermission to byQueue.",
        )
    if permission == "byQueue" and not sources:
        raise _invalid_allow_policy(
            value,
            "When you specify the byQueue permission type, "
            "you must also specify one or more sourceQueueArns values.",
        )
    if len(sources) > REDRIVE_SOURCE_QUEUES_MAX:
        raise _invalid_allow_policy(
            value,
            "The maximum number of source queue ARNs you can specify is "
            f"{REDRIVE_SOURCE_QUEUES_MAX}.",
        )
    canonical: dict[str, Any] = {"redrivePermission": permission}
    if sources:
        canonical["sourceQueueArns"] = sources
    return _compact(canonical)


def _unsupported_allow_policy() -> RefusedError:
    return RefusedError(
        INVALID_PARAMETER_VALUE,
        "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create "
        "the redrive allow policy, as it\u2019s in an unsupported format.",
    )


def _invalid_allow_policy(value: str, reason: str) -> RefusedError:
    return invalid_parameter(
        "RedriveAllowPolicy",
        value,
        f"Amazon SQS can't create the redrive allow policy. {reason}",
    )


def _json_map(text: str) -> Mapping[str, Any] | None:
    """The JSON object, or None for anything else; a string of JSON inside JSON is no object."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_queue_arn(arn: str) -> bool:
    parts = arn.split(":")
    return len(parts) == _ARN_PARTS and parts[0] == "arn" and parts[2] == "sqs" and all(parts[3:])


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_RECEIVE_COUNT_MAX))


def _compact(document: object) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
