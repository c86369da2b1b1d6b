"""The Condition element: operators, set operators, and what a missing key means.

What cannot be told is decided by doubt: an operator, key or value that is unknown here, a request's
value that the operator cannot read, a variable without a value. Doubt never allows and always
denies, so it counts as true in a Deny and as false in an Allow. Source: IAM user guide, "Condition
operators", "Set operators for multivalued context keys", "Global condition context keys".
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from data_plane.policy.dates import read_date
from data_plane.policy.patterns import (
    Keys,
    MalformedPatternError,
    Part,
    Test,
    arn_test,
    folded_test,
    read_parts,
    text_test,
    variables_of,
)

KNOWN_KEYS: Final = frozenset(
    {
        "aws:assumedroot",
        "aws:calledvia",
        "aws:calledviafirst",
        "aws:calledvialast",
        "aws:chatbotsourcearn",
        "aws:currenttime",
        "aws:ec2instancesourceprivateipv4",
        "aws:ec2instancesourcevpc",
        "aws:epochtime",
        "aws:federatedprovider",
        "aws:multifactorauthage",
        "aws:multifactorauthpresent",
        "aws:principalaccount",
        "aws:principalarn",
        "aws:principalisawsservice",
        "aws:principalorgid",
        "aws:principalorgpaths",
        "aws:principalservicename",
        "aws:principalservicenameslist",
        "aws:principaltype",
        "aws:referer",
        "aws:requestedregion",
        "aws:resourceaccount",
        "aws:resourceorgid",
        "aws:resourceorgpaths",
        "aws:securetransport",
        "aws:sourceaccount",
        "aws:sourcearn",
        "aws:sourceidentity",
        "aws:sourceip",
        "aws:sourceorgid",
        "aws:sourceorgpaths",
        "aws:sourcevpc",
        "aws:sourcevpcarn",
        "aws:sourcevpce",
        "aws:tagkeys",
        "aws:tokenissuetime",
        "aws:useragent",
        "aws:userid",
        "aws:username",
        "aws:viaawsservice",
        "aws:vpceaccount",
        "aws:vpceorgid",
        "aws:vpceorgpaths",
        "aws:vpcsourceip",
    }
)
"""AWS's global keys. Those that nothing is known of here are absent from every request."""

_TAG_PREFIXES: Final = ("aws:principaltag/", "aws:requesttag/", "aws:resourcetag/")
_ADDRESSES_REMEMBERED_MAX: Final = 1024

_number: Final = re.compile(r"[+-]?\d{1,30}(?:\.\d{1,30})?").fullmatch

Condition = Callable[[Keys], bool]
"""Whether a request meets one line of a Condition element."""

_Network = IPv4Network | IPv6Network


def is_known_key(key: str) -> bool:
    """Whether a condition key, in lower case, is one of AWS's."""
    return key in KNOWN_KEYS or any(
        key.startswith(prefix) and len(key) > len(prefix) for prefix in _TAG_PREFIXES
    )


# Operators: from a policy's value to a test of a request's value


def _of_parts(
    make: Callable[[Sequence[Part]], Test], *, wildcards: bool
) -> Callable[[str, bool], Test]:
    """An operator on texts, which may have variables."""

    def read(value: str, variables: bool) -> Test:  # noqa: FBT001 - all operators are called so
        parts = read_parts(value, wildcards=wildcards, variables=variables)
        if not all(map(is_known_key, variables_of(parts))):
            raise MalformedPatternError(f"{value!r} names an unknown key")
        return make(parts)

    return read


def _ordered(
    read: Callable[[str], Decimal | int | None], holds: Callable[[int], bool]
) -> Callable[[str, bool], Test]:
    """An operator on numbers or dates; `holds` gets -1, 0 or 1: the request's side is less, ..."""

    def operator(value: str, _variables: bool) -> Test:  # noqa: FBT001 - as above
        bound = read(value)
        if bound is None:
            raise _unreadable(value)

        def test(given: str, _keys: Keys) -> bool | None:
            number = read(given)
            return None if number is None else holds((number > bound) - (number < bound))

        return test

    return operator


def _read_number(text: str) -> Decimal | None:
    return Decimal(text) if _number(text) and text.isascii() else None


def _unreadable(text: str) -> MalformedPatternError:
    return MalformedPatternError(f"{text!r} is not of the operator's type")


def _bool(value: str, _variables: bool) -> Test:  # noqa: FBT001 - as above
    wanted = _read_bool(value)
    if wanted is None:
        raise _unreadable(value)

    def test(given: str, _keys: Keys) -> bool | None:
        said = _read_bool(given)
        return None if said is None else said == wanted

    return test


