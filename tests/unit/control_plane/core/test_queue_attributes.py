import json

import pytest

from control_plane.core.queue_attributes import (
    ALL,
    QUEUE_ATTRIBUTES,
    apply,
    first_difference,
    parse,
    render,
)
from data_plane.core.errors import RefusedError

DLQ_ARN = "arn:aws:sqs:us-east-1:123456789012:dead"
SSE_CONFLICT = (
    "You can use one type of server-side encryption (SSE) at one time. "
    "You can either enable KMS SSE or SQS SSE."
)


def set_on_standard(given: dict[str, str | None]) -> dict[str, str]:
    return parse(given, fifo=False, creating=False)


def refusal(given: dict[str, str | None], *, fifo: bool = False, creating: bool = True) -> str:
    with pytest.raises(RefusedError) as refused:
        parse(given, fifo=fifo, creating=creating)
    return f"{refused.value.fault.code}: {refused.value.message}"


INTEGERS = [row for row in QUEUE_ATTRIBUTES.values() if row.kind == "integer" and row.maximum]


def test_there_are_the_integers_that_sqs_has() -> None:
    assert {row.name: (row.minimum, row.maximum, row.default) for row in INTEGERS} == {
        "VisibilityTimeout": (0, 43_200, "30"),
        "DelaySeconds": (0, 900, "0"),
        "MaximumMessageSize": (1_024, 1_048_576, "1048576"),
        "MessageRetentionPeriod": (60, 1_209_600, "345600"),
        "ReceiveMessageWaitTimeSeconds": (0, 20, "0"),
        "KmsDataKeyReusePeriodSeconds": (60, 86_400, "300"),
    }


@pytest.mark.parametrize("row", INTEGERS, ids=lambda row: row.name)
def test_an_integer_may_be_at_its_bounds(row: object) -> None:
    for value in (row.minimum, row.maximum):  # type: ignore[attr-defined]
        name = row.name  # type: ignore[attr-defined]
        assert set_on_standard({name: str(value)}) == {name: str(value)}


@pytest.mark.parametrize("row", INTEGERS, ids=lambda row: row.name)
def test_an_integer_past_its_bounds_or_malformed_is_refused(row: object) -> None:
    name, low, high = row.name, row.minimum - 1, row.maximum + 1  # type: ignore[attr-defined]
    for value in (str(low), str(high), "", " 60", "60.0", "6e1", "+60", "x", "٦٠", "9" * 5_000):
        assert refusal({name: value}) == (
            f"InvalidAttributeValue: Invalid value for the parameter {name}."
        )


def test_integers_are_kept_without_leading_zeros() -> None:
    assert set_on_standard({"VisibilityTimeout": "0045"}) == {"VisibilityTimeout": "45"}


def test_null_counts_as_not_given() -> None:
    assert set_on_standard({"DelaySeconds": None}) == {}


@pytest.mark.parametrize(
    "name", ["Nonsense", "All", "QueueArn", "CreatedTimestamp", "delayseconds"]
)
def test_what_nobody_sets_is_unknown(name: str) -> None:
    expected = f"InvalidAttributeName: Unknown Attribute {name}."
    assert refusal({name: "1"}) == expected
    assert refusal({name: "1"}, creating=False) == expected


@pytest.mark.parametrize(
    ("given", "fifo", "creating", "expected"),
    [
        ("true", False, True, "InvalidAttributeName: Unknown Attribute FifoQueue."),
        ("false", False, True, "InvalidAttributeName: Unknown Attribute FifoQueue."),
        ("false", False, False, "InvalidAttributeName: Unknown Attribute FifoQueue."),
        ("true", False, False, "modifying"),
        ("false", True, False, "modifying"),
        ("false", True, True, "modifying"),
    ],
)
def test_a_queue_keeps_its_type(given: str, fifo: bool, creating: bool, expected: str) -> None:  # noqa: FBT001
    if expected == "modifying":
        expected = (
            "InvalidAttributeValue: Invalid value for the parameter FifoQueue. "
            "Reason: Modifying queue type is not supported."
        )
    assert refusal({"FifoQueue": given}, fifo=fifo, creating=creating) == expected


