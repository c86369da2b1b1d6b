"""What a front end sees of its cells: a probe of each, every second."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from control_plane.places.items import CellSeen
from control_plane.places.ticking import Ticks
from data_plane.core.deadline import deadline
from data_plane.ports import Cell, CellUnavailableError, Clock, DeadlinePassedError, Key

PROBE: Final = Key("health", b"\0")
"""What is read to see whether a cell answers; there need not be such an item."""

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


PROBE_WRITE_US: Final = 60_000_000
"""An idle cell is probed by a write so often."""


class SparingProbe:
    """Probes a cell by a write if it was written to since the last probe, else by `read`.

    An idle cell is not written to for nothing: each write of a few bytes costs its disk 25 KB. One
    that is full, or failed the last probe, is probed by writes until it takes them. `written`
    answers a value that is another one after each write, whether that succeeded or not.
    """

    def __init__(
        self,
        write: Callable[[], Awaitable[object]],
        read: Callable[[], Awaitable[object]],
        written: Callable[[], object],
        is_full: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self._write = write
        self._read = read
        self._written = written
        self._is_full = is_full
        self._clock = clock
        self._seen: object = None
        self._due_us = 0

    async def __call__(self) -> None:
        """Raises CellUnavailableError."""
        is_idle = self._written() == self._seen and not self._is_full()
        is_due = not 0 <= self._due_us - self._clock.now_us() <= PROBE_WRITE_US
        due_us, self._due_us = self._due_us, 0
        if is_idle and not is_due:
            await self._read()
            self._due_us = due_us
            return
        await self._write()
        self._seen = self._written()
        self._due_us = self._clock.now_us() + PROBE_WRITE_US


async def probe_by_write(cell: Cell, clock: Clock) -> None:
    """See whether the cell takes writes. Raises CellUnavailableError."""
    await cell.put(STORED_PROBE, {"v": _FORMAT, "t": clock.now_us()})


@dataclass(slots=True)
class _Watched:
    """`asked_since_us`: when the first probe began that has no answer yet; 0: all have one."""

    answers: bool = True
    since_us: int = 0
    latency_us: int = 0
    is_probed: bool = False
    asked_since_us: int = 0
    requests: int = 0
    requests_per_s: float = 0.0
    counted_us: int = 0


class CellWatch:
    """Remembers since when each of the cells answers or fails.

    `failed` is called when a cell that answered does not any more. Cells may come and go. Those in
    `aside` count as failing whatever they answer: nobody lets them into groups meanwhile. No time
    counts against a cell in which the observer was held up himself: by its `ticks`, and while no
    cell answers.
    """

    def __init__(
        self, cells: Mapping[str, WatchedCell], clock: Clock, ticks: Ticks | None = None
    ) -> None:
        self._cells = cells
        self._clock = clock
        self._ticks = ticks or Ticks(clock)
        self._excused_us = 0
        self._watched: dict[str, _Watched] = {}
        self.failed: Callable[[str], None] = lambda _name: None
        self.aside: set[str] = set()

    def idle(self) -> list[str]:
        """Cells without a probe under way."""
        return [name for name in self._cells if not self._of(name).is_probed]

    async def probe(self, name: str) -> None:
        """Probe a cell. What it takes too long to answer, `look` notices."""
        watched, cell = self._of(name), self._cells[name]
        begun_us = self._clock.now_us()
        watched.asked_since_us = watched.asked_since_us or begun_us
        watched.is_probed, answers = True, True
        try:
            with deadline(begun_us + PROBE_US_MAX):
                await cell.probe()
        except DeadlinePassedError:
            if self._waited_us(watched) < PROBE_US_MAX:
                return  # nobody was held up but the observer: the next probe goes on with it
            answers = False
        except CellUnavailableError:
            answers = False
        finally:
            watched.is_probed = False
        watched.latency_us = self._waited_us(watched)
        asked_us, watched.asked_since_us = watched.asked_since_us, 0
        now_us = self._clock.now_us()
        is_answered = answers and watched.latency_us < PROBE_US_MAX
        self._note(name, answers=is_answered, since_us=now_us if is_answered else asked_us)
        self._count(watched, cell.requests(), now_us)

    async def ask(self, name: str) -> None:
        """Probe a cell for who asks alone. Raises CellUnavailableError where it does not answer.

        So it does at once where another probe waits for it in vain: a cell may never answer.
        """
        cell = self._cells.get(name)
        if cell is None or name in self.aside:
            raise CellUnavailableError(f"{name} is not watched here")
        if self._is_late(self._of(name)):
            raise CellUnavailableError(f"{name} does not answer")
        with deadline(self._clock.now_us() + PROBE_US_MAX):
            await cell.probe()

    def look(self) -> None:
        """Notice cells whose probe takes too long, and those that are no more."""
        for name in self._watched.keys() - self._cells.keys():
            del self._watched[name]
        for name, watched in list(self._watched.items()):
            if self._is_late(watched):
                watched.latency_us = self._waited_us(watched)
                self._note(name, answers=False, since_us=watched.asked_since_us)

    def failing(self, for_us: int) -> list[str]:
        """Cells that have not answered for so long, while another one did."""
        self._excuse()
        now_us = self._clock.now_us()
        return [
            name
            for name, watched in self._watched.items()
            if not watched.answers and now_us - watched.since_us >= for_us and self._any_answers()
        ]

    def report(self, lags_us: Mapping[str, int]) -> dict[str, CellSeen]:
        """What is seen, with what each cell is behind; cells that were never probed are missing."""
        self._excuse()
        return {
            name: CellSeen(
                watched.answers and name not in self.aside,
                watched.since_us if name not in self.aside else self._clock.now_us(),
                watched.latency_us,
                _used(self._cells[name]),
                self._cells[name].is_full(),
                watched.requests_per_s,
                lags_us.get(name, 0),
            )
            for name, watched in self._watched.items()
            if watched.since_us and name in self._cells
        }

    def _is_late(self, watched: _Watched) -> bool:
        """Whether a probe of it takes too long, and has not ended."""
        return bool(watched.asked_since_us) and self._waited_us(watched) >= PROBE_US_MAX

    def _waited_us(self, watched: _Watched) -> int:
        """For how long a cell has been asked, but for what the observer was held up."""
        self._excuse()
        return max(0, self._clock.now_us() - watched.asked_since_us)

    def _excuse(self) -> None:
        """Move on what counts against cells by the time for which the observer was held up."""
        held_up_us, now_us = self._ticks.held_up_us(), self._clock.now_us()
        more_us, self._excused_us = held_up_us - self._excused_us, held_up_us
        if more_us <= 0:
            return
        for watched in self._watched.values():
            if watched.asked_since_us:
                watched.asked_since_us = min(now_us, watched.asked_since_us + more_us)
            if not watched.answers:
                watched.since_us = min(now_us, watched.since_us + more_us)

    def _any_answers(self) -> bool:
        return any(watched.answers for watched in self._watched.values())

    def _of(self, name: str) -> _Watched:
        return self._watched.setdefault(name, _Watched())

    def _note(self, name: str, *, answers: bool, since_us: int) -> None:
        """A cell fails from the beginning of the probe on that it did not answer.

        But not for longer than a probe may take: whoever looks so late was held up himself.
        """
        watched = self._of(name)
        if watched.since_us and watched.answers == answers:
            return
        if answers and not self._any_answers():
            for other in self._watched.values():
                other.since_us = max(other.since_us, since_us)
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
