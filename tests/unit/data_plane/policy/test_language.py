import json
from typing import Any

import pytest

from data_plane.core.caller import Caller
from data_plane.policy.evaluate import Request, decide
from data_plane.policy.language import COMPILED_MAX, Kind, compile_policy

QUEUE = "arn:aws:sqs:eu-west-1:111122223333:orders"
ALICE = Caller("111122223333", "alice")


def document(*statements: Any, **members: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [*statements]} | members)


def statement(effect: str = "Allow", **members: Any) -> dict[str, Any]:
    whole = {"Effect": effect, "Action": "sqs:SendMessage", "Resource": QUEUE} | members
    return {name: value for name, value in whole.items() if value is not ...}


def said(text: str, resource: str = QUEUE, action: str = "sqs:sendmessage") -> str:
    request = Request(ALICE, action, resource, ALICE.account, {})
    decision = decide(request, [compile_policy(text, Kind.IDENTITY)], None)
    return "allow" if decision.allowed else "deny" if decision.explicit else "nothing"


def test_what_is_understood_has_no_doubts() -> None:
    policy = compile_policy(document(statement(Sid="s"), Id="i"), Kind.IDENTITY)
    assert policy.doubts == ()
    assert said(document(statement())) == "allow"
    assert said(json.dumps({"Statement": statement()})) == "allow"


@pytest.mark.parametrize(
    "text", ["", "x", "[]", "null", '{"Statement":[],"Statement":[]}', "[" * 5000]
)
def test_what_is_no_policy_denies_everything(text: str) -> None:
    assert compile_policy(text, Kind.IDENTITY).doubts
    assert said(text) == said(text, "arn:aws:sqs:x:y:z", "sqs:listqueues") == "deny"


DOUBTFUL_MEMBERS: list[dict[str, Any]] = [
    {"Sid": 5},
    {"More": 1},
    {"Principal": "*"},
    {"Action": "SendMessage"},
    {"Action": "s*:SendMessage"},
    {"Action": ["sqs:SendMessage", "sqs:"]},
    {"Action": []},
    {"Action": ...},
    {"NotAction": "sqs:PurgeQueue"},
    {"Resource": "orders"},
    {"Resource": [QUEUE, ""]},
    {"Resource": "arn:aws:*:eu-west-1:111122223333:orders"},
    {"Resource": "arn:aws:sqs:eu-west-1:${aws:PrincipalAccount}:orders"},
    {"Resource": "arn:aws:sqs:eu-west-1:111122223333:${aws:Nonsense}"},
    {"Resource": "arn:aws:sqs:eu-west-1:111122223333:${aws:username"},
    {"Resource": "arn:aws:sqs:eu-west-1:111122223333:${aws:username}"},
    {"Condition": []},
    {"Condition": {"Bool": "x"}},
    {"Condition": {"Bool": {"aws:SecureTransport": None}}},
    {"Condition": {"Boolean": {"aws:SecureTransport": "true"}}},
]


@pytest.mark.parametrize("members", DOUBTFUL_MEMBERS, ids=str)
def test_a_part_in_doubt_never_allows_and_counts_as_matching_in_a_deny(
    members: dict[str, Any],
) -> None:
    assert said(document(statement(**members))) == "nothing"
    assert said(document(statement("Deny", **members))) == "deny"
    # The other parts count: this Deny is about another action.
    if "Action" not in members and "NotAction" not in members:
        elsewhere = document(statement("Deny", **members, Action="sqs:PurgeQueue"))
        assert said(elsewhere) == "nothing"


@pytest.mark.parametrize("members", [{"Version": "2020-01-01"}, {"Id": 5}, {"More": 1}], ids=str)
def test_a_document_in_doubt_allows_nothing_and_denies_what_it_did(members: Any) -> None:
    assert compile_policy(document(statement(), **members), Kind.IDENTITY).doubts
    assert said(document(statement(), **members)) == "nothing"
    assert said(document(statement(), statement("Deny"), **members)) == "deny"