def test_a_fifo_queue_may_repeat_that_it_is_one() -> None:
    assert parse({"FifoQueue": "true"}, fifo=True, creating=False) == {"FifoQueue": "true"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ContentBasedDeduplication", "Unknown Attribute ContentBasedDeduplication."),
        (
            "DeduplicationScope",
            "You can specify the DeduplicationScope only when FifoQueue is set to true.",
        ),
        (
            "FifoThroughputLimit",
            "You can specify the FifoThroughputLimit only when FifoQueue is set to true.",
        ),
    ],
)
def test_fifo_attributes_are_refused_on_standard_queues(name: str, expected: str) -> None:
    assert refusal({name: "queue"}) == f"InvalidAttributeName: {expected}"


def test_high_throughput_needs_deduplication_by_group() -> None:
    wanted = parse({"FifoThroughputLimit": "perMessageGroupId"}, fifo=True, creating=True)
    with pytest.raises(RefusedError, match="allowed only when the value for DeduplicationScope"):
        apply({}, wanted)
    assert apply({"DeduplicationScope": "messageGroup"}, wanted) == {
        "DeduplicationScope": "messageGroup",
        "FifoThroughputLimit": "perMessageGroupId",
    }


def test_the_two_encryptions_exclude_each_other() -> None:
    assert refusal({"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}) == (
        f"InvalidAttributeName: {SSE_CONFLICT}"
    )
    kms = apply({}, {"KmsMasterKeyId": "k", "KmsDataKeyReusePeriodSeconds": "600"})
    assert kms["SqsManagedSseEnabled"] == "false"
    assert apply(kms, {"SqsManagedSseEnabled": "true"}) == {"SqsManagedSseEnabled": "true"}


@pytest.mark.parametrize(
    "name", ["Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"]
)
def test_the_empty_text_removes(name: str) -> None:
    parsed = set_on_standard({name: ""})
    assert apply({name: "something", "DelaySeconds": "3"}, parsed) == {"DelaySeconds": "3"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"deadLetterTargetArn": DLQ_ARN, "maxReceiveCount": 5}, 5),
        ({"maxReceiveCount": "5", "deadLetterTargetArn": DLQ_ARN}, 5),
        ({"deadLetterTargetArn": DLQ_ARN, "maxReceiveCount": 1000}, 1000),
        ({"deadLetterTargetArn": DLQ_ARN}, 10),
    ],
)
def test_a_redrive_policy_is_kept_in_one_form(given: object, kept: int) -> None:
    assert set_on_standard({"RedrivePolicy": json.dumps(given)}) == {
        "RedrivePolicy": f'{{"deadLetterTargetArn":"{DLQ_ARN}","maxReceiveCount":{kept}}}'
    }


BAD_REDRIVE_POLICIES = {
    "x": "Redrive policy is not a valid JSON map.",
    "[]": "Redrive policy is not a valid JSON map.",
    json.dumps(json.dumps({"deadLetterTargetArn": DLQ_ARN})): (
        "Redrive policy is not a valid JSON map."
    ),
    "[" * 100_000: "Redrive policy is not a valid JSON map.",
    '{"maxReceiveCount":5}': (
        "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."
    ),
    f'{{"deadLetterTargetArn":"{DLQ_ARN}","a":1}}': (
        "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn]."
    ),
    '{"deadLetterTargetArn":"arn:aws:sns:us-east-1:123456789012:t"}': (
        "Only SQS queues are valid resources for deadLetterTargetArn."
    ),
    '{"deadLetterTargetArn":7}': "Only SQS queues are valid resources for deadLetterTargetArn.",
}
for count in (0, 1001, -1, True, None, 1.5, "x", "", "٣"):
    policy = json.dumps({"deadLetterTargetArn": DLQ_ARN, "maxReceiveCount": count})
    BAD_REDRIVE_POLICIES[policy] = (
        f"Invalid value for maxReceiveCount: {count}, "
        "valid values are from 1 to 1000 both inclusive."
    )


