"""Decisions, as AWS's documentation tells them: its table of results, its examples, its limits."""

import json
from typing import Any

import pytest

from data_plane.core.caller import Caller
from data_plane.policy.evaluate import OWNER_ONLY_ACTIONS, Decision, Request, decide
from data_plane.policy.language import Kind, compile_policy

OWNER = "444455556666"
OTHER = "111122223333"
QUEUE = f"arn:aws:sqs:us-east-2:{OWNER}:queue2"
BOB = f"arn:aws:iam::{OTHER}:user/bob"


def statement(effect: str = "Allow", **members: Any) -> dict[str, Any]:
    return {"Effect": effect, "Action": "sqs:*", "Resource": "*"} | members


def decision(
    caller: Caller,
    resource: Any = None,
    identity: Any = None,
    action: str = "sqs:SendMessage",
    queue: str = QUEUE,
    **keys: str,
) -> Decision:
    def text(statements: Any) -> str:
        return json.dumps({"Version": "2012-10-17", "Statement": statements})

    request = Request(
        caller,
        action.lower(),
        queue,
        queue.split(":")[4],
        {f"aws:{key.lower()}": (value,) for key, value in keys.items()},
    )
    return decide(
        request,
        [compile_policy(text(identity), Kind.IDENTITY)] if identity else [],
        compile_policy(text(resource), Kind.RESOURCE) if resource else None,
    )


def allows(*arguments: Any, **more: Any) -> bool:
    return decision(*arguments, **more).allowed


# AWS's own table: knowledge-center/sqs-queue-access-permissions

ALLOW, NEITHER, DENY = "Allow", "", "Deny"
SAME_ACCOUNT = [
    (ALLOW, ALLOW, "allow"),
    (ALLOW, NEITHER, "allow"),
    (ALLOW, DENY, "deny"),
    (NEITHER, ALLOW, "allow"),
    (NEITHER, NEITHER, "implicit deny"),
    (NEITHER, DENY, "deny"),
    (DENY, ALLOW, "deny"),
    (DENY, NEITHER, "deny"),
    (DENY, DENY, "deny"),
]
DIFFERENT_ACCOUNT = [
    (ALLOW, ALLOW, "allow"),
    (ALLOW, NEITHER, "implicit deny"),
    (ALLOW, DENY, "deny"),
    (NEITHER, ALLOW, "implicit deny"),
    (NEITHER, NEITHER, "implicit deny"),
    (NEITHER, DENY, "deny"),
    (DENY, ALLOW, "deny"),
    (DENY, NEITHER, "deny"),
    (DENY, DENY, "deny"),
]


@pytest.mark.parametrize(
    ("account", "user_policy", "queue_policy", "result"),
    [(OWNER, *row) for row in SAME_ACCOUNT] + [(OTHER, *row) for row in DIFFERENT_ACCOUNT],
)
@pytest.mark.parametrize("others", [(), ("sqs:PurgeQueue",)], ids=["alone", "beside others"])
def test_the_published_table(
    account: str, user_policy: str, queue_policy: str, result: str, others: tuple[str, ...]
) -> None:
    caller = Caller(account, "username1")
    other = [statement(Action=action) for action in others]
    identity = [*other, *([statement(user_policy)] if user_policy else [])]
    principal = {"AWS": caller.arn}
    own = [one | {"Principal": principal} for one in other]
    own += [statement(queue_policy, Principal=principal)] if queue_policy else []
    decided = decision(caller, own, identity)
    assert decided.allowed == (result == "allow")
    assert decided.explicit == (result == "deny")


# The SQS developer guide's examples: "Custom Amazon SQS Access Policy Language examples",
# "Using identity-based policies with Amazon SQS", "Amazon SQS policy for SNS and S3"

SEND_RECEIVE = ["sqs:SendMessage", "sqs:ReceiveMessage"]
ROOT = Caller(OTHER)


def test_example_permission_to_one_account() -> None:
    policy = statement(Principal={"AWS": [OTHER]}, Action=SEND_RECEIVE, Resource=QUEUE)
    assert allows(ROOT, policy)
    assert allows(ROOT, policy, action="sqs:ReceiveMessage")
    assert not allows(ROOT, policy, action="sqs:PurgeQueue")
    assert not allows(ROOT, policy, queue=QUEUE + "x")
    assert not allows(Caller("777788889999"), policy)
    # Users of the account may do what the account has passed on to them.
    bob = Caller(OTHER, "bob")
    assert not allows(bob, policy)
    assert allows(bob, policy, statement(Action="sqs:Send*", Resource=QUEUE))


