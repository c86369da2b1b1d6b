"""The decision: may this caller do this to this resource?

An explicit deny in any policy wins. Else, within an account, one policy that allows is enough, the
caller's or the resource's; across accounts it takes both. An account's root needs no policy of its
own. A resource's policy that names an account, not its user, lets the account decide: for a user
there it counts across accounts, where the user's policies must allow as well, and not within one. A
service has no policies: the resource's decides. Actions of the owner alone cannot be given away.

Source: IAM user guide, "Policy evaluation logic", "Cross-account policy evaluation logic", "AWS
JSON policy elements: Principal"; SQS developer guide, "Limitations of Amazon SQS custom policies".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

from data_plane.core.caller import Caller
from data_plane.policy.language import Kind, Policy, Principals, Statement
from data_plane.policy.patterns import Keys

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
"""Those that no policy extends to other accounts (SQS API reference, AddPermission)."""

_OWNER_ONLY: Final = frozenset(f"sqs:{name.lower()}" for name in OWNER_ONLY_ACTIONS)
_SELECTIONS_MAX: Final = 4096


class Request(NamedTuple):
    """What is to be decided.

    `action` is in lower case ("sqs:sendmessage"); `owner` is the account of the resource. `keys`
    are what conditions and variables may look at.
    """

    caller: Caller
    action: str
    resource: str
    owner: str
    keys: Keys


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a request is allowed; if not, whose policies say so, and whether they say deny."""

    allowed: bool
    explicit: bool = False
    kind: Kind = Kind.IDENTITY


ALLOWED: Final = Decision(allowed=True)
_NOT_BY_IDENTITY: Final = Decision(allowed=False)
_NOT_BY_RESOURCE: Final = Decision(allowed=False, kind=Kind.RESOURCE)
_NO_KEYS: Final[Keys] = {}


class Naming(Enum):
    """How a statement names a caller: not at all, by its account, or itself."""

    NOT = 0
    ACCOUNT = 1
    ITSELF = 2


def decide(request: Request, identity: Sequence[Policy], resource: Policy | None) -> Decision:
    """Evaluate the caller's policies and the resource's."""
    caller = request.caller
    if caller.is_root and resource is None and caller.account == request.owner:
        return ALLOWED
    theirs = () if caller.is_root or caller.service else identity
    if any(_denies(policy, request) for policy in theirs):
        return Decision(allowed=False, explicit=True)
    if resource is not None and _denies(resource, request):
        return Decision(allowed=False, explicit=True, kind=Kind.RESOURCE)
    allowed = caller.is_root or any(_allows(policy, request) for policy in theirs)
    if caller.service or (allowed and caller.account != request.owner):
        return _decide_across_accounts(request, resource)
    if not allowed and caller.account == request.owner and resource is not None:
        allowed = _naming(resource, request) is Naming.ITSELF
    return ALLOWED if allowed else _NOT_BY_IDENTITY


def _decide_across_accounts(request: Request, resource: Policy | None) -> Decision:
    """What the owner's side says to a caller whose own side allows."""
    if (
        resource is None
        or request.action in _OWNER_ONLY
        or _naming(resource, request) is Naming.NOT
    ):
        return _NOT_BY_RESOURCE
    return ALLOWED


@lru_cache(maxsize=_SELECTIONS_MAX)
def _about(policy: Policy, action: str) -> tuple[tuple[Statement, ...], tuple[Statement, ...]]:
    """The statements about an action: those that deny, and those that allow."""
    about = [
        statement
        for statement in policy.statements
        if statement.actions is None or statement.actions.matches(action, _NO_KEYS)
    ]
    denying = tuple(statement for statement in about if statement.denies)
    return denying, tuple(statement for statement in about if not statement.denies)


def _denies(policy: Policy, request: Request) -> bool:
    denying, _ = _about(policy, request.action)
    for statement in denying:
        if _names(statement, request.caller) is not Naming.NOT and _holds(statement, request):
            return True
    return False


def _allows(policy: Policy, request: Request) -> bool:
    """Whether an identity's policy allows."""
    _, allowing = _about(policy, request.action)
    return any(_holds(statement, request) for statement in allowing)


def _naming(policy: Policy, request: Request) -> Naming:
    """By what the allowing statements of a resource's policy name the caller, at best."""
    best = Naming.NOT
    _, allowing = _about(policy, request.action)
    for statement in allowing:
        naming = _names(statement, request.caller)
        if naming.value > best.value and _holds(statement, request):
            best = naming
    return best


def _holds(statement: Statement, request: Request) -> bool:
    """Whether resource and conditions are as the statement says."""
    resources = statement.resources
    if resources is not None and not resources.matches(request.resource, request.keys):
        return False
    return all(condition(request.keys) for condition in statement.conditions)


def _names(statement: Statement, caller: Caller) -> Naming:
    principals = statement.principals
    if principals is None:
        return Naming.ITSELF
    if not statement.excepts:
        return _named(principals, caller)
    return Naming.NOT if _is_excepted(principals, caller) else Naming.ITSELF


def _named(principals: Principals, caller: Caller) -> Naming:
    if principals.everybody:
        return Naming.ITSELF
    if caller.service:
        return Naming.ITSELF if caller.service in principals.services else Naming.NOT
    if caller.user and caller.arn in principals.arns:
        return Naming.ITSELF
    if caller.account not in principals.accounts:
        return Naming.NOT
    return Naming.ACCOUNT if caller.user else Naming.ITSELF


def _is_excepted(principals: Principals, caller: Caller) -> bool:
    """Whether NotPrincipal spares the caller: a user only where its account is named as well."""
    if caller.user and not caller.service and not principals.everybody:
        return caller.arn in principals.arns and caller.account in principals.accounts
    return _named(principals, caller) is Naming.ITSELF
