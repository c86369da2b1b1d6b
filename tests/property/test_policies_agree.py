"""The evaluator of policies says what the rules say: held to a slow one over random pairs.

`TIDEGATE_POLICY_PAIRS=1000000 pytest tests/property/test_policies_agree.py` compares more of them.
"""

import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from data_plane.policy import conditions, evaluate, language, patterns
from tests.property.policies_agree import differences, fast_decision
from tests.property.random_policies import Pair, random_pair

PAIRS = int(os.environ.get("TIDEGATE_POLICY_PAIRS", "8000"))
PARTS = 4
FOUND_WITHIN = 4_000
"""Half of the pairs show each planted mistake."""

FEW = 800


@pytest.mark.parametrize("part", range(PARTS))
def test_the_fast_and_the_slow_evaluator_agree(part: int) -> None:
    tally: Counter[str] = Counter()
    seeds = range(part * PAIRS // PARTS, (part + 1) * PAIRS // PARTS)
    assert list(differences(seeds, tally)) == []
    # Pairs that all end alike would show little.
    assert min(tally[said] for said in ("allowed", "denied", "not allowed")) > len(seeds) // 10


def _address(text: str) -> Any:
    try:
        return ip_address(text)
    except ValueError:
        return None


_named: Any = evaluate._named
_segment_expression: Any = patterns._segment_expression
MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "a deny does not win": (evaluate, "_denies", lambda _policy, _request: False),
    "the caller's policies always allow": (evaluate, "_allows", lambda _policy, _request: True),
    "owners can give all actions away": (evaluate, "_OWNER_ONLY", frozenset()),
    "an account stands for its users": (
        evaluate,
        "_named",
        lambda principals, caller: (
            evaluate.Naming.ITSELF
            if caller.account in principals.accounts
            else _named(principals, caller)
        ),
    ),
    "a user is excepted by its ARN alone": (
        evaluate,
        "_is_excepted",
        lambda principals, caller: caller.arn in principals.arns,
    ),
    "actions have a case": (
        language,
        "_action_test",
        lambda text: patterns.text_test(patterns.read_parts(text, wildcards=True, variables=False)),
    ),
    "old policies have variables": (language, "VERSIONS", ("2012-10-17", "2008-10-17")),
    "what is malformed does not match": (language, "_cannot_tell", lambda _text, _keys: False),
    "a set operator is none": (conditions, "_ALL", "-"),
    "a missing key never matches": (conditions, "_IF_EXISTS", "-"),
    "an address has one form": (conditions, "_read_address", _address),
    "a wildcard goes beyond its segment": (
        patterns,
        "_segment_expression",
        lambda segment, _any_one: _segment_expression(segment, "."),
    ),
}


@pytest.fixture
def no_policy_is_compiled() -> Iterator[None]:
    language.compile_policy.cache_clear()
    yield
    language.compile_policy.cache_clear()


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.usefixtures("no_policy_is_compiled")
def test_a_planted_mistake_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, attribute, planted = MUTANTS[name]
    monkeypatch.setattr(module, attribute, planted)
    assert next(differences(range(FOUND_WITHIN)), None) is not None


def edited(pair: Pair, edit: Callable[[list[Any]], list[Any]]) -> Pair | None:
    """The pair with the statements of its policies edited; None where one is no policy."""

    def changed(text: str) -> str:
        if text.count('"Statement"') != 1:
            raise ValueError("a policy that repeats a name")
        document = json.loads(text)
        statements = document["Statement"]
        listed = statements if isinstance(statements, list) else [statements]
        return json.dumps({**document, "Statement": edit(listed)})

    try:
        own = None if pair.resource is None else changed(pair.resource)
        return Pair([changed(text) for text in pair.identity], own, pair.asked)
    except (ValueError, TypeError, KeyError):
        return None


def pairs_before_and_after(edit: Callable[[list[Any]], list[Any]]) -> Iterator[tuple[str, str]]:
    for seed in range(FEW):
        pair = random_pair(seed)
        after = edited(pair, edit)
        if after is not None:
            yield fast_decision(pair), fast_decision(after)


def test_the_order_of_statements_does_not_matter() -> None:
    assert all(before == after for before, after in pairs_before_and_after(lambda s: s[::-1]))


def test_one_more_deny_allows_nothing_more() -> None:
    deny = {"Effect": "Deny", "Action": "sqs:*Message", "Resource": "*"}

    def add(statements: list[Any]) -> list[Any]:
        return [*statements, deny | ({"Principal": "*"} if "Principal" in str(statements) else {})]

    moves = Counter(pairs_before_and_after(add))
    assert moves["not allowed", "allowed"] == moves["denied", "allowed"] == 0
    assert moves["denied", "not allowed"] == 0
    assert moves["allowed", "denied"] > 10


@pytest.mark.parametrize(
    "unknown",
    [
        {"StringSounds": {"aws:username": "alice"}},
        {"StringEquals": {"aws:UserNam": "alice"}},
        {"IpAddress": {"aws:SourceIp": "everywhere"}},
        {"StringEquals": {"aws:username": []}},
    ],
    ids=["operator", "key", "value", "no value"],
)
def test_an_unknown_condition_never_allows_and_denies_as_if_it_held(unknown: Any) -> None:
    def add(statements: list[Any]) -> list[Any]:
        added = []
        for statement in statements:
            before = statement.get("Condition", {})
            more = {op: {**before.get(op, {}), **keys} for op, keys in unknown.items()}
            added.append({**statement, "Condition": {**before, **more}})
        return added

    for seed in range(FEW):
        pair = random_pair(seed)
        try:
            after = edited(pair, add)
        except (AttributeError, TypeError):
            continue  # a statement that is none
        if after is None:
            continue
        decision = fast_decision(after)
        if fast_decision(pair) == "denied":
            assert decision == "denied"
        own_root = not pair.asked.user and pair.asked.account == pair.asked.owner
        if pair.asked.service or not own_root:
            assert decision != "allowed"