def test_an_unknown_effect_denies() -> None:
    assert said(document(statement("allow"))) == "deny"
    assert said(document(statement(), 5)) == "deny"


@pytest.mark.parametrize(
    "principal",
    [
        "alice",
        {},
        [],
        {"AWS": []},
        {"AWS": [5]},
        {"Anyone": "*"},
        {"AWS": "arn:aws:iam::*:root"},
        {"AWS": "arn:aws:iam::111122223333:user/*"},
        {"Service": "*"},
        None,
    ],
    ids=str,
)
def test_a_principal_in_doubt_is_everybody_in_a_deny_and_nobody_else(principal: Any) -> None:
    def decided(effect: str, name: str) -> Any:
        text = document(statement(effect, **{name: principal}))
        policy = compile_policy(text, Kind.RESOURCE)
        assert policy.doubts
        return decide(Request(ALICE, "sqs:sendmessage", QUEUE, ALICE.account, {}), [], policy)

    assert not decided("Allow", "Principal").allowed
    assert decided("Deny", "Principal").explicit
    assert decided("Deny", "NotPrincipal").explicit


def test_a_policy_of_a_queue_names_principals() -> None:
    assert compile_policy(document(statement()), Kind.RESOURCE).doubts
    assert compile_policy(document(statement(NotPrincipal="*")), Kind.RESOURCE).doubts
    assert not compile_policy(document(statement(Principal="*")), Kind.RESOURCE).doubts


def test_actions_have_no_case_and_wildcards() -> None:
    for action in (
        "SQS:sendmessage",
        "sqs:*",
        "*",
        "sqs:Send*",
        "sqs:?endM*ge",
        ["s3:*", "sqs:S*"],
    ):
        assert said(document(statement(Action=action))) == "allow", action
    for action in ("sqs:Send", "s3:*", "sqs:SendMessage?"):
        assert said(document(statement(Action=action))) == "nothing", action
    assert said(document(statement(Action=..., NotAction="sqs:Purge*"))) == "allow"
    assert said(document(statement(Action=..., NotAction="sqs:Send*"))) == "nothing"


def test_resources_match_segment_by_segment() -> None:
    for resource in (
        "*",
        "arn:aws:sqs:*:*:ord*",
        "arn:aws:sqs",
        "arn:*:sqs:eu-*",
        "arn:aws:sqs:eu-west-?:111122223333:orders",
        ["arn:aws:s3:::*", QUEUE],
    ):
        assert said(document(statement(Resource=resource))) == "allow", resource
    for resource in ("arn:aws:sqs:*:orders", "arn:aws:sns:*:*:*", QUEUE.upper(), QUEUE + "?"):
        assert said(document(statement(Resource=resource))) != "allow", resource
    assert said(document(statement(Resource=..., NotResource="arn:aws:sqs:*:*:x"))) == "allow"
    assert said(document(statement(Resource=..., NotResource="arn:aws:sqs:*:*:o*"))) == "nothing"


def test_only_the_newer_version_has_variables() -> None:
    literal = "arn:aws:sqs:*:*:${aws:username}"
    old = document(statement(Resource=literal), Version="2008-10-17")
    assert compile_policy(old, Kind.IDENTITY).doubts == ()
    assert said(old, "arn:aws:sqs:r:a:${aws:username}") == "allow"
    new = document(statement(Resource="arn:aws:sqs:*:*:${$}${*}"))
    assert said(new, "arn:aws:sqs:r:a:$*") == "allow"
    assert said(new, "arn:aws:sqs:r:a:$x") == "nothing"


def test_policies_are_compiled_once_and_kept_within_a_bound() -> None:
    text = document(statement())
    assert compile_policy(text, Kind.IDENTITY) is compile_policy(text, Kind.IDENTITY)
    assert compile_policy.cache_info().maxsize == COMPILED_MAX
