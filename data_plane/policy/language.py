"""From a policy's JSON text to values that can be evaluated.

What the language does not know fails closed. A statement with a part that is in doubt (an unknown
element, operator, key, version; a principal, action or resource that is malformed) never allows; in
a Deny the part in doubt counts as matching, so the statement denies wherever its other parts match.
An effect that is neither denies. A text that is no policy at all denies everything.

Source: IAM user guide, "IAM JSON policy elements reference" and "Grammar of the IAM JSON policy
language".
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from data_plane.core.identifiers import is_account
from data_plane.core.json_documents import json_object
from data_plane.core.partitions import without_partition
from data_plane.policy.conditions import Condition, compile_condition, is_known_key
from data_plane.policy.patterns import (
    ARN_SEGMENTS,
    Keys,
    MalformedPatternError,
    Part,
    Test,
    Variable,
    Wildcard,
    arn_test,
    read_parts,
    split_arn,
    text_test,
    variables_of,
)

VERSIONS: Final = ("2008-10-17", "2012-10-17")
"""The first is that of a document without one; only the second has variables."""

EFFECTS: Final = ("Allow", "Deny")
PRINCIPAL_KINDS: Final = frozenset({"AWS", "CanonicalUser", "Federated", "Service"})
COMPILED_MAX: Final = 1024
"""So many texts of policies are kept compiled."""

_DOCUMENT_MEMBERS: Final = frozenset({"Version", "Id", "Statement"})
_STATEMENT_MEMBERS: Final = frozenset(
    {
        "Sid",
        "Effect",
        "Principal",
        "NotPrincipal",
        "Action",
        "NotAction",
        "Resource",
        "NotResource",
        "Condition",
    }
)
_SERVICE_SEGMENT: Final = 2
_RESOURCE_SEGMENT: Final = 5

_is_action: Final = re.compile(r"\*|[A-Za-z0-9-]+:[A-Za-z0-9*?]+").fullmatch
_root: Final = re.compile(r"arn:aws:iam::([0-9]{12}):root").fullmatch


class Kind(Enum):
    """Whose policy it is: one of an identity names no principals, one of a resource does."""

    IDENTITY = "identity-based"
    RESOURCE = "resource-based"


@dataclass(frozen=True, slots=True)
class Principals:
    """Whom a statement names: by account, by ARN, by the name of a service; or everybody."""

    everybody: bool = False
    accounts: frozenset[str] = frozenset()
    arns: frozenset[str] = frozenset()
    services: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Matcher:
    """Texts that a statement names, or (`inverted`) all others.

    `doubt` is what counts where nobody can tell.
    """

    tests: tuple[Test, ...]
    inverted: bool
    doubt: bool

    def matches(self, text: str, keys: Keys) -> bool:
        """Whether the text is among those meant."""
        unsure = self.doubt != self.inverted
        for test in self.tests:
            matched = test(text, keys)
            if unsure if matched is None else matched:
                return not self.inverted
        return self.inverted


@dataclass(frozen=True, slots=True)
class Statement:
    """A compiled statement. A part that is None matches everything.

    `excepts` says that everybody but the principals is meant (NotPrincipal).
    """

    denies: bool
    principals: Principals | None = None
    excepts: bool = False
    actions: Matcher | None = None
    resources: Matcher | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, eq=False)
class Policy:
    """A compiled policy: its statements, and what in its text is not understood.

    Statements that could only allow, and are in doubt, are left out. Compared by identity.
    """

    statements: tuple[Statement, ...]
    doubts: tuple[str, ...]


@lru_cache(maxsize=COMPILED_MAX)
def compile_policy(text: str, kind: Kind) -> Policy:
    """The policy of a JSON text, whatever the text is: where it is none it denies everything."""
    document = json_object(text)
    if document is None:
        return Policy((Statement(denies=True),), ("it is no JSON object",))
    doubts = [f"the element {name!r} is unknown" for name in document.keys() - _DOCUMENT_MEMBERS]
    version = document.get("Version", VERSIONS[0])
    if version not in VERSIONS:
        doubts.append(f"the version {version!r} is unknown")
    if not isinstance(document.get("Id", ""), str):
        doubts.append("the Id is no text")
    in_doubt = bool(doubts)
    statements: list[Statement] = []
    members = statements_of(document)
    if not members:
        doubts.append("there is no statement")
    for member in members:
        reading = _Reading(kind, variables=version != VERSIONS[0])
        statement = reading.statement(member)
        if statement.denies or not (reading.doubts or in_doubt):
            statements.append(statement)
        doubts += reading.doubts
    return Policy(tuple(statements), tuple(doubts))


def statements_of(document: Mapping[str, Any]) -> list[Any]:
    """A policy's statements, of which a single one may stand without a list."""
    statements = document.get("Statement", [])
    return list(statements) if isinstance(statements, list) else [statements]


def texts_of(value: object) -> list[str]:
    """The texts of a member that is one or a list of them; [] for anything else."""
    values: list[Any] = value if isinstance(value, list) else [value]
    return values if all(isinstance(text, str) and text for text in values) else []


