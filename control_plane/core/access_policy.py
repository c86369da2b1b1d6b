"""A queue's Policy: which documents it may hold, and how AddPermission edits them.

Who may do what by it is decided elsewhere. Sources: SQS API reference (AddPermission), "Amazon SQS
policy quotas", the grammar of IAM's policies, and messages recorded from AWS.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from data_plane.core.errors import (
    INVALID_ATTRIBUTE_VALUE,
    INVALID_PARAMETER_VALUE,
    OVER_LIMIT,
    RefusedError,
    invalid_parameter,
    missing_parameter,
)
from data_plane.core.identifiers import is_account
from data_plane.core.json_documents import compact, json_object
from data_plane.core.limits import (
    PERMISSION_LABEL_CHARS_MAX,
    POLICY_BYTES_MAX,
    POLICY_CONDITIONS_MAX,
    POLICY_PRINCIPALS_MAX,
    POLICY_STATEMENTS_MAX,
    STATEMENT_ACTIONS_MAX,
)

GRANTABLE_ACTIONS: Final = frozenset(
    {
        "*",
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
    }
)
OWNER_ONLY_ACTIONS: Final = frozenset(
    {
        "AddPermission",
        "CancelMessageMoveTask",
        "CreateQueue",
        "DeleteQueue",
        "ListMessageMoveTasks",
        "ListQueues",
        "ListQueueTags",
        "RemovePermission",
        "SetQueueAttributes",
        "StartMessageMoveTask",
        "TagQueue",
        "UntagQueue",
    }
)
"""Those that no policy extends to other accounts (API reference, AddPermission)."""

_VERSIONS: Final = ("2008-10-17", "2012-10-17")
_PRINCIPAL_KINDS: Final = frozenset({"AWS", "CanonicalUser", "Federated", "Service"})
_PARTS: Final = (
    ("Principal", "NotPrincipal"),
    ("Action", "NotAction"),
    ("Resource", "NotResource"),
)
"""Of each pair a statement has exactly one."""
_STATEMENT_MEMBERS: Final = {"Sid", "Effect", "Condition"}.union(*_PARTS)

_is_label: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{PERMISSION_LABEL_CHARS_MAX}}}").fullmatch
_is_action: Final = re.compile(r"\*|[sS][qQ][sS]:[A-Za-z*?]+").fullmatch


def parse(value: str) -> str:
    """Check the attribute's value and answer it as it was given.

    Raises RefusedError: InvalidAttributeValue, or OverLimit where the policy is too big.
    """
    if len(value.encode()) > POLICY_BYTES_MAX:
        raise RefusedError(OVER_LIMIT, "Submitted policy is over max allowed size.")
    document = json_object(value)
    if (
        document is None
        or not document.keys() <= {"Version", "Id", "Statement"}
        or document.get("Version", _VERSIONS[0]) not in _VERSIONS
        or not isinstance(document.get("Id", ""), str)
    ):
        raise _invalid_policy()
    statements = _statements(document)
    if not statements or not all(map(_is_statement, statements)):
        raise _invalid_policy()
    _check_quotas(statements)
    return value


def check_permission(label: str, accounts: Sequence[str], actions: Sequence[str]) -> None:
    """Raise RefusedError for a permission that AddPermission cannot give."""
    if not _is_label(label):
        raise invalid_parameter(
            "Label",
            label,
            "Can only include alphanumeric characters, hyphens, or underscores. "
            f"1 to {PERMISSION_LABEL_CHARS_MAX} in length.",
        )
    if not actions:
        raise missing_parameter("Actions")
    if not accounts or not all(map(is_account, accounts)):
        raise invalid_parameter("PrincipalId", f"[{', '.join(accounts)}]", "Unable to verify.")
    if len(actions) > STATEMENT_ACTIONS_MAX:
        raise RefusedError(
            OVER_LIMIT,
            f"{len(actions)} Actions were found, maximum allowed is {STATEMENT_ACTIONS_MAX}.",
        )
    for action in actions:
        if action in OWNER_ONLY_ACTIONS:
            raise invalid_parameter(
                "ActionName",
                f"SQS:{action}",
                "Only the queue owner is allowed to invoke this action.",
            )
        if action not in GRANTABLE_ACTIONS:
            raise invalid_parameter(
                "ActionName",
                f"SQS:{action}",
                "Please refer to the appropriate WSDL for a list of valid actions.",
            )


def with_permission(
    policy: str, queue_arn: str, label: str, accounts: Sequence[str], actions: Sequence[str]
) -> str:
    """The policy ("": none) with a statement more, for a permission that passed its check.

    The very statement again changes nothing, so that a repeated call succeeds.

    Raises RefusedError: InvalidParameterValue where the label is another statement's, OverLimit.
    """
    document = json_object(policy) or {
        "Version": _VERSIONS[0],
        "Id": f"{queue_arn}/SQSDefaultPolicy",
    }
    statements = _statements(document)
    wanted = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {
            "AWS": _one_or_many([f"arn:aws:iam::{account}:root" for account in accounts])
        },
        "Action": _one_or_many([f"SQS:{action}" for action in actions]),
        "Resource": queue_arn,
    }
    if wanted in statements:
        return policy
    if any(statement.get("Sid") == label for statement in statements):
        raise invalid_parameter("Label", label, "Already exists.")
    statements.append(wanted)
    if len(statements) > POLICY_STATEMENTS_MAX:
        raise RefusedError(
            OVER_LIMIT,
            f"{len(statements)} Statements were found, maximum allowed is {POLICY_STATEMENTS_MAX}.",
        )
    return parse(compact({**document, "Statement": statements}))


def without_permission(policy: str, label: str) -> str:
    """The policy without the statements of this label; "" where none is left.

    Raises RefusedError (InvalidParameterValue) where the label is no statement's.
    """
    document = json_object(policy) or {}
    statements = _statements(document)
    kept = [statement for statement in statements if statement.get("Sid") != label]
    if len(kept) == len(statements):
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            f"Value {label} for parameter Label is invalid. Reason: can't find label.",
        )
    return compact({**document, "Statement": kept}) if kept else ""


def _statements(document: Mapping[str, Any]) -> list[Any]:
    """A policy's statements, of which a single one may stand without a list."""
    statements = document.get("Statement", [])
    return list(statements) if isinstance(statements, list) else [statements]


