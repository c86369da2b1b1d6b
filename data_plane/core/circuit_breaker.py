"""A circuit breaker: whether a dependency that fails is left alone for a moment.

Closed, calls pass, and their outcomes are noted. Where at least half of the last ones failed, it
opens: nothing is sent for a while, so that callers learn at once what they would have waited for,
and the dependency can come back. Then, half-open, a few probes pass. If all of them succeed it
closes; one that fails opens it again. An outcome counts only in the state that let its call pass:
what hung through an outage says nothing of the time after it.

Own code, since the breakers that one can install (circuitbreaker, pybreaker, purgatory, aiobreaker)
read clocks of their own, which neither a simulator nor a test can turn, and count failures in a
row, of which a dependency that fails half the time has few.
"""

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple


class CircuitState(IntEnum):
    """What a breaker does with calls; the numbers are those of the metric."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """When a breaker opens, and how it closes.

    It looks at the last `outcomes_max` outcomes of the last `age_us_max`. It opens where failures
    weigh `weight_min` or more, and as much as the successes. A failure weighs one, or `slow_weight`
    for each `slow_us` that it took (rounded): whoever waits for an answer that does not come holds
    a place that others need, and may have waited for several. It stays open for `open_us`; then
    `probes` must succeed.
    """

    outcomes_max: int = 20
    age_us_max: int = 60_000_000
    weight_min: int = 10
    slow_us: int = 2_000_000
    slow_weight: int = 3
    open_us: int = 1_000_000
    probes: int = 3


DEFAULT_RULES: Final = BreakerRules()


class Permit(NamedTuple):
    """Leave to make one call: since when, and in which state of the breaker (by number)."""

    epoch: int
    started_us: int


class CircuitBreaker:
    """The breaker of one dependency. Time is microseconds of whatever clock the caller has.

    A clock that jumps opens nothing; it may end an open state early, or prolong it by `open_us`.
    """

    __slots__ = ("_epoch", "_opened_us", "_outcomes", "_passed", "_probing", "_rules", "state")

    def __init__(self, rules: BreakerRules = DEFAULT_RULES) -> None:
        self.state = CircuitState.CLOSED
        self._rules = rules
        self._epoch = 0
        self._opened_us = 0
        self._outcomes: deque[tuple[int, int]] = deque(maxlen=rules.outcomes_max)
        """When a call ended and what its failure weighs; 0: it succeeded."""
        self._probing = 0
        self._passed = 0

    def is_open(self, now_us: int) -> bool:
        """Whether a call would be refused; nothing is changed by asking."""
        if self.state is CircuitState.CLOSED:
            return False
        if self.state is CircuitState.OPEN:
            return self._opened_us <= now_us < self._opened_us + self._rules.open_us
        return self._probing + self._passed >= self._rules.probes

    def admit(self, now_us: int) -> Permit | None:
        """Leave to call now, which has to be answered by `ended`; None: the call is refused."""
        if self.state is not CircuitState.CLOSED:
            if self.is_open(now_us):
                return None
            if self.state is CircuitState.OPEN:
                self._become(CircuitState.HALF_OPEN)
            self._probing += 1
        return Permit(self._epoch, now_us)

    def ended(self, permit: Permit, now_us: int, *, failed: bool | None) -> None:
        """The call has ended; None: in a way that says nothing about the dependency."""
        if permit.epoch != self._epoch:
            return
        if self.state is CircuitState.HALF_OPEN:
            self._probing -= 1
            if failed:
                self._open(now_us)
            elif failed is False:
                self._passed += 1
                if self._passed >= self._rules.probes:
                    self._become(CircuitState.CLOSED)
        elif failed is not None:
            weight = self._weight(now_us - permit.started_us) if failed else 0
            self._outcomes.append((now_us, weight))
            if failed and self._fails(now_us):
                self._open(now_us)

    def _weight(self, took_us: int) -> int:
        slow_us = self._rules.slow_us
        return max(1, self._rules.slow_weight * ((took_us + slow_us // 2) // slow_us))

    def _fails(self, now_us: int) -> bool:
        oldest_us = now_us - self._rules.age_us_max
        recent = [weight for ended_us, weight in self._outcomes if ended_us >= oldest_us]
        weight = sum(recent)
        return weight >= self._rules.weight_min and weight >= recent.count(0)

    def _open(self, now_us: int) -> None:
        self._opened_us = now_us
        self._become(CircuitState.OPEN)

    def _become(self, state: CircuitState) -> None:
        self.state = state
        self._epoch += 1
        self._probing = self._passed = 0
        self._outcomes.clear()
