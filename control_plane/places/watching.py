"""What a front end sees of its cells: a probe of each, every second."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from control_plane.places.items import CellSeen
from data_plane.core.deadline import deadline
from data_plane.ports import Cell, CellUnavailableError, Clock, Key

PROBE_US_MAX: Final = 1_000_000
"""A cell that takes longer does not answer."""

STORED_PROBE: Final = Key("M|probe", b"\0")
_FORMAT: Final = 1
_US_PER_S: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class WatchedCell:
    """A cell to watch: how it is probed, and what its adapter knows.

    `requests` counts those that it was sent since it was opened.
    """

    probe: Callable[[], Awaitable[object]]
    used_bytes: Callable[[], int]
    is_full: Callable[[], bool]
    requests: Callable[[], int]


async def probe_by_write(cell: Cell, clock: Clock) -> None:
    """See whether the cell takes writes. Raises CellUnavailableError."""
    await cell.put(STORED_PROBE, {"v": _FORMAT, "t": clock.now_us()})


@dataclass(slots=True)
class _Watched:
    answers: bool = True
    since_us: int = 0
    latency_us: int = 0
    probing_since_us: int = 0
    requests: int = 0
    requests_per_s: float = 0.0
    counted_us: int = 0


class CellWatch:
    """Remembers since when each of the cells answers or fails.

    `failed` is called when a cell that answered does not any more. Cells may come and go.
    """

    def __init__(self, cells: Mapping[str, WatchedCell], clock: Clock) -> None:
        self._cells = cells
        self._clock = clock
        self._watched: dict[str, _Watched] = {}
        self.failed: Callable[[str], None] = lambda _name: None

    def idle(self) -> list[str]:
        """Cells without a probe under way."""
        return [name for name in self._cells if not self._of(name).probing_since_us]

    async def probe(self, name: str) -> None:
        """Probe a cell. What it takes too long to answer, `look` notices."""
        watched, cell = self._of(name), self._cells[name]
        begun_us = watched.probing_since_us = self._clock.now_us()
        try:
            with deadline(begun_us + PROBE_US_MAX):
                await cell.probe()
        except CellUnavailableError:
            answers = False
        else:
            answers = True
        finally:
            watched.probing_since_us = 0
        now_us = self._clock.now_us()
        watched.latency_us = max(0, now_us - begun_us)
        is_answered = answers and watched.latency_us < PROBE_US_MAX
        self._note(name, answers=is_answered, since_us=now_us if is_answered else begun_us)
        self._count(watched, cell.requests(), now_us)

    def look(self) -> None:
        """Notice cells whose probe takes too long, and those that are no more."""
        now_us = self._clock.now_us()
        for name in self._watched.keys() - self._cells.keys():
            del self._watched[name]
        for name, watched in list(self._watched.items()):
            since_us = watched.probing_since_us
            if since_us and now_us - since_us >= PROBE_US_MAX:
                watched.latency_us = now_us - since_us
                self._note(name, answers=False, since_us=since_us)

    def failing(self, for_us: int) -> list[str]:
        """Cells that have not answered for so long."""
        now_us = self._clock.now_us()
        return [
            name
            for name, watched in self._watched.items()
            if not watched.answers and now_us - watched.since_us >= for_us
        ]

    def report(self, lags_us: Mapping[str, int]) -> dict[str, CellSeen]:
        """What is seen, with what each cell is behind; cells that were never probed are missing."""
        return {
            name: CellSeen(
                watched.answers,
                watched.since_us,
                watched.latency_us,
                _used(self._cells[name]),
                self._cells[name].is_full(),
                watched.requests_per_s,
                lags_us.get(name, 0),
            )
            for name, watched in self._watched.items()
            if watched.since_us and name in self._cells
        }

    def _of(self, name: str) -> _Watched:
        return self._watched.setdefault(name, _Watched())

    def _note(self, name: str, *, answers: bool, since_us: int) -> None:
        """A cell fails from the beginning of the probe on that it did not answer.

        But not for longer than a probe may take: whoever looks so late was held up himself.
        """
        watched = self._of(name)
        if watched.since_us and watched.answers == answers:
            return
        since_us = max(since_us, self._clock.now_us() - PROBE_US_MAX)
        watched.answers, watched.since_us = answers, since_us
        if not answers:
            self.failed(name)

    @staticmethod
    def _count(watched: _Watched, requests: int, now_us: int) -> None:
        passed_us = now_us - watched.counted_us
        if watched.counted_us and passed_us > 0:
            done = max(0, requests - watched.requests)
            watched.requests_per_s = done * _US_PER_S / passed_us
        watched.requests, watched.counted_us = requests, now_us


def _used(cell: WatchedCell) -> int:
    try:
        return cell.used_bytes()
    except CellUnavailableError:
        return 0
