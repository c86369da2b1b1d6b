"""Compare the fast evaluator of policies with the slow one: `python -m` this, how many, first seed.

Prints the pairs on which they differ.
"""

import sys
from collections import Counter
from collections.abc import Iterator

from data_plane.core.caller import Caller
from data_plane.policy.evaluate import Decision, Request, decide
from data_plane.policy.language import Kind, compile_policy
from tests.property.random_policies import Pair, random_pair
from tests.property.slow_policies import slow_decision


def fast_decision(pair: Pair) -> str:
    """What the fast evaluator says, in the slow one's words."""
    asked = pair.asked
    keys = {key.lower(): tuple(values) for key, values in asked.keys.items()}
    caller = Caller(asked.account, asked.user, asked.service)
    request = Request(caller, asked.action.lower(), asked.resource, asked.owner, keys)
    return said(
        decide(
            request,
            [compile_policy(text, Kind.IDENTITY) for text in pair.identity],
            None if pair.resource is None else compile_policy(pair.resource, Kind.RESOURCE),
        )
    )


def said(decision: Decision) -> str:
    if decision.allowed:
        return "allowed"
    return "denied" if decision.explicit else "not allowed"


def differences(seeds: range, tally: Counter[str] | None = None) -> Iterator[tuple[int, str, str]]:
    """Seeds on which the two differ, with what the fast and the slow one say."""
    for seed in seeds:
        pair = random_pair(seed)
        fast = fast_decision(pair)
        slow = slow_decision(pair.identity, pair.resource, pair.asked)
        if tally is not None:
            tally[slow] += 1
        if fast != slow:
            yield seed, fast, slow


def main(count: int, first: int = 0) -> int:
    """Compare so many pairs; 1 if they differ anywhere."""
    tally: Counter[str] = Counter()
    found = list(differences(range(first, first + count), tally))
    for seed, fast, slow in found[:20]:
        print(f"seed {seed}: fast {fast}, slow {slow}: {random_pair(seed)}")
    print(f"{count} pairs, {len(found)} differ; {dict(tally)}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main(*map(int, sys.argv[1:])))