@pytest.mark.parametrize("value", BAD_REDRIVE_POLICIES, ids=lambda value: value[-24:])
def test_a_wrong_redrive_policy_is_refused(value: str) -> None:
    assert refusal({"RedrivePolicy": value}) == (
        f"InvalidParameterValue: Value {value} for parameter RedrivePolicy is invalid. "
        f"Reason: {BAD_REDRIVE_POLICIES[value]}"
    )


@pytest.mark.parametrize(
    "document",
    [
        {"redrivePermission": "allowAll"},
        {"redrivePermission": "denyAll"},
        {"redrivePermission": "byQueue", "sourceQueueArns": [DLQ_ARN] * 10},
    ],
)
def test_a_redrive_allow_policy_is_kept_compact(document: dict[str, object]) -> None:
    parsed = set_on_standard({"RedriveAllowPolicy": json.dumps(document, indent=2)})
    assert parsed == {"RedriveAllowPolicy": json.dumps(document, separators=(",", ":"))}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"redrivePermission": "byQueue"}, "you must also specify one or more sourceQueueArns"),
        (
            {"redrivePermission": "byQueue", "sourceQueueArns": [DLQ_ARN] * 11},
            "The maximum number of source queue ARNs you can specify is 10.",
        ),
        (
            {"redrivePermission": "denyAll", "sourceQueueArns": [DLQ_ARN]},
            "you must set redrivePermission to byQueue.",
        ),
        ({}, "unsupported format."),
        ({"redrivePermission": "some"}, "unsupported format."),
        ({"redrivePermission": ["byQueue"]}, "unsupported format."),
        ({"redrivePermission": "byQueue", "sourceQueueArns": "x"}, "unsupported format."),
        ("{}", "unsupported format."),
    ],
)
def test_a_wrong_redrive_allow_policy_is_refused(document: object, reason: str) -> None:
    answer = refusal({"RedriveAllowPolicy": json.dumps(document)})
    assert answer.startswith("InvalidParameterValue: ")
    assert reason in answer


@pytest.mark.parametrize("value", ["x", "[]", "{}", '"{}"', '{"Statement":"x"}'])
def test_a_wrong_policy_is_refused(value: str) -> None:
    assert refusal({"Policy": value}) == (
        "InvalidAttributeValue: Invalid value for the parameter Policy."
    )


def test_only_given_attributes_are_compared_by_the_value_in_force() -> None:
    held = {"DelaySeconds": "5"}
    assert first_difference(held, {}) is None
    assert first_difference(held, {"DelaySeconds": "5", "VisibilityTimeout": "30"}) is None
    assert first_difference(held, {"VisibilityTimeout": "31"}) == "VisibilityTimeout"
    assert first_difference(held, {"DelaySeconds": "0"}) == "DelaySeconds"
    assert first_difference(held, {"Policy": ""}) is None


def test_all_shows_defaults_and_what_was_set() -> None:
    shown = render({"DelaySeconds": "5"}, {"QueueArn": "arn"}, [ALL], fifo=False)
    assert shown == {
        "VisibilityTimeout": "30",
        "DelaySeconds": "5",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "ReceiveMessageWaitTimeSeconds": "0",
        "SqsManagedSseEnabled": "true",
        "QueueArn": "arn",
    }


def test_kms_defaults_are_not_shown() -> None:
    names = ["KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds"]
    held = {"KmsMasterKeyId": "k", "KmsDataKeyReusePeriodSeconds": "300"}
    assert render({}, {}, names, fifo=False) == {}
    assert render(held, {}, names, fifo=False) == {"KmsMasterKeyId": "k"}


@pytest.mark.parametrize("name", ["Nonsense", "FifoQueue", ""])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match=f"^Unknown Attribute {name}.$"):
        render({}, {}, [ALL, name], fifo=False)


def test_a_fifo_queue_shows_that_it_is_one() -> None:
    assert render({"FifoQueue": "true"}, {}, ["FifoQueue"], fifo=True) == {"FifoQueue": "true"}