def _read_bool(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _binary(value: str, _variables: bool) -> Test:  # noqa: FBT001 - as above
    wanted = _read_base64(value)
    if wanted is None:
        raise _unreadable(value)

    def test(given: str, _keys: Keys) -> bool | None:
        data = _read_base64(given)
        return None if data is None else data == wanted

    return test


def _read_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None


def _ip_address(value: str, _variables: bool) -> Test:  # noqa: FBT001 - as above
    network = _read_network(value)
    if network is None:
        raise _unreadable(value)

    def test(given: str, _keys: Keys) -> bool | None:
        address = _read_address(given)
        return None if address is None else address in network

    return test


def _read_network(text: str) -> _Network | None:
    """An address or a network with the length of its prefix; netmasks are not the language's."""
    _, slash, length = text.partition("/")
    if slash and not (length.isascii() and length.isdecimal()):
        return None
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


@lru_cache(maxsize=_ADDRESSES_REMEMBERED_MAX)
def _read_address(text: str) -> IPv4Address | IPv6Address | None:
    """An address; one of IPv4 that is written as IPv6 is one of IPv4."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


_OPERATORS: Final[Mapping[str, Callable[[str, bool], Test]]] = {
    "StringEquals": _of_parts(text_test, wildcards=False),
    "StringEqualsIgnoreCase": _of_parts(folded_test, wildcards=False),
    "StringLike": _of_parts(text_test, wildcards=True),
    "ArnEquals": _of_parts(arn_test, wildcards=True),
    "ArnLike": _of_parts(arn_test, wildcards=True),
    "NumericEquals": _ordered(_read_number, lambda order: order == 0),
    "NumericLessThan": _ordered(_read_number, lambda order: order < 0),
    "NumericLessThanEquals": _ordered(_read_number, lambda order: order <= 0),
    "NumericGreaterThan": _ordered(_read_number, lambda order: order > 0),
    "NumericGreaterThanEquals": _ordered(_read_number, lambda order: order >= 0),
    "DateEquals": _ordered(read_date, lambda order: order == 0),
    "DateLessThan": _ordered(read_date, lambda order: order < 0),
    "DateLessThanEquals": _ordered(read_date, lambda order: order <= 0),
    "DateGreaterThan": _ordered(read_date, lambda order: order > 0),
    "DateGreaterThanEquals": _ordered(read_date, lambda order: order >= 0),
    "Bool": _bool,
    "BinaryEquals": _binary,
    "IpAddress": _ip_address,
}
_NEGATED: Final[Mapping[str, str]] = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NumericNotEquals": "NumericEquals",
    "DateNotEquals": "DateEquals",
    "NotIpAddress": "IpAddress",
}
_NULL: Final = "Null"
_ANY: Final = "ForAnyValue"
_ALL: Final = "ForAllValues"
_IF_EXISTS: Final = "IfExists"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator's name, read: `reads` is the positive one, `over` the set operator or ""."""

    reads: Callable[[str, bool], Test]
    negated: bool
    over: str
    if_exists: bool


def read_operator(name: str) -> Operator | None:
    """The operator of this name but Null, or None where there is none."""
    over, colon, rest = name.rpartition(":")
    if colon and over not in (_ANY, _ALL):
        return None
    plain = rest.removesuffix(_IF_EXISTS)
    positive = _NEGATED.get(plain, plain)
    if positive not in _OPERATORS:
        return None
    return Operator(_OPERATORS[positive], plain in _NEGATED, over, plain != rest)


def compile_condition(
    name: str, key: str, values: Sequence[str], *, variables: bool, doubt: bool
) -> Condition:
    """One operator with one key and its values, of which one suffices (none: for Not...).

    `doubt` is what counts where nobody can tell. Raises MalformedPatternError for an operator, a
    key or a value that is none: then the condition itself is in doubt.
    """
    key = key.lower()
    if not is_known_key(key):
        raise MalformedPatternError(f"the key {key!r} is unknown")
    if not values:
        raise MalformedPatternError(f"{name} has no values")
    if name == _NULL:
        return _null(key, values)
    operator = read_operator(name)
    if operator is None:
        raise MalformedPatternError(f"the operator {name!r} is unknown")
    tests = [operator.reads(value, variables) for value in values]
    return _condition(key, operator, tests, doubt=doubt)


def _null(key: str, values: Sequence[str]) -> Condition:
    wanted = {_read_bool(value) for value in values}
    if None in wanted:
        raise MalformedPatternError(f"{_NULL} is true or false")
    return lambda keys: (not keys.get(key, ())) in wanted


def _condition(key: str, operator: Operator, tests: Sequence[Test], *, doubt: bool) -> Condition:
    negated, over = operator.negated, operator.over
    unsure = doubt != negated  # of a single test; `negated` turns it round once more
    missing = operator.if_exists or over == _ALL or (negated and over != _ANY)

    def holds(value: str, keys: Keys) -> bool:
        for test in tests:
            matched = test(value, keys)
            if unsure if matched is None else matched:
                return not negated
        return negated

    def condition(keys: Keys) -> bool:
        values = keys.get(key, ())
        if not values:
            return missing
        if over == _ANY:
            return any(holds(value, keys) for value in values)
        if over == _ALL:
            return all(holds(value, keys) for value in values)
        return holds(values[0], keys) if len(values) == 1 else doubt

    return condition
