"""Whatever JSON an attribute gets: it is refused, or kept in a form that is accepted again."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.core.access_policy import with_permission, without_permission
from control_plane.core.queue_attributes import parse
from data_plane.core.errors import RefusedError
from data_plane.policy.language import Kind, compile_policy
from data_plane.policy.patterns import NO_ARN

ARN = "arn:aws:sqs:eu-west-1:123456789012:orders"
NAMES = st.sampled_from(
    [
        "Version",
        "Id",
        "Statement",
        "Sid",
        "Effect",
        "Principal",
        "NotPrincipal",
        "AWS",
        "Action",
        "Resource",
        "Condition",
        "deadLetterTargetArn",
        "maxReceiveCount",
        "redrivePermission",
        "sourceQueueArns",
    ]
)
VALUES = st.sampled_from(["2012-10-17", "Allow", "*", "sqs:*", ARN, "5", "byQueue", "denyAll"])
TEXTS = st.text(st.characters(exclude_categories=[]))  # with halves of surrogate pairs
LEAVES = VALUES | st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES | TEXTS, inner, max_size=6),
    max_leaves=25,
)
STATEMENT = {"Effect": "Allow", "Principal": "*", "Action": "sqs:*", "Resource": "*"}
ALMOST: dict[str, Any] = {
    "Policy": {"Version": "2012-10-17", "Statement": STATEMENT},
    "RedrivePolicy": {"deadLetterTargetArn": ARN, "maxReceiveCount": 5},
    "RedriveAllowPolicy": {"redrivePermission": "byQueue", "sourceQueueArns": [ARN]},
}


def accepted(name: str, text: str) -> str | None:
    try:
        kept = parse({name: text}, fifo=False)[name]
    except RefusedError:
        return None
    kept.encode()
    assert parse({name: kept}, fifo=False)[name] == kept
    if name == "Policy" and kept:
        assert set(compile_policy(kept, Kind.RESOURCE).doubts) <= {NO_ARN}
    return kept


@pytest.mark.parametrize("name", ALMOST)
@given(document=JSON, text=st.text())
def test_any_document(name: str, document: Any, text: str) -> None:
    accepted(name, json.dumps(document))
    accepted(name, text)


@pytest.mark.parametrize("name", ALMOST)
@given(member=NAMES, value=JSON, deep=st.booleans())
def test_a_right_document_with_one_member_changed(
    name: str, member: str, value: Any, *, deep: bool
) -> None:
    right = json.loads(json.dumps(ALMOST[name]))
    (right["Statement"] if deep and "Statement" in right else right)[member] = value
    accepted(name, json.dumps(right))


@given(value=JSON)
def test_a_permission_that_goes_again_leaves_the_statements_that_were_there(value: Any) -> None:
    statement = STATEMENT | {"Condition": {"StringEquals": {"aws:k": value}}}
    held = accepted("Policy", json.dumps({"Statement": [statement]}))
    if held is None:
        return
    try:
        added = with_permission(held, ARN, "label", ["1" * 12], ["SendMessage"])
    except RefusedError:
        return
    kept = json.loads(without_permission(added, "label"))
    assert kept["Statement"] == json.loads(held)["Statement"]
