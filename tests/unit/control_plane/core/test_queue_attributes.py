import json

import pytest

from control_plane.core.attribute_documents import allows_source
from control_plane.core.queue_attributes import (
    ALL,
    QUEUE_ATTRIBUTES,
    apply,
    asks_for_fifo,
    first_difference,
    parse,
    render,
)
from data_plane.core.errors import RefusedError

DLQ_ARN = "arn:aws:sqs:us-east-1:123456789012:dead"
SOURCE_ARN = "arn:aws:sqs:us-east-1:123456789012:source"
SSE_CONFLICT = (
    "You can use one type of server-side encryption (SSE) at one time. "
    "You can either enable KMS SSE or SQS SSE."
)


def set_on_standard(given: dict[str, str | None]) -> dict[str, str]:
    return parse(given, fifo=False)


def refusal(given: dict[str, str | None], *, fifo: bool = False) -> str:
    with pytest.raises(RefusedError) as refused:
        parse(given, fifo=fifo)
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
    } | {"TidegateReplicationFactor": (1, 9, ""), "TidegateStartingTimestamp": (0, 10**10 - 1, "")}


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
    for fifo in (False, True):
        assert refusal({name: "1"}, fifo=fifo) == (
            f"InvalidAttributeName: Unknown Attribute {name}."
        )


@pytest.mark.parametrize("value", ["true", "false", "True", ""])
def test_a_standard_queue_has_no_attribute_that_says_so(value: str) -> None:
    assert refusal({"FifoQueue": value}) == "InvalidAttributeName: Unknown Attribute FifoQueue."


def test_a_fifo_queue_keeps_its_type() -> None:
    assert parse({"FifoQueue": "true"}, fifo=True) == {"FifoQueue": "true"}
    for value in ("True", "TRUE"):
        assert parse({"FifoQueue": value}, fifo=True) == {"FifoQueue": "true"}
    for value in ("false", "False", "", " true", "1"):
        assert refusal({"FifoQueue": value}, fifo=True) == (
            "InvalidAttributeValue: Invalid value for the parameter FifoQueue. "
            "Reason: Modifying queue type is not supported."
        )


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


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("DeduplicationScope", ("queue", "messageGroup")),
        ("FifoThroughputLimit", ("perQueue", "perMessageGroupId")),
    ],
)
def test_fifo_attributes_on_fifo_queues(name: str, values: tuple[str, ...]) -> None:
    for value in values:
        assert parse({name: value}, fifo=True) == {name: value}
    for value in ("", "TRUE", values[0].upper(), f" {values[0]}", "1"):
        assert refusal({name: value}, fifo=True) == (
            f"InvalidAttributeValue: Invalid value for the parameter {name}."
        )


@pytest.mark.parametrize("name", ["ContentBasedDeduplication", "SqsManagedSseEnabled"])
def test_the_case_of_booleans_does_not_count(name: str) -> None:
    for value in ("true", "True", "TRUE", "false", "False", "fAlSe"):
        assert parse({name: value}, fifo=True) == {name: value.lower()}
    for value in ("", " true", "true ", "1", "0", "yes", "tru\u0435"):
        assert refusal({name: value}, fifo=True) == (
            f"InvalidAttributeValue: Invalid value for the parameter {name}."
        )


@pytest.mark.parametrize(
    ("given", "expected"),
    [({"FifoQueue": "True"}, True), ({"FifoQueue": "False"}, False), ({"FifoQueue": None}, False)],
)
def test_who_asks_for_a_fifo_queue(given: dict[str, str | None], *, expected: bool) -> None:
    assert asks_for_fifo(given) is expected


HIGH_THROUGHPUT = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}


def test_high_throughput_needs_deduplication_by_group() -> None:
    limit = {"FifoThroughputLimit": "perMessageGroupId"}
    for held in ({}, {"DeduplicationScope": "queue"}):
        with pytest.raises(RefusedError, match="the DeduplicationScope must be messageGroup"):
            apply(held, limit)
    assert apply({"DeduplicationScope": "messageGroup"}, limit) == HIGH_THROUGHPUT
    assert apply({}, HIGH_THROUGHPUT) == HIGH_THROUGHPUT
    with pytest.raises(RefusedError, match="the DeduplicationScope must be messageGroup"):
        apply(HIGH_THROUGHPUT, {"DeduplicationScope": "queue"})
    back = {"DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue"}
    assert apply(HIGH_THROUGHPUT, back) == back
    assert apply({}, {"DeduplicationScope": "messageGroup"}) == {
        "DeduplicationScope": "messageGroup"
    }


