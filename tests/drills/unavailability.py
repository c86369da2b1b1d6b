"""For how long nobody was served: of calls, when they were asked and answered. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

P50, P99 = 0.5, 0.99
BOUND_S: Final = 5.0
"""How long the queues of a cell that is lost may not be served, in 99 of 100 cases: the aim."""


class Call(NamedTuple):
    """A call of this kind, from its first attempt until it was answered, or given up."""

    what: str
    began_s: float
    ended_s: float


def unavailable_s(calls: Iterable[Call], since_s: float, until_s: float) -> float:
    """The longest time in which calls of one kind waited and none of them was answered.

    Of the times that end between `since_s` and `until_s`. A queue that is sent to, but not received
    from, is not available: so the kinds count each by itself.
    """
    kinds: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        kinds[call.what].append(call)
    return max((_longest_s(kind, since_s, until_s) for kind in kinds.values()), default=0.0)


def _longest_s(calls: Sequence[Call], since_s: float, until_s: float) -> float:
    longest_s, waiting_since_s, answered_s = 0.0, math.inf, math.inf
    for call in sorted(calls, key=lambda call: call.ended_s, reverse=True):
        # From the last answer back to the one before: what waits was asked before or after that.
        if since_s <= answered_s <= until_s:
            began_s = max(call.ended_s, waiting_since_s)
            longest_s = max(longest_s, answered_s - began_s)
        answered_s, waiting_since_s = call.ended_s, min(waiting_since_s, call.began_s)
    if since_s <= answered_s <= until_s:
        longest_s = max(longest_s, answered_s - waiting_since_s)
    return longest_s


def longest_call_s(calls: Iterable[Call], since_s: float, until_s: float) -> float:
    """The longest that one call waited, of those that ended in this time."""
    took_s = (call.ended_s - call.began_s for call in calls if since_s <= call.ended_s <= until_s)
    return max(took_s, default=0.0)


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that so many of all do not exceed. Raises ValueError where there are none."""
    if not values:
        raise ValueError("a percentile of nothing")
    return sorted(values)[math.ceil(share * len(values)) - 1]


def distribution(times_s: Sequence[float]) -> str:
    """Of some times: `0.4 s p50, 2.1 s p99, 2.2 s at most`."""
    p50, p99 = (percentile(times_s, share) for share in (P50, P99))
    return f"{p50:.1f} s p50, {p99:.1f} s p99, {max(times_s):.1f} s at most"


def verdict(times_s: Sequence[float]) -> str:
    """Whether 99 of 100 are within the bound."""
    return "met" if percentile(times_s, P99) <= BOUND_S else "MISSED"
