"""A bounded cache of what the registry's cell says: fresh, or as known last while it is away."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from data_plane.ports import CellUnavailableError, Clock

T = TypeVar("T")

REFRESH_AFTER_US: Final = 4_000_000
FRESH_US_MAX: Final = 5_000_000
"""No answer is older while the cell answers."""
LAST_KNOWN_US_MAX: Final = 600_000_000
"""For how long an answer still serves while the cell does not answer."""
ABSENT_US: Final = 1_000_000
"""For how long what is absent counts as absent without another look."""
ABSENT_MAX: Final = 10_000


@dataclass(slots=True)
class _Known(Generic[T]):
    value: T
    asked_us: int
    refresh_us: int
    refreshing: bool = False


class LastKnown(Generic[T]):
    """Answers `read` by name, from memory where it may. Up to `names_max` are remembered.

    Ages count from before the read, so that an answer is no older than it seems. What is absent
    (None) is remembered apart, so that asking for much that is not there drives nothing out.
    """

    def __init__(
        self, read: Callable[[str], Awaitable[T | None]], clock: Clock, names_max: int
    ) -> None:
        self._read = read
        self._clock = clock
        self._names_max = names_max
        self._known: dict[str, _Known[T]] = {}
        self._absent_until_us: dict[str, int] = {}
        self._changes = 0

    async def find(self, name: str) -> T | None:
        """The value, or None where there is none. Raises CellUnavailableError, and as `read`."""
        now_us = self._clock.now_us()
        known = self._known.get(name)
        if known is not None and known.asked_us <= now_us < known.refresh_us:
            return known.value
        if known is None and now_us < self._absent_until_us.get(name, 0) <= now_us + ABSENT_US:
            return None
        return await self._reload(name, known, now_us)

    def changed(self, name: str) -> None:
        """Forget the name: this process has changed what it stands for.

        A read that began before does not bring the old value back.
        """
        self._changes += 1
        self._known.pop(name, None)
        self._absent_until_us.pop(name, None)

    async def _reload(self, name: str, known: _Known[T] | None, now_us: int) -> T | None:
        age_us = LAST_KNOWN_US_MAX
        if known is not None and known.asked_us <= now_us:  # else the clock was set back
            age_us = now_us - known.asked_us
            if known.refreshing and age_us < FRESH_US_MAX:
                return known.value
            known.refreshing = True
        changes = self._changes
        try:
            value = await self._read(name)
        except CellUnavailableError:
            if known is not None and age_us < LAST_KNOWN_US_MAX and changes == self._changes:
                return known.value
            raise
        finally:
            if known is not None:
                known.refreshing = False
        if changes == self._changes:
            self._remember(name, value, now_us)
        return value

    def _remember(self, name: str, value: T | None, asked_us: int) -> None:
        """An entry in use is inserted anew with each refresh: the first one is the least used."""
        self._known.pop(name, None)
        self._absent_until_us.pop(name, None)
        if value is None:
            if len(self._absent_until_us) >= ABSENT_MAX:
                del self._absent_until_us[next(iter(self._absent_until_us))]
            self._absent_until_us[name] = asked_us + ABSENT_US
        else:
            if len(self._known) >= self._names_max:
                del self._known[next(iter(self._known))]
            self._known[name] = _Known(value, asked_us, asked_us + REFRESH_AFTER_US)