def test_the_two_encryptions_exclude_each_other() -> None:
    assert refusal({"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}) == (
        f"InvalidAttributeName: {SSE_CONFLICT}"
    )
    kms = apply({}, {"KmsMasterKeyId": "k", "KmsDataKeyReusePeriodSeconds": "600"})
    assert kms["SqsManagedSseEnabled"] == "false"
    assert apply(kms, {"SqsManagedSseEnabled": "true"}) == {"SqsManagedSseEnabled": "true"}
    assert apply(kms, {"KmsMasterKeyId": "other"}) == kms | {"KmsMasterKeyId": "other"}
    assert apply(kms, {"KmsMasterKeyId": ""})["SqsManagedSseEnabled"] == "false"
    neither = apply({}, {"SqsManagedSseEnabled": "false"})
    assert neither == {"SqsManagedSseEnabled": "false"}
    switch = set_on_standard({"KmsMasterKeyId": "", "SqsManagedSseEnabled": "true"})
    assert apply(kms, switch) == {"SqsManagedSseEnabled": "true"}


@pytest.mark.parametrize(
    "name", ["Policy", "RedrivePolicy", "RedriveAllowPolicy", "KmsMasterKeyId"]
)
def test_the_empty_text_removes(name: str) -> None:
    parsed = set_on_standard({name: ""})
    assert apply({name: "something", "DelaySeconds": "3"}, parsed) == {"DelaySeconds": "3"}


def test_the_id_of_a_key_has_bounds() -> None:
    longest = {"KmsMasterKeyId": "k" * 2048}
    assert set_on_standard({**longest}) == longest
    assert refusal({"KmsMasterKeyId": "k" * 2049}) == (
        "InvalidAttributeValue: Invalid value for the parameter KmsMasterKeyId."
    )


@pytest.mark.parametrize(
    "given",
    [
        f'{{"deadLetterTargetArn": "{DLQ_ARN}", "maxReceiveCount": 5}}',
        f'{{"maxReceiveCount":5,"deadLetterTargetArn":"{DLQ_ARN}"}}',
        f' {{\n "maxReceiveCount" : 1000,\n "deadLetterTargetArn" : "{DLQ_ARN}"\n}}\n',
    ],
)
def test_a_redrive_policy_is_kept_as_it_was_given(given: str) -> None:
    assert set_on_standard({"RedrivePolicy": given}) == {"RedrivePolicy": given}


@pytest.mark.parametrize(
    "given",
    [
        f'{{"maxReceiveCount": "5", "deadLetterTargetArn": "{DLQ_ARN}"}}',
        f'{{"maxReceiveCount": 5, {" " * 8192}"deadLetterTargetArn": "{DLQ_ARN}"}}',
    ],
)
def test_a_count_is_kept_as_a_number_and_no_lot_of_spaces(given: str) -> None:
    assert set_on_standard({"RedrivePolicy": given}) == {
        "RedrivePolicy": f'{{"deadLetterTargetArn":"{DLQ_ARN}","maxReceiveCount":5}}'
    }


def test_documents_are_compared_by_what_they_say() -> None:
    held = f'{{"deadLetterTargetArn":"{DLQ_ARN}","maxReceiveCount":5}}'
    same = f'{{ "maxReceiveCount": 5, "deadLetterTargetArn": "{DLQ_ARN}" }}'
    for wanted in (held, same):
        assert first_difference({"RedrivePolicy": held}, {"RedrivePolicy": wanted}) is None
    for wanted in (held.replace("5", "6"), ""):
        changed = {"RedrivePolicy": wanted}
        assert first_difference({"RedrivePolicy": held}, changed) == "RedrivePolicy"
    assert first_difference({}, {"RedrivePolicy": held}) == "RedrivePolicy"
    assert first_difference({}, {"RedrivePolicy": "", "Policy": ""}) is None


def redrive_with(**members: object) -> str:
    return json.dumps({"deadLetterTargetArn": DLQ_ARN, "maxReceiveCount": 5} | members)


BAD_REDRIVE_POLICIES = {
    "{}": "Redrive policy does not contain mandatory attribute: maxReceiveCount.",
    json.dumps({"deadLetterTargetArn": DLQ_ARN}): (
        "Redrive policy does not contain mandatory attribute: maxReceiveCount."
    ),
    '{"maxReceiveCount":5}': (
        "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."
    ),
    redrive_with(deadLetterTargetArn=None): (
        "Redrive policy does not contain mandatory attribute: deadLetterTargetArn."
    ),
    redrive_with(maxReceiveCount=None): (
        "Redrive policy does not contain mandatory attribute: maxReceiveCount."
    ),
    redrive_with(a=1): (
        "Only following attributes are supported: [maxReceiveCount, deadLetterTargetArn]."
    ),
    redrive_with(deadLetterTargetArn="arn:aws:sns:us-east-1:123456789012:t"): (
        "Only SQS queues are valid resources for deadLetterTargetArn."
    ),
}
for arn in (
    "dummy",
    "",
    7,
    ["arn"],
    DLQ_ARN + ":x",
    "arn:aws:sqs:us-east-1:123456789012:",
    "arn:aws:sqs:us-east-1:12345:dead",
    "arn:aws:sqs:EU:123456789012:dead",
    "arn:aws:sqs:us-east-1:123456789012:de ad",
    "arn:other:sqs:us-east-1:123456789012:dead",
):
    BAD_REDRIVE_POLICIES[redrive_with(deadLetterTargetArn=arn)] = (
        "Invalid value for deadLetterTargetArn."
    )
for count, shown in (
    (0, "0"),
    (1001, "1001"),
    (-36, "-36"),
    (True, "true"),
    (1.5, "1.5"),
    ([5], "[5]"),
    ("invalid", "invalid"),
    ("", ""),
    ("٣", "٣"),
    ("9" * 30, "9" * 30),
):
    BAD_REDRIVE_POLICIES[redrive_with(maxReceiveCount=count)] = (
        f"Invalid value for maxReceiveCount: {shown}, valid values are from 1 to 1000 both "
        "inclusive."
    )


def test_a_wrong_redrive_policy_is_refused() -> None:
    for value, reason in BAD_REDRIVE_POLICIES.items():
        assert refusal({"RedrivePolicy": value}) == (
            f"InvalidParameterValue: Value {value} for parameter RedrivePolicy is invalid. "
            f"Reason: {reason}"
        )


@pytest.mark.parametrize(
    "value",
    [
        " ",
        "x",
        "[]",
        "null",
        "5",
        json.dumps(redrive_with()),
        "[" * 100_000,
        redrive_with()[:-1] + ',"maxReceiveCount":6}',
        '{"maxReceiveCount":NaN}',
        '{"maxReceiveCount":"\\ud800"}',
    ],
    ids=lambda value: value[-24:],
)
def test_a_redrive_policy_that_is_no_json_object_is_refused(value: str) -> None:
    """Also one that is JSON inside JSON: it must not be found out by a receive."""
    assert refusal({"RedrivePolicy": value}) == (
        "InvalidAttributeValue: Invalid value for the parameter RedrivePolicy. "
        "Reason: Redrive policy is not a valid JSON map."
    )


@pytest.mark.parametrize(
    "document",
    [
        {"redrivePermission": "allowAll"},
        {"redrivePermission": "denyAll"},
        {"redrivePermission": "byQueue", "sourceQueueArns": [DLQ_ARN] * 10},
    ],
)
def test_a_redrive_allow_policy_is_kept_as_it_was_given(document: dict[str, object]) -> None:
    given = json.dumps(document, indent=2)
    assert set_on_standard({"RedriveAllowPolicy": given}) == {"RedriveAllowPolicy": given}


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        (
            "RedriveAllowPolicy",
            '{"redrivePermission":"denyAll","sourceQueueArns":null}',
            '{"redrivePermission":"denyAll"}',
        ),
        (
            "RedriveAllowPolicy",
            '{"redrivePermission": "allowAll", "sourceQueueArns": null, "comment": null}',
            '{"redrivePermission":"allowAll"}',
        ),
        ("RedrivePolicy", redrive_with()[:-1] + ',"comment":null}', redrive_with()),
    ],
)
def test_members_that_are_null_are_not_kept(name: str, given: str, kept: str) -> None:
    assert json.loads(set_on_standard({name: given})[name]) == json.loads(kept)