class _Reading:
    """Reads one statement, and notes what it does not understand."""

    def __init__(self, kind: Kind, *, variables: bool) -> None:
        self._kind = kind
        self._variables = variables
        self._doubt = False
        self.doubts: list[str] = []

    def statement(self, member: object) -> Statement:
        if not isinstance(member, dict):
            self.doubts.append("a statement is no object")
            return Statement(denies=True)
        effect = member.get("Effect")
        if effect not in EFFECTS:
            self.doubts.append(f"the effect {effect!r} is unknown")
        denies = effect != "Allow"
        self._doubt = denies
        unknown = member.keys() - _STATEMENT_MEMBERS
        self.doubts += [f"the element {name!r} is unknown" for name in unknown]
        if not isinstance(member.get("Sid", ""), str):
            self.doubts.append("a Sid is no text")
        principals = self._principals(member, denies=denies)
        actions = self._matcher(member, "Action", _action_test)
        resources = self._matcher(member, "Resource", self._resource_test)
        return Statement(
            denies,
            principals,
            "NotPrincipal" in member,
            actions,
            resources,
            tuple(self._conditions(member.get("Condition", {}))),
        )

    def _one_of(self, member: Mapping[str, Any], name: str) -> tuple[Any, bool] | None:
        """The value of `name` or of `Not<name>`, and whether it is the latter's."""
        inverse = f"Not{name}"
        if (name in member) == (inverse in member):
            self.doubts.append(f"a statement has {name} or {inverse}")
            return None
        return (member[name], False) if name in member else (member[inverse], True)

    def _matcher(
        self, member: Mapping[str, Any], name: str, read: Callable[[str], Test]
    ) -> Matcher | None:
        found = self._one_of(member, name)
        if found is None:
            return None
        value, inverted = found
        texts = texts_of(value)
        if not texts:
            self.doubts.append(f"{name} is no text or list of texts")
            return None
        tests: list[Test] = []
        for text in texts:
            try:
                tests.append(read(text))
            except MalformedPatternError as error:
                self.doubts.append(str(error))
                tests.append(_cannot_tell)
        return Matcher(tuple(tests), inverted, self._doubt)

    def _resource_test(self, text: str) -> Test:
        """`*`, or an ARN; one with fewer than six segments means all that begin so."""
        parts = read_parts(text, wildcards=True, variables=self._variables)
        if parts == [Wildcard.MANY]:
            return text_test(parts)
        segments = split_arn(parts)
        before = [part for segment in segments[:_RESOURCE_SEGMENT] for part in segment]
        if any(isinstance(part, Variable) for part in before):
            raise MalformedPatternError(f"{text!r} has a variable before its last part")
        service = segments[_SERVICE_SEGMENT : _SERVICE_SEGMENT + 1]
        if any(not isinstance(part, str) for segment in service for part in segment):
            raise MalformedPatternError(f"{text!r} leaves open which service it means")
        if not all(map(is_known_key, variables_of(parts))):
            raise MalformedPatternError(f"{text!r} names an unknown key")
        missing: list[Part] = [":", Wildcard.MANY] * (ARN_SEGMENTS - len(segments))
        return arn_test([*parts, *missing])

    def _principals(self, member: Mapping[str, Any], *, denies: bool) -> Principals | None:
        if self._kind is Kind.IDENTITY:
            if "Principal" in member or "NotPrincipal" in member:
                self.doubts.append("a policy of an identity names no principals")
            return None
        found = self._one_of(member, "Principal")
        if found is None:
            return None
        value, inverted = found
        if inverted and not denies:
            self.doubts.append("NotPrincipal is for Deny")
        try:
            return _read_principals(value)
        except MalformedPatternError as error:
            self.doubts.append(str(error))
            return None

    def _conditions(self, value: object) -> Iterable[Condition]:
        if not isinstance(value, dict) or not all(isinstance(v, dict) for v in value.values()):
            self.doubts.append("a Condition has operators, each with keys")
            return
        for operator, keys in value.items():
            for key, values in keys.items():
                try:
                    yield compile_condition(
                        operator,
                        key,
                        _scalar_texts(values),
                        variables=self._variables,
                        doubt=self._doubt,
                    )
                except MalformedPatternError as error:
                    self.doubts.append(str(error))


def _cannot_tell(_text: str, _keys: Keys) -> None:
    return None


def _action_test(text: str) -> Test:
    """An action in any case, with wildcards behind the name of the service."""
    if not _is_action(text):
        raise MalformedPatternError(f"{text!r} is no action")
    return text_test(read_parts(text.lower(), wildcards=True, variables=False))


def _scalar_texts(value: object) -> list[str]:
    """The values of a condition as texts: numbers and truth values may stand for themselves."""
    values: Sequence[object] = value if isinstance(value, list) else [value]
    texts: list[str] = []
    for scalar in values:
        if isinstance(scalar, bool):
            texts.append("true" if scalar else "false")
        elif isinstance(scalar, str | int | float):
            texts.append(str(scalar))
        else:
            raise MalformedPatternError("a condition's value is a text, a number or a truth value")
    return texts


def _read_principals(value: object) -> Principals:
    if value == "*":
        return Principals(everybody=True)
    if not isinstance(value, dict) or not value or not value.keys() <= PRINCIPAL_KINDS:
        raise MalformedPatternError("a principal is * or has a kind")
    named = {kind: texts_of(names) for kind, names in value.items()}
    if not all(named.values()):
        raise MalformedPatternError("principals are a text or a list of texts")
    aws = [without_partition(name) for name in named.get("AWS", [])]
    others = [name for name in aws if name != "*"]
    others += [name for kind, names in named.items() if kind != "AWS" for name in names]
    for name in others:
        if "*" in name or "?" in name:
            raise MalformedPatternError(f"the principal {name!r} is a pattern")
    roots = {name: _root(name) for name in aws}
    accounts = {root[1] for root in roots.values() if root is not None}
    accounts |= {name for name in aws if is_account(name)}
    return Principals(
        "*" in aws,
        frozenset(accounts),
        frozenset(name for name in aws if roots[name] is None),
        frozenset(named.get("Service", ())),
    )
