"""Random policies and requests, by seed: mostly sensible, so that they meet, sometimes broken."""

import json
import random
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

from tests.property.slow_policies import NEGATIVE, POSITIVE, Asked

ACCOUNTS = ("111122223333", "444455556666")
USERS = ("alice", "bob")
SERVICES = ("sns.amazonaws.com", "s3.amazonaws.com")
ACTIONS = ("SendMessage", "ReceiveMessage", "PurgeQueue", "DeleteQueue", "GetQueueUrl")
QUEUES = ("orders", "orders-dead", "alice-inbox", "bob.fifo")
RESOURCES = [f"arn:aws:sqs:eu-west-1:{account}:{queue}" for account in ACCOUNTS for queue in QUEUES]
TOPICS = (
    "arn:aws:sns:eu-west-1:111122223333:news",
    "arn:aws:sns:eu-west-1:111122223333:news:at:once",
    "arn:aws:s3:::bucket",
    "no-arn",
)
TIMES = ("2026-11-21T12:00:00Z", "2026-11-21", "2026-11-21T13:00:00.5+01:00", "1795262400", "later")
ADDRESSES = ("10.1.2.3", "192.0.2.7", "2001:db8::1", "::ffff:10.1.2.3", "nowhere")
NETWORKS = ("10.0.0.0/8", "10.1.2.3", "192.0.2.0/24", "2001:db8::/32", "0.0.0.0/0", "10.1.2.3/40")

VALUES: dict[str, tuple[str, ...]] = {
    "aws:SourceIp": ADDRESSES,
    "aws:CurrentTime": TIMES,
    "aws:EpochTime": ("1795262400", "12.5", "007"),
    "aws:SecureTransport": ("true", "false"),
    "aws:SourceArn": TOPICS,
    "aws:SourceAccount": ACCOUNTS,
    "aws:username": USERS,
    "aws:PrincipalArn": (
        f"arn:aws:iam::{ACCOUNTS[0]}:user/alice",
        f"arn:aws:iam::{ACCOUNTS[1]}:root",
    ),
    "aws:PrincipalAccount": ACCOUNTS,
    "aws:UserAgent": ("Boto3/1.44", "boto3/1.44", "aws-cli", "a*b", "a${*}b", "YWJj", ""),
    "aws:TagKeys": ("team", "Team", "stage"),
    "aws:RequestTag/team": ("red", "blue"),
    "aws:ResourceTag/Team": ("red", "blue"),
}
"""What requests may say of a key; policies ask for the same, for patterns of it, or for others."""

ARN_PATTERNS = (
    *(
        "arn:aws:sns:*:*:*",
        "arn:aws:sns:*:news:*",
        "arn:aws:*:news:*:*",
        "arn:aws:s3:*:*:*",
        "arn:*",
    ),
    *("arn:aws:iam::*:user/${aws:username}", "arn:aws:iam::${aws:PrincipalAccount}:root"),
)
PATTERNS = (
    *ARN_PATTERNS,
    *("*", "?", "B*", "*3*", "boto3/1.?4", "a${*}b", "a*b", "${aws:username}", "${aws:UserAgent}"),
    *("${aws:PrincipalTag/x, 'red'}", "${aws:TagKeys}", "${nonsense}", "${aws:username", "${}"),
    *("x", "", "12", "-12.50", "0x1", "YWJj", "YWI", "é*"),
)
KEYS = (
    *VALUES,
    "aws:SourceArn",
    "aws:SourceArn",
    "AWS:SOURCEIP",
    "aws:principalorgid",
    "aws:resourcetag/team",
)
BROKEN_KEYS = ("sqs:Unknown", "aws:Sourceip2", "aws:RequestTag/", "")
BROKEN_OPERATORS = ("stringEquals", "StringEqual", "ForAnyValue:Null", "BoolNotEquals", "Like", "")


class Pair(NamedTuple):
    """Policies of an identity, that of the resource (None: none), and a request."""

    identity: list[str]
    resource: str | None
    asked: Asked


REQUESTS_EACH = 5
"""So many requests in a row meet the same policies."""


class Policies(NamedTuple):
    """Policies that were written with a request in mind."""

    identity: list[str]
    resource: str | None
    meant: Asked


