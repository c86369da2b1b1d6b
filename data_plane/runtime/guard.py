"""What stands before a dependency: its circuit breaker, and what is counted of its calls.

A guard belongs to one use of one dependency (messages in a table, definitions in the same table,
bodies in a bucket), as its pool of threads does. So one that is slow holds up nobody else.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from data_plane.core.circuit_breaker import (
    DEFAULT_RULES,
    BreakerRules,
    CircuitBreaker,
    CircuitState,
    Permit,
)
from data_plane.ports import (
    CellFullError,
    CellThrottledError,
    CellUnavailableError,
    Clock,
    DeadlinePassedError,
    MasterKeysError,
    Offload,
)

T = TypeVar("T")

OnChange = Callable[[str, CircuitState], object]
"""Called with the guard's name and its breaker's new state."""

_ANSWERS: Final = (CellFullError, CellThrottledError, MasterKeysError)
"""Refusals of a dependency that is well: they concern what was asked for, not the next call."""


class CircuitOpenError(CellUnavailableError):
    """The dependency has failed and is left alone for a moment: nothing was sent."""


@dataclass(slots=True)
class GuardCounters:
    """What became of calls since the start; `in_flight` are under way now."""

    in_flight: int = 0
    failed: int = 0
    rejected: int = 0
    opened: int = 0


def _tell_nobody(_name: str, _state: CircuitState) -> None:
    pass


class Guard:
    """Lets calls to a dependency pass, or refuses them while it is known to fail.

    Belongs to one event loop or driver.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        on_change: OnChange = _tell_nobody,
        rules: BreakerRules = DEFAULT_RULES,
    ) -> None:
        self.name = name
        self.counters = GuardCounters()
        self._clock = clock
        self._on_change = on_change
        self._breaker = CircuitBreaker(rules)
        self._known = self._breaker.state

    @property
    def state(self) -> CircuitState:
        """Of its circuit breaker."""
        return self._breaker.state

    @property
    def is_open(self) -> bool:
        """Whether `admit` would refuse a call; asking counts as none."""
        return self._breaker.is_open(self._clock.now_us())

    def check(self) -> None:
        """Raise CircuitOpenError where `admit` would: to be asked before one waits for a place."""
        if self.is_open:
            raise self._rejected()

    def admit(self) -> Permit:
        """Leave for one call, which `ended` gives back. Raises CircuitOpenError."""
        permit = self._breaker.admit(self._clock.now_us())
        self._tell()
        if permit is None:
            raise self._rejected()
        self.counters.in_flight += 1
        return permit

    def ended(self, permit: Permit, error: BaseException | None) -> bool | None:
        """The call has ended, with this error if any; whether the dependency failed.

        None: one cannot tell.
        """
        self.counters.in_flight -= 1
        failed = _verdict(error)
        self.counters.failed += failed is True
        self._breaker.ended(permit, self._clock.now_us(), failed=failed)
        self._tell()
        return failed

    def gauges(self) -> dict[str, float]:
        """Metrics, by name."""
        counters = self.counters
        return {
            "circuit_state": float(self._breaker.state),
            "circuit_opened_total": counters.opened,
            "calls_in_flight": counters.in_flight,
            "failed_calls_total": counters.failed,
            "rejected_calls_total": counters.rejected,
        }

    def _rejected(self) -> CircuitOpenError:
        self.counters.rejected += 1
        return CircuitOpenError(f"{self.name} has failed and is left alone for a moment")

    def _tell(self) -> None:
        state = self._breaker.state
        if state is not self._known:
            self._known = state
            self.counters.opened += state is CircuitState.OPEN
            self._on_change(self.name, state)


class GuardedOffload:
    """The port Offload behind a guard, for drivers that bound their threads themselves."""

    def __init__(self, offload: Offload, guard: Guard) -> None:
        self._offload = offload
        self._guard = guard

    async def __call__(self, call: Callable[[], T]) -> T:
        """Answer what `call` returns, or raise what it raises. Raises CircuitOpenError."""
        permit = self._guard.admit()
        error: BaseException | None = None
        try:
            return await self._offload(call)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._guard.ended(permit, error)


def _verdict(error: BaseException | None) -> bool | None:
    """Whether the dependency failed; None: one cannot tell."""
    if error is None or isinstance(error, _ANSWERS):
        return False
    if isinstance(error, DeadlinePassedError):
        return None
    return True if isinstance(error, CellUnavailableError) else None
