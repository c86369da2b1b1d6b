import json
from typing import Any

import pytest

from control_plane.core.access_policy import (
    GRANTABLE_ACTIONS,
    check_permission,
    parse,
    with_permission,
    without_permission,
)
from data_plane.core.errors import RefusedError
from data_plane.policy.evaluate import OWNER_ONLY_ACTIONS

ARN = "arn:aws:sqs:eu-west-1:123456789012:orders"
ACCOUNT = "111122223333"
STATEMENT: dict[str, Any] = {
    "Sid": "s",
    "Effect": "Allow",
    "Principal": {"AWS": [ACCOUNT]},
    "Action": "sqs:SendMessage",
    "Resource": ARN,
}
INVALID = "InvalidAttributeValue: Invalid value for the parameter Policy."


def refusal(call: Any, *arguments: Any) -> str:
    with pytest.raises(RefusedError) as refused:
        call(*arguments)
    return f"{refused.value.fault.code}: {refused.value.message}"


def policy(*statements: object, **members: object) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [*statements]} | members)


def changed(**members: object) -> dict[str, Any]:
    return {name: value for name, value in (STATEMENT | members).items() if value is not ...}


def numbers(cases: list[Any]) -> list[str]:
    return [str(number) for number in range(len(cases))]


RIGHT_DOCUMENTS = [
    {"Version": "2012-10-17", "Statement": [STATEMENT]},
    {"Version": "2008-10-17", "Id": "i", "Statement": STATEMENT},
    {"Statement": [STATEMENT]},
    {"Statement": [changed(Principal="*", Sid=...)]},
    {"Statement": [changed(Principal={"Service": "sns.amazonaws.com", "AWS": "*"})]},
    {"Statement": [changed(Principal=..., NotPrincipal={"AWS": "*"}, Effect="Deny")]},
    {"Statement": [changed(Action=["SQS:*", "sqs:Send*"])]},
    {"Statement": [changed(Action=..., NotAction="*")]},
    {"Statement": [changed(Resource=..., NotResource=[ARN, "*"])]},
    {"Statement": [changed(Condition={"Bool": {"aws:SecureTransport": "false"}})]},
    {"Statement": [changed(Condition={"ArnLike": {"aws:SourceArn": [ARN, ARN]}})]},
    {"Statement": [changed(Resource="orders")]},
]


@pytest.mark.parametrize("document", RIGHT_DOCUMENTS, ids=numbers(RIGHT_DOCUMENTS))
def test_a_policy_is_kept_as_it_was_given(document: object) -> None:
    for text in (json.dumps(document), json.dumps(document, indent=2)):
        assert parse(text) == text


WITH_NULLS = [
    (policy(STATEMENT, Version=None, Id=None), json.dumps({"Statement": [STATEMENT]})),
    (policy(changed(Condition=None, Sid=None, NotAction=None)), policy(changed(Sid=...))),
    (
        policy(changed(Principal={"AWS": "*", "Service": None, "Federated": None})),
        policy(changed(Principal={"AWS": "*"})),
    ),
]


@pytest.mark.parametrize(("given", "kept"), WITH_NULLS, ids=numbers(WITH_NULLS))
def test_members_that_are_null_are_not_kept(given: str, kept: str) -> None:
    assert json.loads(parse(given)) == json.loads(kept)
    single = json.loads(given)
    (single["Statement"],) = single["Statement"]
    assert json.loads(parse(json.dumps(single)))["Statement"] == json.loads(kept)["Statement"][0]


WRONG_STATEMENTS = [
    changed(Principal=None),
    changed(Principal={"AWS": None}),
    changed(Principal={"AWS": [None]}),
    changed(Action=["sqs:SendMessage", None]),
    changed(Condition={"Bool": None}),
    "x",
    [],
    {},
    changed(More=1),
    changed(Sid=5),
    changed(Effect="allow"),
    changed(Effect=...),
    changed(Principal=...),
    changed(NotPrincipal="*"),
    changed(Principal=ACCOUNT),
    changed(Principal={}),
    changed(Principal={"AWS": []}),
    changed(Principal={"AWS": [5]}),
    changed(Principal={"Anyone": "*"}),
    changed(Action=...),
    changed(NotAction="*"),
    changed(Action=[]),
    changed(Action=5),
    changed(Action="SendMessage"),
    changed(Action="sns:Publish"),
    changed(Action=["sqs:SendMessage", "s3:*"]),
    changed(Resource=...),
    changed(Resource=[]),
    changed(Resource=""),
    changed(NotResource="*"),
    changed(Condition=[]),
    changed(Condition={"Bool": "x"}),
    changed(Condition={"Bool": {"aws:SecureTransport": None}}),
    changed(Condition={"Bool": {"aws:SecureTransport": "perhaps"}}),
    changed(Condition={"Boolean": {"aws:SecureTransport": "true"}}),
    changed(Condition={"StringEquals": {"aws:Sourceipp": "x"}}),
    changed(Principal={"AWS": "arn:aws:iam::111122223333:user/*"}),
    changed(Principal=..., NotPrincipal={"AWS": ACCOUNT}),
]


