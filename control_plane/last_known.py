"""A bounded cache of what the registry's cell says: fresh, or as known last while it is away.

Away is also who does not answer in time: a read waits for PATIENCE_US at most where there is an
answer from before. While the cell is away, one read in AWAY_US tries whether it is back, and nobody
else waits.
"""

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from data_plane.core.deadline import deadline_at_most
from data_plane.ports import (
    CellUnavailableError,
    Clock,
    DamagedItemError,
    DeadlinePassedError,
)

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

REFRESH_AFTER_US: Final = 4_000_000
FRESH_US_MAX: Final = 5_000_000
"""No answer is older while the cell answers."""
LAST_KNOWN_US_MAX: Final = 600_000_000
"""For how long an answer still serves while the cell does not answer."""
PATIENCE_US: Final = 1_000_000
AWAY_US: Final = 1_000_000
ABSENT_US: Final = 1_000_000
"""For how long what is absent counts as absent without another look."""
ABSENT_MAX: Final = 10_000


class Seen(NamedTuple, Generic[T]):
    """What there is (None: nothing), as of `asked_us` or later."""

    value: T | None
    asked_us: int


class Asked(NamedTuple):
    """When the cell was asked, and after how many changes of this process."""

    changes: int
    asked_us: int


@dataclass(slots=True)
class _Known(Generic[T]):
    value: T
    asked_us: int
    refreshing: bool = False


class LastKnown(Generic[K, T]):
    """Answers `read` by name, from memory where it may. Up to `names_max` are remembered.

    Ages count from when the cell was asked, by whomever, so that an answer is no older than it
    seems. What is absent is remembered apart and for `absent_us`, so that asking for much that is
    not there drives nothing out. After `refresh_after_us` an answer is read anew.
    """

    def __init__(
        self,
        read: Callable[[K], Awaitable[Seen[T]]],
        clock: Clock,
        names_max: int,
        *,
        absent_us: int = ABSENT_US,
        refresh_after_us: int = REFRESH_AFTER_US,
    ) -> None:
        self._read = read
        self._clock = clock
        self._names_max = names_max
        self._absent_us = absent_us
        self._refresh_after_us = refresh_after_us
        self._known: dict[K, _Known[T]] = {}
        self._absent_until_us: dict[K, int] = {}
        self._changes = 0
        self._is_away = False
        self._try_again_us = 0
        self._is_trying = False

    async def find(self, name: K) -> T | None:
        """The value, or None where there is none. Raises CellUnavailableError, and as `read`."""
        now_us = self._clock.now_us()
        known = self._known.get(name)
        if known is None:
            if now_us < self._absent_until_us.get(name, 0) <= now_us + self._absent_us:
                return None
            return await self._load(name, now_us)
        age_us = now_us - known.asked_us
        if 0 <= age_us < self._refresh_after_us:
            return known.value
        if not 0 <= age_us < LAST_KNOWN_US_MAX:  # or the clock was set back
            return await self._load(name, now_us)
        if (known.refreshing and age_us < FRESH_US_MAX) or self._must_not_wait(now_us):
            return known.value
        return await self._refresh(name, known, now_us)

    def peek(self, name: K, now_us: int) -> T | None:
        """The value if it is known and fresh: `find` without awaiting anything."""
        known = self._known.get(name)
        fresh = known is not None and 0 <= now_us - known.asked_us < self._refresh_after_us
        return known.value if known is not None and fresh else None

    def names(self) -> list[K]:
        """Of what is known, as of whenever."""
        return list(self._known)

    def asking(self) -> Asked:
        """To be noted before the cell is asked for what may be `changed`, or `learnt`."""
        return Asked(self._changes, self._clock.now_us())

    def changed(self, name: K, value: T | None = None, asked: Asked | None = None) -> None:
        """This process has changed what the name stands for: to this, by what it `asked` for then.

        None: to be read anew. So is a value whose answer came after another change, or after a
        later look: what was seen then serves only while the cell is away. A read that began before
        does not bring the old value back.
        """
        known = self._known.get(name)
        is_alone = asked is not None and asked.changes == self._changes
        self._changes += 1
        self._absent_until_us.pop(name, None)
        if value is not None and asked is not None and is_alone:
            if known is None or known.asked_us <= asked.asked_us:
                self._remember(name, value, asked.asked_us)
            else:
                known.asked_us -= FRESH_US_MAX
        else:
            self._known.pop(name, None)

    def learnt(self, name: K, value: T, asked: Asked) -> None:
        """The cell was asked then, and said this; what came since goes first."""
        if self._is_last(name, asked):
            self.changed(name, value, asked)

    def _is_last(self, name: K, asked: Asked) -> bool:
        known = self._known.get(name)
        return asked.changes == self._changes and (
            known is None or known.asked_us <= asked.asked_us
        )

    async def _load(self, name: K, now_us: int) -> T | None:
        changes = self._changes
        seen = await self._read(name)
        self._is_away = False
        if changes == self._changes:
            self._remember(name, seen.value, min(seen.asked_us, now_us))
        return seen.value

    async def _refresh(self, name: K, known: _Known[T], now_us: int) -> T | None:
        known.refreshing = True
        tries_again = self._is_away
        if tries_again:
            self._is_trying = True
        try:
            with deadline_at_most(now_us + PATIENCE_US):
                return await self._load(name, now_us)
        except CellUnavailableError as error:
            failed_us = self._clock.now_us()
            # A request whose own time was over has not found out anything, and an item that is
            # damaged says nothing of others.
            says_nothing = isinstance(error, DamagedItemError | DeadlinePassedError)
            if not says_nothing or failed_us - now_us >= PATIENCE_US:
                self._is_away = True
                self._try_again_us = failed_us + AWAY_US
            held = self._known.get(name)
            if held is None:
                raise
            return held.value
        finally:
            known.refreshing = False
            if tries_again:
                self._is_trying = False

    def _must_not_wait(self, now_us: int) -> bool:
        """Whether the cell was away when it was asked last, and it is not this one's turn."""
        return self._is_away and (
            self._is_trying or now_us < self._try_again_us <= now_us + AWAY_US
        )

    def _remember(self, name: K, value: T | None, asked_us: int) -> None:
        """An entry in use is inserted anew with each refresh: the first one is the least used."""
        self._known.pop(name, None)
        self._absent_until_us.pop(name, None)
        if value is None:
            if len(self._absent_until_us) >= ABSENT_MAX:
                del self._absent_until_us[next(iter(self._absent_until_us))]
            if self._absent_us:
                self._absent_until_us[name] = asked_us + self._absent_us
        else:
            if len(self._known) >= self._names_max:
                del self._known[next(iter(self._known))]
            self._known[name] = _Known(value, asked_us)