def random_pair(seed: int) -> Pair:
    """The pair of this seed: policies that it shares with its neighbours, and a request."""
    identity, resource, meant = random_policies(seed // REQUESTS_EACH)
    rng = random.Random(seed)
    other = _request(rng)
    asked = replace(meant, keys=dict(meant.keys))
    if rng.random() < 0.3:
        asked.account, asked.user, asked.service = other.account, other.user, other.service
    if rng.random() < 0.2:
        asked.action = other.action
    if rng.random() < 0.2:
        asked.resource, asked.owner = other.resource, other.owner
    for key in VALUES:
        if rng.random() < 0.3:
            asked.keys[key] = other.keys.get(key, [])
    return Pair(identity, resource, asked)


@lru_cache(maxsize=2)
def random_policies(seed: int) -> Policies:
    """The policies of this seed."""
    rng = random.Random(f"policies {seed}")
    meant = _request(rng)
    identity = [_policy(rng, meant, resource=False) for _ in range(rng.choice((0, 1, 1, 2)))]
    resource = _policy(rng, meant, resource=True) if rng.random() < 0.75 else None
    return Policies(identity, resource, meant)


def _request(rng: random.Random) -> Asked:
    service = rng.choice(SERVICES) if rng.random() < 0.15 else ""
    resource = rng.choice(RESOURCES)
    return Asked(
        account=rng.choice(ACCOUNTS),
        user="" if service else rng.choice(("", *USERS, *USERS)),
        service=service,
        action=f"sqs:{rng.choice(ACTIONS)}",
        resource=resource,
        owner=resource.split(":")[4],
        keys=_keys(rng),
    )


def _keys(rng: random.Random) -> dict[str, list[str]]:
    keys: dict[str, list[str]] = {}
    for key, values in VALUES.items():
        if rng.random() < 0.75:
            count = rng.choice((0, 1, 2, 3)) if key == "aws:TagKeys" or rng.random() < 0.05 else 1
            keys[key] = [rng.choice(values) for _ in range(count)]
    return keys


def _policy(rng: random.Random, asked: Asked, *, resource: bool) -> str:
    statements: Any = [
        _statement(rng, asked, resource=resource) for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    document: dict[str, Any] = {"Statement": statements[0] if len(statements) == 1 else statements}
    if rng.random() < 0.9:
        document["Version"] = rng.choice(("2012-10-17", "2012-10-17", "2008-10-17"))
    if rng.random() < 0.02:
        document |= rng.choice(
            ({"Version": "2020-01-01"}, {"Extra": 1}, {"Id": 5}, {"Statement": [7]})
        )
    text = json.dumps(document)
    if rng.random() < 0.01:
        return rng.choice((text[:-1], f"[{text}]", text[:-1] + ',"Statement":[]}', "", '"x"'))
    return text


def _statement(rng: random.Random, asked: Asked, *, resource: bool) -> dict[str, Any]:
    statement: dict[str, Any] = {"Effect": rng.choices(("Allow", "Deny"), (3, 1))[0]}
    statement["NotAction" if rng.random() < 0.1 else "Action"] = _some(
        rng, lambda: _action(rng, asked)
    )
    statement["NotResource" if rng.random() < 0.1 else "Resource"] = _some(
        rng, lambda: _resource(rng, asked)
    )
    if resource:
        inverse = rng.random() < (0.3 if statement["Effect"] == "Deny" else 0.02)
        statement["NotPrincipal" if inverse else "Principal"] = _principal(rng, asked)
    if rng.random() < 0.6:
        statement["Condition"] = _conditions(rng, asked)
    if rng.random() < 0.03:
        statement |= rng.choice(
            (
                {"Effect": "allow"},
                {"Unknown": 1},
                {"Sid": 1},
                {"Action": []},
                {"Resource": 5},
                {"Condition": []},
                {"Condition": {"Bool": "x"}},
                {"Principal": "*"},
                {"NotAction": "sqs:*"},
            )
        )
    return statement


def _some(rng: random.Random, make: Any) -> Any:
    """One, or a list of some."""
    count = rng.choice((0, 0, 1, 2, 3))
    return [make() for _ in range(count)] if count else make()


def _action(rng: random.Random, asked: Asked) -> str:
    if rng.random() < 0.03:
        return rng.choice(("SendMessage", "sqs:", "s*:SendMessage", "sqs:Send Message"))
    if rng.random() < 0.4:
        return asked.action
    return rng.choice(
        ("*", "sqs:*", "SQS:send*", "sqs:*Message", "sqs:?urgeQueue", "s3:*", "sqs:Get*")
    )


def _resource(rng: random.Random, asked: Asked) -> str:
    if rng.random() < 0.03:
        return rng.choice(
            (
                "orders",
                "arn:aws:*:eu-west-1:*:orders",
                "arn:aws:sqs:${aws:username}:*:orders",
                "${x}",
            )
        )
    if rng.random() < 0.4:
        return asked.resource
    return rng.choice(
        (
            *(
                "*",
                "arn:aws:sqs",
                "arn:aws:sqs:eu-west-1",
                "arn:*:sqs:*:*:*",
                "arn:aws:sqs:*:*:o*s",
            ),
            *("arn:aws:sqs:eu-*", "arn:aws:sqs:*:orders", f"arn:aws:sqs:*:{asked.owner}:*"),
            *(
                "arn:aws:sqs:*:*:${aws:username}*",
                "arn:aws:sqs:*:*:${aws:PrincipalTag/t, 'orders'}",
            ),
            *("arn:aws:sqs:eu-west-?:*:orders*", "arn:aws:s3:::*"),
        )
    )


def _principal(rng: random.Random, asked: Asked) -> Any:
    if rng.random() < 0.03:
        return rng.choice(
            ({}, {"AWS": "arn:aws:iam::*:root"}, {"Whoever": "*"}, "x", {"Service": "*"}, 5)
        )
    if rng.random() < 0.25:
        return "*"
    account = asked.account if rng.random() < 0.7 else rng.choice(ACCOUNTS)
    user = asked.user or rng.choice(USERS)
    aws = (account, f"arn:aws:iam::{account}:root", f"arn:aws:iam::{account}:user/{user}", "*")
    principal: dict[str, Any] = {}
    if rng.random() < 0.8 or not asked.service:
        principal["AWS"] = _some(rng, lambda: rng.choices(aws, (2, 2, 4, 0.3))[0])
    if asked.service or rng.random() < 0.1:
        principal["Service"] = _some(rng, lambda: asked.service or rng.choice(SERVICES))
    if rng.random() < 0.05:
        principal["Federated"] = "cognito-identity.amazonaws.com"
    return principal


def _conditions(rng: random.Random, asked: Asked) -> dict[str, Any]:
    conditions: dict[str, Any] = {}
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choice(KEYS) if rng.random() < 0.98 else rng.choice(BROKEN_KEYS)
        operator = _operator(rng, key)
        values = _some(rng, partial(_value, rng, key, asked))
        conditions.setdefault(operator, {})[key] = values
    return conditions


def _operator(rng: random.Random, key: str) -> str:
    if rng.random() < 0.02:
        return rng.choice(BROKEN_OPERATORS)
    if rng.random() < 0.08:
        return "Null"
    fitting = {"aws:SourceIp": "Ip", "aws:CurrentTime": "Date", "aws:EpochTime": "Numeric"}
    fitting |= {"aws:SecureTransport": "Bool", "aws:SourceArn": "Arn", "AWS:SOURCEIP": "Ip"}
    kind = fitting.get(key, "String")
    names = [name for name in POSITIVE + NEGATIVE if kind in name]
    name = rng.choice(names if rng.random() < 0.85 else POSITIVE + NEGATIVE)
    over = rng.choice(("ForAnyValue:", "ForAllValues:"))
    set_operator = rng.random() < (0.7 if key == "aws:TagKeys" else 0.08)
    return f"{over if set_operator else ''}{name}{'IfExists' if rng.random() < 0.15 else ''}"


def _value(rng: random.Random, key: str, asked: Asked) -> Any:
    chance = rng.random()
    if chance < 0.03:
        return rng.choice((True, 5, 12.5, None, {}))
    if chance < 0.2:
        return rng.choice(PATTERNS)
    if "ip" in key.lower():
        return rng.choice(NETWORKS)
    if "Arn" in key and chance < 0.7:
        return rng.choice(ARN_PATTERNS)
    given = asked.keys.get(key)
    if given and chance < 0.6:
        return rng.choice(given)
    return rng.choice(VALUES.get(key, ("x", "true", "false")))
