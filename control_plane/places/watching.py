"""What a front end sees of its cells: a probe of each, every second."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from control_plane.places.items import CellSeen
from data_plane.core.deadline import deadline
from data_plane.ports import Cell, CellUnavailableError, Clock, Key, Waits

PROBE_US_MAX: Final = 1_000_000
"""A cell that takes longer does not answer."""

STORED_PROBE: Final = Key("M|probe", b"\0")
_FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class WatchedCell:
    """A cell to watch: how it is probed, how much it holds, whether it takes no more."""

    probe: Callable[[], Awaitable[object]]
    used_bytes: Callable[[], int]
    is_full: Callable[[], bool]


async def probe_by_write(cell: Cell, clock: Clock) -> None:
    """See whether the cell takes writes. Raises CellUnavailableError."""
    await cell.put(STORED_PROBE, {"v": _FORMAT, "t": clock.now_us()})


class CellWatch:
    """Probes the cells, and remembers since when each answers or fails.

    `failed` is called when a cell that answered does not any more.
    """

    def __init__(
        self,
        cells: Mapping[str, WatchedCell],
        clock: Clock,
        waits: Waits,
        failed: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._cells = cells
        self._clock = clock
        self._waits = waits
        self._under_way: set[str] = set()
        self.failed = failed
        self.seen: dict[str, CellSeen] = {}

    async def probe(self) -> None:
        """Probe all cells side by side; one whose last probe is still under way has failed."""
        names = list(self._cells)
        begun = [name for name in names if name not in self._under_way]
        for name in names:
            if name not in begun:
                self._note(name, answers=False, latency_us=PROBE_US_MAX)
        for outcome in await self._waits.all_of([self._probe(name) for name in begun]):
            if isinstance(outcome, Exception):
                raise outcome
        for name in self.seen.keys() - self._cells.keys():
            del self.seen[name]

    def report(self) -> dict[str, CellSeen]:
        """What is seen, as heartbeats say it; cells that were never probed are left out."""
        report = {}
        for name, seen in self.seen.items():
            cell = self._cells[name]
            report[name] = seen._replace(used_bytes=cell.used_bytes(), full=cell.is_full())
        return report

    async def _probe(self, name: str) -> None:
        self._under_way.add(name)
        begun_us = self._clock.now_us()
        try:
            with deadline(begun_us + PROBE_US_MAX):
                await self._cells[name].probe()
        except CellUnavailableError:
            answers = False
        else:
            answers = True
        finally:
            self._under_way.discard(name)
        latency_us = max(0, self._clock.now_us() - begun_us)
        self._note(name, answers=answers and latency_us < PROBE_US_MAX, latency_us=latency_us)

    def _note(self, name: str, *, answers: bool, latency_us: int) -> None:
        before = self.seen.get(name)
        changed = before is None or before.answers != answers
        since_us = self._clock.now_us() if changed or before is None else before.since_us
        self.seen[name] = CellSeen(answers, since_us, latency_us)
        if changed and not answers:
            self.failed(name)
