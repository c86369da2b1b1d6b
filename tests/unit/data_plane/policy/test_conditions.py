import pytest

from data_plane.policy.conditions import compile_condition
from data_plane.policy.patterns import MalformedPatternError

KEY = "aws:UserAgent"


def holds(
    operator: str,
    policy: str | list[str],
    request: str | list[str] | None,
    *,
    doubt: bool = False,
    **keys: str,
) -> bool:
    values = [policy] if isinstance(policy, str) else policy
    condition = compile_condition(operator, KEY, values, variables=True, doubt=doubt)
    known: dict[str, tuple[str, ...]] = {f"aws:{name}": (value,) for name, value in keys.items()}
    if request is not None:
        known[KEY.lower()] = (request,) if isinstance(request, str) else tuple(request)
    return condition(known)


MATCHING = [
    ("StringEquals", "a", "a", "A"),
    ("StringEquals", "a*", "a*", "ab"),
    ("StringEqualsIgnoreCase", "Straße", "STRASSE", "Strase"),
    ("StringLike", "a*c?e", "abcde", "abce"),
    ("StringLike", "a*b*a", "a-b-a", "a-a-b"),
    ("StringLike", "", "", "a"),
    ("NumericEquals", "12", "12.0", "12.1"),
    ("NumericLessThan", "12.5", "-13", "12.5"),
    ("NumericLessThanEquals", "12.5", "12.5", "12.51"),
    ("NumericGreaterThan", "0", "+1", "0"),
    ("NumericGreaterThanEquals", "0", "0", "-0.1"),
    ("DateEquals", "2026-11-21T12:00:00Z", "1795262400", "1795262401"),
    ("DateLessThan", "2026-11-21", "2026-11-20T23:59:59Z", "2026-11-21T00:00:00Z"),
    ("DateLessThanEquals", "2026-11-21", "2026-11-21T00:00Z", "2026-11-21T00:00:01Z"),
    ("DateGreaterThan", "2026-11-21T13:00:00+01:00", "1795262401", "1795262400"),
    ("DateGreaterThanEquals", "1795262400", "2026-11-21T12:00:00Z", "2026-11-21T11:59:59.9Z"),
    ("Bool", "TRUE", "true", "false"),
    ("BinaryEquals", "YWJj", "YWJj", "YWJk"),
    ("IpAddress", "10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
    ("IpAddress", "10.0.0.0/8", "::ffff:10.1.1.1", "2001:db8::1"),
    ("IpAddress", "2001:db8::/32", "2001:db8::1", "10.1.1.1"),
    ("IpAddress", "192.0.2.7", "192.0.2.7", "192.0.2.8"),
    ("ArnLike", "arn:aws:sns:*:1:t?pic", "arn:aws:sns:eu:1:topic", "arn:aws:sns:eu:2:topic"),
    ("ArnEquals", "arn:aws:s3:*:*:b", "arn:aws:s3:::b", "arn:aws:s3:::b:c"),
    ("ArnLike", "arn:aws:sns:*:x:*", "arn:aws:sns:a:x:y", "arn:aws:sns:a:b:x:y"),
]
NEGATED = {
    "StringEquals": "StringNotEquals",
    "StringEqualsIgnoreCase": "StringNotEqualsIgnoreCase",
    "StringLike": "StringNotLike",
    "NumericEquals": "NumericNotEquals",
    "DateEquals": "DateNotEquals",
    "IpAddress": "NotIpAddress",
    "ArnLike": "ArnNotLike",
    "ArnEquals": "ArnNotEquals",
}


@pytest.mark.parametrize(("operator", "policy", "matching", "other"), MATCHING)
def test_an_operator_and_its_negation(
    operator: str, policy: str, matching: str, other: str
) -> None:
    assert holds(operator, policy, matching)
    assert not holds(operator, policy, other)
    assert holds(operator, [policy, policy], matching)
    if operator in NEGATED:
        assert not holds(NEGATED[operator], policy, matching)
        assert holds(NEGATED[operator], policy, other)


@pytest.mark.parametrize("operator", [*NEGATED, "Bool", "BinaryEquals", "DateLessThan"])
def test_a_missing_key(operator: str) -> None:
    policy = next(policy for name, policy, *_ in MATCHING if name == operator)
    nothing: list[list[str] | None] = [None, []]
    for request in nothing:
        assert not holds(operator, policy, request)
        assert holds(f"{operator}IfExists", policy, request)
        assert not holds(f"ForAnyValue:{operator}", policy, request)
        assert holds(f"ForAllValues:{operator}", policy, request)
        assert holds(f"ForAnyValue:{operator}IfExists", policy, request)
        if operator in NEGATED:
            assert holds(NEGATED[operator], policy, request)
            assert not holds(f"ForAnyValue:{NEGATED[operator]}", policy, request)


def test_the_existence_of_a_key() -> None:
    assert holds("Null", "true", None)
    assert holds("Null", "true", [])
    assert not holds("Null", "true", "a")
    assert holds("Null", "false", "a")
    assert not holds("Null", "false", None)


def test_one_of_several_values_suffices_and_none_for_not() -> None:
    assert holds("StringEquals", ["a", "b"], "b")
    assert not holds("StringNotEquals", ["a", "b"], "b")
    assert holds("StringNotEquals", ["a", "b"], "c")


def test_sets_of_values() -> None:
    assert holds("ForAnyValue:StringEquals", ["a", "b"], ["b", "x"])
    assert not holds("ForAnyValue:StringEquals", ["a", "b"], ["x", "y"])
    assert holds("ForAllValues:StringEquals", ["a", "b"], ["b", "a"])
    assert not holds("ForAllValues:StringEquals", ["a", "b"], ["b", "x"])
    assert holds("ForAnyValue:StringNotEquals", ["a"], ["a", "x"])
    assert not holds("ForAllValues:StringNotEquals", ["a"], ["a", "x"])


@pytest.mark.parametrize("effect", ["Allow", "Deny"])
def test_doubt_decides_what_nobody_can_tell(effect: str) -> None:
    doubt = effect == "Deny"
    request: str | list[str]
    for operator, policy, request in (
        ("StringEquals", "a", ["a", "b"]),  # several values without a set operator
        ("NumericLessThan", "5", "five"),
        ("NumericNotEquals", "5", "five"),
        ("DateLessThan", "2026-11-21", "soon"),
        ("IpAddress", "10.0.0.0/8", "nowhere"),
        ("NotIpAddress", "10.0.0.0/8", "nowhere"),
        ("ArnLike", "arn:aws:sns:*:*:*", "topic"),
        ("ArnNotLike", "arn:aws:sns:*:*:*", "topic"),
        ("Bool", "true", "perhaps"),
        ("StringEquals", "${aws:username}", "a"),
        ("StringNotEquals", "${aws:username}", "a"),
        ("BinaryEquals", "YWJj", "#"),
    ):
        assert holds(operator, policy, request, doubt=doubt) == doubt, operator


def test_variables() -> None:
    assert holds(
        "StringEquals", "${aws:username}-${aws:UserID}", "al*ce-7", username="al*ce", userid="7"
    )
    # A value is no pattern.
    assert not holds("StringLike", "${aws:username}", "alice", username="al*ce")
    assert holds("StringLike", "${AWS:UserName}*", "al*ce!", username="al*ce")
    assert holds("StringEqualsIgnoreCase", "${aws:username}", "ALICE", username="Alice")
    assert holds("StringEquals", "${aws:PrincipalTag/team, 'red'}", "red")
    assert holds("StringEquals", "${$}{x}${*}${?}", "${x}*?")
    arn = "arn:aws:iam::${aws:PrincipalAccount}:user/${aws:username}"
    for account, same in (("1", True), ("2", False)):
        given = f"arn:aws:iam::{account}:user/alice"
        assert holds("ArnEquals", arn, given, principalaccount="1", username="alice") == same


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("stringequals", ["a"]),
        ("StringEqual", ["a"]),
        ("BoolNotEquals", ["true"]),
        ("NullIfExists", ["true"]),
        ("ForAnyValue:Null", ["true"]),
        ("ForSomeValue:StringEquals", ["a"]),
        (":StringEquals", ["a"]),
        ("ForAnyValue:ForAnyValue:StringEquals", ["a"]),
        ("StringEqualsIfExistsIfExists", ["a"]),
        ("", ["a"]),
        ("StringEquals", []),
        ("StringEquals", ["${aws:Nonsense}"]),
        ("StringEquals", ["${}"]),
        ("NumericEquals", ["five"]),
        ("NumericEquals", ["1e5"]),
        ("NumericEquals", ["٣"]),
        ("DateLessThan", ["tomorrow"]),
        ("DateLessThan", ["2026-11-21T12:00:00"]),
        ("DateLessThan", ["2026-02-29"]),
        ("IpAddress", ["10.0.0.0/33"]),
        ("IpAddress", ["*"]),
        ("IpAddress", ["10.0.0.0/255.0.0.0"]),
        ("IpAddress", ["10.0.0.0/"]),
        ("Bool", ["yes"]),
        ("Null", ["maybe"]),
        ("ArnLike", ["*"]),
        ("ArnLike", ["arn:aws:sns:*"]),
        ("BinaryEquals", ["#"]),
    ],
)
def test_what_is_malformed_is_told(operator: str, values: list[str]) -> None:
    with pytest.raises(MalformedPatternError):
        holds(operator, values, "a")


@pytest.mark.parametrize("key", ["", "aws:", "sqs:Queue", "aws:SourceIpp", "aws:ResourceTag/"])
def test_a_key_that_nobody_knows_is_told(key: str) -> None:
    with pytest.raises(MalformedPatternError):
        compile_condition("StringEquals", key, ["a"], variables=True, doubt=True)


def test_a_pattern_cannot_be_made_slow() -> None:
    pattern = "*a" * 500 + "b"
    assert not holds("StringLike", pattern, "a" * 20_000)
