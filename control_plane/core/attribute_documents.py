"""Attributes that hold JSON documents: RedrivePolicy, RedriveAllowPolicy; access_policy.py: Policy.

Messages are those AWS answers with.
"""

from typing import Any, Final, NoReturn

from control_plane.core import access_policy
from control_plane.core.queue_arn import of_today, read_queue_arn
from data_plane.core.errors import INVALID_ATTRIBUTE_VALUE, RefusedError, invalid_parameter
from data_plane.core.json_documents import compact, json_object, without_nulls
from data_plane.core.limits import (
    MAX_RECEIVE_COUNT_MAX,
    POLICY_BYTES_MAX,
    REDRIVE_SOURCE_QUEUES_MAX,
)
from data_plane.core.queue import RedrivePolicy

_ARN_PARTS: Final = 6


def parse(name: str, value: str) -> str:
    """Validate the document and answer the text that is kept: as it was given, spaces included.

    A count that came as a text is kept as a number, a document of uncommon length without its
    spaces, and a member that is null is not kept at all. "" stays "" and means removal. Raises
    RefusedError.
    """
    if value == "":
        return ""
    match name:
        case "Policy":
            return access_policy.parse(value)
        case "RedrivePolicy":
            return _kept(value, _parse_redrive_policy(value))
        case "RedriveAllowPolicy":
            return _kept(value, _parse_redrive_allow_policy(value))
    raise KeyError(name)


def are_equal(name: str, one: str, other: str) -> bool:
    """Whether two texts that `parse` has let pass, or "", say the same; of a Policy: are the same.

    Neither spaces nor the order of members count.
    """
    return one == other or (name != "Policy" and json_object(one) == json_object(other))


def redrive_policy(parsed: str) -> RedrivePolicy:
    """Read a RedrivePolicy that `parse` has let pass."""
    document = json_object(parsed) or {}
    _, _, _, region, account, queue = document["deadLetterTargetArn"].split(":")
    return RedrivePolicy(account, region, queue, document["maxReceiveCount"])


def invalid_redrive_policy(value: str, reason: str) -> RefusedError:
    """The refusal of a RedrivePolicy."""
    return invalid_parameter("RedrivePolicy", value, reason)


def allows_source(parsed: str, source_arn: str) -> bool:
    """Whether a RedriveAllowPolicy ("": none) lets this queue name its own as dead-letter queue."""
    document = json_object(parsed) or {"redrivePermission": "allowAll"}
    match document["redrivePermission"]:
        case "byQueue":
            return source_arn in map(of_today, document["sourceQueueArns"])
        case permission:
            return bool(permission == "allowAll")


def _kept(value: str, checked: dict[str, Any]) -> str:
    is_as_given = json_object(value) == checked and len(value.encode()) <= POLICY_BYTES_MAX
    return value if is_as_given else compact(checked)


def _parse_redrive_policy(value: str) -> dict[str, Any]:
    document = json_object(value)
    if document is None:
        raise RefusedError(
            INVALID_ATTRIBUTE_VALUE,
            "Invalid value for the parameter RedrivePolicy. "
            "Reason: Redrive policy is not a valid JSON map.",
        )
    document = without_nulls(document)
    for name in ("maxReceiveCount", "deadLetterTargetArn"):
        if name not in document:
            raise invalid_redrive_policy(
                value, f"Redrive policy does not contain mandatory attribute: {name}."
            )
    if not document.keys() <= {"deadLetterTargetArn", "maxReceiveCount"}:
        raise invalid_redrive_policy(
            value,
            "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn].",
        )
    count = _receive_count(value, document["maxReceiveCount"])
    arn = document["deadLetterTargetArn"]
    if not _is_queue_arn(arn):
        _refuse_target(value, arn)
    return {"deadLetterTargetArn": arn, "maxReceiveCount": count}


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
            f"Invalid value for maxReceiveCount: "
            f"{count if isinstance(count, str) else compact(count)}, "
            f"valid values are from 1 to {MAX_RECEIVE_COUNT_MAX} both inclusive.",
        )
    return number


def _refuse_target(value: str, arn: object) -> NoReturn:
    parts = arn.split(":") if isinstance(arn, str) else []
    if len(parts) == _ARN_PARTS and parts[0] == "arn" and parts[2] != "sqs":
        raise invalid_redrive_policy(
            value, "Only SQS queues are valid resources for deadLetterTargetArn."
        )
    raise invalid_redrive_policy(value, "Invalid value for deadLetterTargetArn.")


def _parse_redrive_allow_policy(value: str) -> dict[str, Any]:
    document = without_nulls(json_object(value) or {})
    if not document.keys() <= {"redrivePermission", "sourceQueueArns"}:
        raise _unsupported_allow_policy()
    permission = document.get("redrivePermission")
    if permission not in ("allowAll", "denyAll", "byQueue"):
        raise _unsupported_allow_policy()
    sources = document.get("sourceQueueArns", [])
    if not isinstance(sources, list) or not all(map(_is_queue_arn, sources)):
        raise _unsupported_allow_policy()
    if permission != "byQueue":
        if "sourceQueueArns" in document:
            raise _invalid_allow_policy(
                value,
                "To specify one or more source queue ARNs, "
                "you must set redrivePermission to byQueue.",
            )
        return {"redrivePermission": permission}
    if not sources:
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
    return {"redrivePermission": permission, "sourceQueueArns": sources}


def _unsupported_allow_policy() -> RefusedError:
    return RefusedError(
        INVALID_ATTRIBUTE_VALUE,
        "Invalid value for the parameter RedriveAllowPolicy. Reason: Amazon SQS can't create "
        "the redrive allow policy, as it\u2019s in an unsupported format.",
    )


def _invalid_allow_policy(value: str, reason: str) -> RefusedError:
    return invalid_parameter(
        "RedriveAllowPolicy",
        value,
        f"Amazon SQS can't create the redrive allow policy. {reason}",
    )


def _is_queue_arn(arn: Any) -> bool:
    return isinstance(arn, str) and read_queue_arn(arn) is not None


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(MAX_RECEIVE_COUNT_MAX))