def test_a_redrive_allow_policy_says_whose_letters_are_taken() -> None:
    def allowed(document: dict[str, object]) -> bool:
        parsed = set_on_standard({"RedriveAllowPolicy": json.dumps(document)})
        return allows_source(parsed["RedriveAllowPolicy"], SOURCE_ARN)

    assert allows_source("", SOURCE_ARN)
    assert allowed({"redrivePermission": "allowAll"})
    assert not allowed({"redrivePermission": "denyAll"})
    assert not allowed({"redrivePermission": "byQueue", "sourceQueueArns": [DLQ_ARN]})
    assert allowed({"redrivePermission": "byQueue", "sourceQueueArns": [DLQ_ARN, SOURCE_ARN]})
    of_before = '{"redrivePermission":"byQueue","sourceQueueArns":["arn:aws:sqs:cn-north-1:1:q"]}'
    assert allows_source(of_before, "arn:aws-cn:sqs:cn-north-1:1:q")


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (
            {"redrivePermission": "byQueue"},
            (
                "When you specify the byQueue permission type, "
                "you must also specify one or more sourceQueueArns values."
            ),
        ),
        (
            {"redrivePermission": "byQueue", "sourceQueueArns": None},
            (
                "When you specify the byQueue permission type, "
                "you must also specify one or more sourceQueueArns values."
            ),
        ),
        (
            {"redrivePermission": "byQueue", "sourceQueueArns": []},
            (
                "When you specify the byQueue permission type, "
                "you must also specify one or more sourceQueueArns values."
            ),
        ),
        (
            {"redrivePermission": "byQueue", "sourceQueueArns": [DLQ_ARN] * 11},
            "The maximum number of source queue ARNs you can specify is 10.",
        ),
        (
            {"redrivePermission": "denyAll", "sourceQueueArns": [DLQ_ARN]},
            (
                "To specify one or more source queue ARNs, "
                "you must set redrivePermission to byQueue."
            ),
        ),
    ],
)
def test_a_wrong_redrive_allow_policy_is_refused(document: object, reason: str) -> None:
    value = json.dumps(document)
    assert refusal({"RedriveAllowPolicy": value}) == (
        f"InvalidParameterValue: Value {value} for parameter RedriveAllowPolicy is invalid. "
        f"Reason: Amazon SQS can't create the redrive allow policy. {reason}"
    )


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        "{}",
        None,
        444,
        {"redrivePermission": None},
        {"redrivePermission": "some"},
        {"redrivePermission": "byQueue", "sourceQueueArns": [None]},
        {"redrivePermission": ["byQueue"]},
        {"redrivePermission": "allowAll", "more": 1},
        {"redrivePermission": "byQueue", "sourceQueueArns": DLQ_ARN},
        {"redrivePermission": "byQueue", "sourceQueueArns": [{"a": 1}]},
        {"redrivePermission": "byQueue", "sourceQueueArns": ["dead"]},
    ],
    ids=repr,
)
def test_a_redrive_allow_policy_of_another_form_is_refused(document: object) -> None:
    assert refusal({"RedriveAllowPolicy": json.dumps(document)}) == (
        "InvalidAttributeValue: Invalid value for the parameter RedriveAllowPolicy. Reason: "
        "Amazon SQS can't create the redrive allow policy, as it\u2019s in an unsupported format."
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


def test_how_long_data_keys_serve_is_shown_as_it_was_set() -> None:
    """But for the default, which a queue without a key does not show: recorded from AWS."""
    key, default = {"KmsMasterKeyId": "k"}, {"KmsDataKeyReusePeriodSeconds": "300"}
    other = {"KmsDataKeyReusePeriodSeconds": "60"}
    for names in ([ALL], [*default, *key]):
        for held in ({}, key, other, default, key | other, key | default):
            shown = render(held, {}, names, fifo=False)
            expected = {} if held == default else held
            assert {name: value for name, value in shown.items() if "Kms" in name} == expected


@pytest.mark.parametrize("name", ["Nonsense", "FifoQueue", ""])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(RefusedError, match=f"^Unknown Attribute {name}.$"):
        render({}, {}, [ALL, name], fifo=False)


def test_a_fifo_queue_shows_that_it_is_one() -> None:
    assert render({"FifoQueue": "true"}, {}, ["FifoQueue"], fifo=True) == {"FifoQueue": "true"}


@pytest.mark.parametrize("name", ["FifoQueue", "ContentBasedDeduplication"])
def test_a_standard_queue_is_not_asked_for_what_fifo_queues_have(name: str) -> None:
    with pytest.raises(RefusedError, match=rf"^Unknown Attribute {name}\.$"):
        render({}, {}, [name, "All"], fifo=False)
    assert name in render({"FifoQueue": "true"}, {}, [name], fifo=True)


@pytest.mark.parametrize("name", ["DeduplicationScope", "FifoThroughputLimit"])
def test_what_aws_was_not_seen_to_refuse_is_left_out(name: str) -> None:
    assert render({}, {}, [name], fifo=False) == {}