@pytest.mark.parametrize("statement", WRONG_STATEMENTS, ids=numbers(WRONG_STATEMENTS))
def test_a_wrong_statement_is_refused(statement: object) -> None:
    assert refusal(parse, policy(statement)) == INVALID
    assert refusal(parse, policy(STATEMENT, statement)) == INVALID


NO_SUCH_ACTIONS = ["SendMessageBatch", "DeleteMessageBatch", "Foo", "Sned*", "*Batch"]


@pytest.mark.parametrize("name", NO_SUCH_ACTIONS)
@pytest.mark.parametrize("member", ["Action", "NotAction"])
def test_an_action_that_does_not_exist_is_refused(name: str, member: str) -> None:
    """What denies it would deny nothing."""
    denies = changed(Effect="Deny", Action=...) | {member: ["sqs:ReceiveMessage", f"sqs:{name}"]}
    assert refusal(parse, policy(STATEMENT, denies)) == (
        f"InvalidParameterValue: Value SQS:{name} for parameter ActionName is invalid."
        " Reason: Please refer to the appropriate WSDL for a list of valid actions."
    )


@pytest.mark.parametrize(
    "action", ["sqs:sendmessage", "SQS:SetQueueAttributes", "sqs:?endMessage", "*"]
)
def test_actions_are_of_any_case_and_may_have_wildcards(action: str) -> None:
    assert parse(policy(changed(Action=action))) == policy(changed(Action=action))


WRONG_DOCUMENTS = [
    "badjson",
    "[]",
    "null",
    "533",
    json.dumps(policy(STATEMENT)),
    "{}",
    policy(),
    policy(STATEMENT, Dummy=1),
    policy(STATEMENT, Version="4532-10-17"),
    policy(STATEMENT, Statement=None),
    policy(STATEMENT, Id=5),
    policy(STATEMENT)[:-1] + ',"Statement":[]}',
    policy(changed(Sid="\ud800")),
    "[" * 5_000,
]


@pytest.mark.parametrize("text", WRONG_DOCUMENTS, ids=numbers(WRONG_DOCUMENTS))
def test_a_wrong_document_is_refused(text: str) -> None:
    assert refusal(parse, text) == INVALID


def test_a_policy_has_quotas() -> None:
    def accounts(count: int) -> list[str]:
        return [f"{number:012}" for number in range(count)]

    conditions = {"StringEquals": {f"aws:PrincipalTag/k{number}": "v" for number in range(10)}}
    parse(policy(*[STATEMENT] * 20))
    assert refusal(parse, policy(*[STATEMENT] * 22)) == (
        "OverLimit: 22 statements were found in the submitted policy, max allowed is 20"
    )
    parse(policy(changed(Action=["sqs:SendMessage"] * 7)))
    assert refusal(parse, policy(changed(Action=["sqs:SendMessage"] * 10))) == (
        "OverLimit: 10 actions were found in a statement from the submitted policy, "
        "max allowed is 7"
    )
    parse(policy(changed(Principal={"AWS": accounts(50)})))
    assert (
        refusal(
            parse,
            policy(
                changed(Principal={"AWS": accounts(25)}), changed(Principal={"AWS": accounts(26)})
            ),
        )
        == "OverLimit: 51 principals were found in the submitted policy, max allowed is 50"
    )
    parse(policy(changed(Condition=conditions)))
    assert (
        refusal(
            parse,
            policy(
                changed(Condition=conditions),
                changed(Condition={"Bool": {"aws:SecureTransport": "true"}}),
            ),
        )
        == "OverLimit: 11 conditions were found in the submitted policy, max allowed is 10"
    )