def test_example_permission_to_accounts_until_a_date() -> None:
    policy = statement(
        Principal={"AWS": [OTHER, "777788889999"]},
        Action=SEND_RECEIVE,
        Resource=QUEUE,
        Condition={"DateLessThan": {"AWS:CurrentTime": "2009-06-30T12:00Z"}},
    )
    assert allows(ROOT, policy, CurrentTime="2009-06-30T11:59:59Z")
    assert allows(Caller("777788889999"), policy, CurrentTime="2009-06-29T12:00:00Z")
    assert not allows(ROOT, policy, CurrentTime="2009-06-30T12:00:00Z")
    assert not allows(ROOT, policy)


def test_example_permission_from_addresses() -> None:
    policy = statement(
        Principal="*",
        Action=SEND_RECEIVE,
        Resource=QUEUE,
        Condition={
            "DateLessThan": {"AWS:CurrentTime": "2009-06-30T12:00Z"},
            "IpAddress": {"AWS:SourceIp": "10.52.176.0/24"},
        },
    )
    before = {"CurrentTime": "2009-01-01T00:00:00Z"}
    assert allows(ROOT, policy, SourceIp="10.52.176.9", **before)
    assert not allows(ROOT, policy, SourceIp="10.52.177.9", **before)
    assert not allows(ROOT, policy, SourceIp="10.52.176.9", CurrentTime="2010-01-01T00:00:00Z")


def test_example_deny_one_account_or_the_wrong_network() -> None:
    everybody = statement(Principal={"AWS": "*"}, Action="sqs:ReceiveMessage", Resource=QUEUE)
    deny = statement("Deny", Principal={"AWS": OTHER}, Resource=QUEUE)
    received = "sqs:ReceiveMessage"
    assert allows(Caller("777788889999"), [everybody, deny], action=received)
    assert decision(ROOT, [everybody, deny], action=received).explicit
    bob = Caller(OTHER, "bob")
    assert decision(bob, [everybody, deny], statement(), action=received).explicit
    network = {"NotIpAddress": {"aws:SourceIp": ["54.240.143.0/24", "10.0.0.0/8"]}}
    within = statement("Deny", Principal="*", Resource=QUEUE, Condition=network)
    assert allows(ROOT, [everybody, within], action=received, SourceIp="10.9.8.7")
    assert not allows(ROOT, [everybody, within], action=received, SourceIp="192.0.2.1")
    assert not allows(ROOT, [everybody, within], action=received)


def test_example_a_topic_or_a_bucket_sends() -> None:
    topic = f"arn:aws:sns:us-east-2:{OWNER}:topic"
    policy = statement(
        Principal={"Service": "sns.amazonaws.com"},
        Action="sqs:SendMessage",
        Resource=QUEUE,
        Condition={"ArnEquals": {"aws:SourceArn": topic}},
    )
    sns = Caller(OWNER, service="sns.amazonaws.com")
    assert allows(sns, policy, SourceArn=topic)
    assert not allows(sns, policy, SourceArn=topic + "2")
    assert not allows(sns, policy)
    assert not allows(sns, policy, action="sqs:ReceiveMessage", SourceArn=topic)
    assert not allows(Caller(OWNER, service="s3.amazonaws.com"), policy, SourceArn=topic)
    assert not allows(Caller(OTHER), policy, SourceArn=topic)
    bucket = statement(
        Principal={"Service": "s3.amazonaws.com"},
        Action=["SQS:SendMessage"],
        Condition={
            "ArnLike": {"aws:SourceArn": "arn:aws:s3:*:*:bucket"},
            "StringEquals": {"aws:SourceAccount": OTHER},
        },
    )
    s3 = Caller(OTHER, service="s3.amazonaws.com")
    assert allows(s3, bucket, SourceArn="arn:aws:s3:::bucket", SourceAccount=OTHER)
    assert not allows(s3, bucket, SourceArn="arn:aws:s3:::bucket", SourceAccount=OWNER)


def test_example_transport_must_be_secure() -> None:
    policy = statement(
        "Deny", Principal="*", Condition={"Bool": {"aws:SecureTransport": "false"}}, Resource=QUEUE
    )
    assert decision(Caller(OWNER), policy, SecureTransport="false").explicit
    assert allows(Caller(OWNER), policy, SecureTransport="true")