def _one_or_many(values: Sequence[str]) -> str | list[str]:
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else distinct


def _is_statement(statement: object) -> bool:
    if not isinstance(statement, dict) or not statement.keys() <= _STATEMENT_MEMBERS:
        return False
    if any((one in statement) == (other in statement) for one, other in _PARTS):
        return False
    principal = statement.get("Principal", statement.get("NotPrincipal"))
    actions = _texts(statement.get("Action", statement.get("NotAction")))
    resources = _texts(statement.get("Resource", statement.get("NotResource")))
    return (
        statement.get("Effect") in ("Allow", "Deny")
        and isinstance(statement.get("Sid", ""), str)
        and bool(_principals(principal))
        and bool(actions)
        and all(map(_is_action, actions))
        and bool(resources)
        and _is_condition(statement.get("Condition", {}))
    )


def _texts(value: object) -> list[str]:
    """The texts of a member that is one or a list of them; [] for anything else."""
    values: list[Any] = value if isinstance(value, list) else [value]
    return values if all(isinstance(text, str) and text for text in values) else []


def _principals(principal: object) -> list[str]:
    """Who is meant, as a list; [] for what names nobody properly."""
    if principal == "*":
        return ["*"]
    if not isinstance(principal, dict) or not principal.keys() <= _PRINCIPAL_KINDS:
        return []
    named = [_texts(value) for value in principal.values()]
    return [text for texts in named for text in texts] if all(named) else []


def _is_condition(condition: object) -> bool:
    """Operators, each with keys, each with a value or a list of them."""
    return isinstance(condition, dict) and all(
        isinstance(keys, dict)
        and all(isinstance(value, str | int | float | list) for value in keys.values())
        for keys in condition.values()
    )


def _check_quotas(statements: Sequence[Mapping[str, Any]]) -> None:
    _check_quota("statements", len(statements), POLICY_STATEMENTS_MAX)
    for statement in statements:
        actions = len(_texts(statement.get("Action", statement.get("NotAction"))))
        if actions > STATEMENT_ACTIONS_MAX:
            raise RefusedError(
                OVER_LIMIT,
                f"{actions} actions were found in a statement from the submitted policy, "
                f"max allowed is {STATEMENT_ACTIONS_MAX}",
            )
    principals = [
        name
        for statement in statements
        for name in _principals(statement.get("Principal", statement.get("NotPrincipal")))
    ]
    _check_quota("principals", len(principals), POLICY_PRINCIPALS_MAX)
    _check_quota("conditions", sum(1 for _ in _conditions(statements)), POLICY_CONDITIONS_MAX)


def _conditions(statements: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for statement in statements:
        for keys in statement.get("Condition", {}).values():
            yield from keys


def _check_quota(what: str, found: int, allowed: int) -> None:
    if found > allowed:
        raise RefusedError(
            OVER_LIMIT,
            f"{found} {what} were found in the submitted policy, max allowed is {allowed}",
        )


def _invalid_policy() -> RefusedError:
    return RefusedError(INVALID_ATTRIBUTE_VALUE, "Invalid value for the parameter Policy.")