def test_a_policy_has_8192_bytes_at_most() -> None:
    room = 8192 - len(policy(STATEMENT, Id="").encode())
    at_the_limit = json.dumps(
        json.loads(policy(STATEMENT, Id="ü" * (room // 2))), ensure_ascii=False
    )
    assert len(at_the_limit.encode()) in (8191, 8192)
    assert parse(at_the_limit) == at_the_limit
    assert refusal(parse, at_the_limit + "  ") == (
        "OverLimit: Submitted policy is over max allowed size."
    )


@pytest.mark.parametrize("label", ["a", "A-b_9", "x" * 80])
def test_good_permissions(label: str) -> None:
    check_permission(label, [ACCOUNT], sorted(GRANTABLE_ACTIONS)[:7])
    check_permission(label, [ACCOUNT] * 3, ["*"])


@pytest.mark.parametrize(
    ("label", "accounts", "actions", "expected"),
    [
        *(
            (
                label,
                [ACCOUNT],
                ["SendMessage"],
                (
                    f"InvalidParameterValue: Value {label} for parameter Label is invalid. "
                    "Reason: Can only include alphanumeric characters, hyphens, or underscores. "
                    "1 to 80 in length."
                ),
            )
            for label in ("x" * 81, "a b", "a.b", "ü", "a\n")
        ),
        (
            "l",
            [ACCOUNT],
            [],
            "MissingParameter: The request must contain the parameter Actions.",
        ),
        *(
            (
                "l",
                accounts,
                ["SendMessage"],
                (
                    f"InvalidParameterValue: Value [{', '.join(accounts)}] for parameter "
                    "PrincipalId is invalid. Reason: Unable to verify principal."
                ),
            )
            for accounts in ([], ["123"], [ACCOUNT, "x" * 12], [f"arn:aws:iam::{ACCOUNT}:root"])
        ),
        (
            "l",
            [ACCOUNT],
            ["SendMessage"] * 8,
            "OverLimit: 8 Actions were found, maximum allowed is 7.",
        ),
        *(
            (
                "l",
                [ACCOUNT],
                ["SendMessage", action],
                (
                    f"InvalidParameterValue: Value SQS:{action} for parameter ActionName is "
                    "invalid. Reason: Only the queue owner is allowed to invoke this action."
                ),
            )
            for action in sorted(OWNER_ONLY_ACTIONS)
        ),
        *(
            (
                "l",
                [ACCOUNT],
                [action],
                (
                    f"InvalidParameterValue: Value SQS:{action} for parameter ActionName is "
                    "invalid. Reason: Please refer to the appropriate WSDL for a list of valid "
                    "actions."
                ),
            )
            for action in ("SendMessageBatch", "sendmessage", "", "SQS:SendMessage")
        ),
    ],
)
def test_bad_permissions(
    label: str, accounts: list[str], actions: list[str], expected: str
) -> None:
    assert refusal(check_permission, label, accounts, actions) == expected


def test_the_first_permission_makes_the_policy() -> None:
    """Word for word as recorded from AWS."""
    made = with_permission("", ARN, "one", ["668614515564", ACCOUNT], ["ReceiveMessage"])
    assert made == (
        f'{{"Version":"2008-10-17","Id":"{ARN}/SQSDefaultPolicy","Statement":[{{"Sid":"one",'
        '"Effect":"Allow","Principal":{"AWS":["arn:aws:iam::668614515564:root",'
        f'"arn:aws:iam::{ACCOUNT}:root"]}},"Action":"SQS:ReceiveMessage","Resource":"{ARN}"}}]}}'
    )
    assert parse(made) == made


def test_a_permission_joins_those_that_are_there() -> None:
    held = policy(STATEMENT, Id="mine", Version="2012-10-17")
    made = json.loads(with_permission(held, ARN, "l", [ACCOUNT], ["SendMessage", "*"]))
    assert made == json.loads(held) | {
        "Statement": [
            STATEMENT,
            {
                "Sid": "l",
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
                "Action": ["SQS:SendMessage", "SQS:*"],
                "Resource": ARN,
            },
        ]
    }
    single = json.dumps({"Statement": STATEMENT})
    assert json.loads(with_permission(single, ARN, "l", [ACCOUNT], ["*"]))["Statement"][0] == (
        STATEMENT
    )


def test_what_is_named_twice_counts_once() -> None:
    twice = with_permission("", ARN, "l", [ACCOUNT] * 2, ["SendMessage"] * 2)
    assert twice == with_permission("", ARN, "l", [ACCOUNT], ["SendMessage"])


def test_a_label_is_given_once() -> None:
    held = with_permission("", ARN, "l", [ACCOUNT], ["SendMessage"])
    assert with_permission(held, ARN, "l", [ACCOUNT], ["SendMessage"]) == held
    taken = "InvalidParameterValue: Value l for parameter Label is invalid. Reason: Already exists."
    assert refusal(with_permission, held, ARN, "l", ["9" * 12], ["SendMessage"]) == taken
    assert refusal(with_permission, held, ARN, "l", [ACCOUNT], ["*"]) == taken


def test_a_permission_too_many_is_refused() -> None:
    held = policy(*[STATEMENT] * 20)
    assert refusal(with_permission, held, ARN, "l", [ACCOUNT], ["*"]) == (
        "OverLimit: 21 Statements were found, maximum allowed is 20."
    )
    big = policy(STATEMENT, Id="i" * 7_900)
    assert refusal(with_permission, big, ARN, "l", [ACCOUNT], ["*"]) == (
        "OverLimit: Submitted policy is over max allowed size."
    )


def test_a_permission_goes_by_its_label() -> None:
    held = with_permission("", ARN, "one", [ACCOUNT], ["SendMessage"])
    both = with_permission(held, ARN, "two", [ACCOUNT], ["SendMessage"])
    assert without_permission(both, "two") == held
    assert without_permission(held, "one") == ""
    for text in ("", held):
        assert refusal(without_permission, text, "three") == (
            "InvalidParameterValue: Value three for parameter Label is invalid. "
            "Reason: can't find label."
        )