def test_examples_of_identity_policies() -> None:
    alice = Caller(OWNER, "alice")
    create = statement(Action="sqs:CreateQueue", Resource=f"arn:aws:sqs:*:{OWNER}:alice_queue_*")
    named = f"arn:aws:sqs:us-east-2:{OWNER}:alice_queue_1"
    assert allows(alice, identity=create, action="sqs:CreateQueue", queue=named)
    assert not allows(alice, identity=create, action="sqs:CreateQueue")
    listing = statement(Action="sqs:ListQueues")
    assert allows(alice, identity=listing, action="sqs:ListQueues", queue=QUEUE[: -len("queue2")])
    own = statement(Resource="arn:aws:sqs:*:*:${aws:username}-*")
    mine = f"arn:aws:sqs:us-east-2:{OWNER}:alice-in"
    assert allows(alice, identity=own, queue=mine, username="alice")
    assert not allows(alice, identity=own, queue=mine, username="bob")
    tagged = statement(Condition={"StringEquals": {"aws:ResourceTag/environment": "beta"}})
    assert allows(alice, identity=tagged, **{"ResourceTag/Environment": "beta"})
    assert not allows(alice, identity=tagged, **{"ResourceTag/environment": "prod"})


# Principals


def test_an_account_named_in_its_own_queue_decides_for_its_users() -> None:
    alice = Caller(OWNER, "alice")
    for name in (OWNER, f"arn:aws:iam::{OWNER}:root"):
        assert not allows(alice, statement(Principal={"AWS": name}))
        assert decision(alice, statement("Deny", Principal={"AWS": name}), statement()).explicit
    assert allows(alice, statement(Principal={"AWS": alice.arn}))
    assert allows(alice, statement(Principal="*"))


def test_a_user_is_named_exactly() -> None:
    bob = Caller(OTHER, "bob")
    allow = statement()
    assert allows(bob, statement(Principal={"AWS": BOB}), allow)
    assert not allows(Caller(OTHER, "bobby"), statement(Principal={"AWS": BOB}), allow)
    assert not allows(ROOT, statement(Principal={"AWS": BOB}))
    assert not allows(bob, statement(Principal={"Federated": "x", "CanonicalUser": "y"}), allow)


def test_not_principal_spares_a_user_whose_account_is_named_too() -> None:
    bob, ann = Caller(OTHER, "bob"), Caller(OTHER, "ann")
    everybody = statement(Principal="*")

    def spared(caller: Caller, *names: str) -> bool:
        deny = statement("Deny", NotPrincipal={"AWS": list(names)})
        return allows(caller, [everybody, deny], statement())

    root = f"arn:aws:iam::{OTHER}:root"
    assert spared(bob, BOB, root)
    assert spared(bob, BOB, OTHER)
    assert not spared(bob, BOB)
    assert not spared(bob, root)
    assert not spared(ann, BOB, root)
    assert spared(ROOT, root)
    assert not allows(bob, statement(NotPrincipal={"AWS": "777788889999"}), statement())


def test_a_root_needs_nothing_but_is_bound_by_a_deny() -> None:
    root = Caller(OWNER)
    assert allows(root)
    assert allows(root, statement(Principal={"AWS": OTHER}))
    assert decision(root, statement("Deny", Principal="*")).explicit
    assert not allows(ROOT)


@pytest.mark.parametrize("action", sorted(OWNER_ONLY_ACTIONS))
def test_what_is_the_owners_alone_cannot_be_given_away(action: str) -> None:
    everything = statement(Principal="*", Action="*")
    for caller in (ROOT, Caller(OTHER, "bob"), Caller(OWNER, service="sns.amazonaws.com")):
        decided = decision(caller, everything, statement(Action="*"), action=f"sqs:{action}")
        assert decided == Decision(allowed=False, kind=Kind.RESOURCE)
    assert allows(Caller(OWNER, "alice"), everything, action=f"sqs:{action}")


def test_who_says_no() -> None:
    alice, bob = Caller(OWNER, "alice"), Caller(OTHER, "bob")
    everybody = statement(Principal="*")
    assert decision(alice).kind is Kind.IDENTITY
    assert decision(bob, everybody).kind is Kind.IDENTITY
    assert decision(bob, identity=statement()).kind is Kind.RESOURCE
    assert decision(bob, everybody, statement("Deny")).kind is Kind.IDENTITY
    assert decision(bob, statement("Deny", Principal="*"), statement()).kind is Kind.RESOURCE
    assert decision(Caller(OWNER, service="sns.amazonaws.com")).kind is Kind.RESOURCE
