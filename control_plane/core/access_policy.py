"""A queue's Policy: which documents it may hold, and how AddPermission edits them.

Who may do what by it is decided elsewhere (data_plane/policy), and what is not understood there is
refused here. Sources: SQS API reference (AddPermission), "Amazon SQS
policy quotas", the grammar of IAM's policies, and messages recorded from AWS.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
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
from data_plane.core.json_documents import compact, json_object, without_nulls
from data_plane.core.limits import (
    OPERATION_BODY_BYTES_MAX,
    PERMISSION_LABEL_CHARS_MAX,
    POLICY_BYTES_MAX,
    POLICY_CONDITIONS_MAX,
    POLICY_PRINCIPALS_MAX,
    POLICY_STATEMENTS_MAX,
    STATEMENT_ACTIONS_MAX,
)
from data_plane.policy.evaluate import OWNER_ONLY_ACTIONS
from data_plane.policy.language import VERSIONS, Kind, compile_policy, statements_of, texts_of
from data_plane.policy.patterns import NO_ARN, read_parts, text_test

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
ACTIONS: Final = GRANTABLE_ACTIONS - {"*"} | OWNER_ONLY_ACTIONS | set(OPERATION_BODY_BYTES_MAX)
"""All operations, ours and batches among them."""

_IN_POLICIES: Final = [name.lower() for name in ACTIONS if not name.endswith("Batch")]
"""The permission for a batch is that of the single message, and the only one that AWS takes."""

_is_label: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{PERMISSION_LABEL_CHARS_MAX}}}").fullmatch
_is_action: Final = re.compile(r"\*|[sS][qQ][sS]:[A-Za-z*?]+").fullmatch


def parse(value: str) -> str:
    """Check the attribute's value and answer it as it was given, but for members that are null.

    Those of the document, of its statements and of their principals count as absent; in a condition
    they are wrong: what it would be without a key or an operator is not for us to say.

    What stands in the place of an ARN and is none is let pass, as AWS does: its statement never
    allows. Raises RefusedError: InvalidAttributeValue, or OverLimit where the policy is too big.
    """
    if len(value.encode()) > POLICY_BYTES_MAX:
        raise RefusedError(OVER_LIMIT, "Submitted policy is over max allowed size.")
    value = _without_nulls(value)
    if any(doubt != NO_ARN for doubt in compile_policy(value, Kind.RESOURCE).doubts):
        raise _invalid_policy()
    statements = statements_of(json_object(value) or {})
    actions = list(chain.from_iterable(map(_actions, statements)))
    if not all(map(_is_action, actions)):
        raise _invalid_policy()
    for action in actions:
        name = action.rpartition(":")[2]
        if not names_any(name, _IN_POLICIES):
            raise _no_such_action(name)
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
        raise invalid_parameter(
            "PrincipalId", f"[{', '.join(accounts)}]", "Unable to verify principal."
        )
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
            raise _no_such_action(action)


def names_any(pattern: str, names: Iterable[str]) -> bool:
    """Whether an action of a policy, without its service, is one of these in lower case."""
    matches = text_test(read_parts(pattern.lower(), wildcards=True, variables=False))
    return any(matches(name, {}) for name in names)


def with_permission(
    policy: str, queue_arn: str, label: str, accounts: Sequence[str], actions: Sequence[str]
) -> str:
    """The policy ("": none) with a statement more, for a permission that passed its check.

    The very statement again changes nothing, so that a repeated call succeeds.

    Raises RefusedError: InvalidParameterValue where the label is another statement's, OverLimit.
    """
    document = json_object(policy) or {
        "Version": VERSIONS[0],
        "Id": f"{queue_arn}/SQSDefaultPolicy",
    }
    statements = statements_of(document)
    partition = queue_arn.split(":", 2)[1]
    wanted = {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {
            "AWS": _one_or_many([f"arn:{partition}:iam::{account}:root" for account in accounts])
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
    statements = statements_of(document)
    kept = [statement for statement in statements if statement.get("Sid") != label]
    if len(kept) == len(statements):
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            f"Value {label} for parameter Label is invalid. Reason: can't find label.",
        )
    return compact({**document, "Statement": kept}) if kept else ""


def _without_nulls(text: str) -> str:
    given = json_object(text) or {}
    document = without_nulls(given)
    match document.get("Statement"):
        case list() as statements:
            document["Statement"] = list(map(_statement_without_nulls, statements))
        case statement:
            document["Statement"] = _statement_without_nulls(statement)
    document = without_nulls(document)
    return text if document == given else compact(document)


def _statement_without_nulls(statement: object) -> object:
    if not isinstance(statement, dict):
        return statement
    members = without_nulls(statement)
    for name in ("Principal", "NotPrincipal"):
        if isinstance(members.get(name), dict):
            members[name] = without_nulls(members[name])
    return members


def _one_or_many(values: Sequence[str]) -> str | list[str]:
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else distinct


def _actions(statement: Mapping[str, Any]) -> list[str]:
    return texts_of(statement.get("Action", statement.get("NotAction")))


def _principals(statement: Mapping[str, Any]) -> list[str]:
    """Who is named, whatever kind of principal it is."""
    principal = statement.get("Principal", statement.get("NotPrincipal"))
    if not isinstance(principal, dict):
        return texts_of(principal)
    return list(chain.from_iterable(map(texts_of, principal.values())))


def _check_quotas(statements: Sequence[Mapping[str, Any]]) -> None:
    _check_quota("statements", len(statements), POLICY_STATEMENTS_MAX)
    for statement in statements:
        actions = len(_actions(statement))
        if actions > STATEMENT_ACTIONS_MAX:
            raise RefusedError(
                OVER_LIMIT,
                f"{actions} actions were found in a statement from the submitted policy, "
                f"max allowed is {STATEMENT_ACTIONS_MAX}",
            )
    principals = list(chain.from_iterable(map(_principals, statements)))
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


def _no_such_action(name: str) -> RefusedError:
    return invalid_parameter(
        "ActionName",
        f"SQS:{name}",
        "Please refer to the appropriate WSDL for a list of valid actions.",
    )


def _invalid_policy() -> RefusedError:
    return RefusedError(INVALID_ATTRIBUTE_VALUE, "Invalid value for the parameter Policy.")
