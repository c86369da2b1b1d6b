"""Which cells are down, back, full or too hot, by what observers report. Pure."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from control_plane.cluster.observation import (
    CellRecord,
    FrontEnd,
    Observation,
    Options,
    Report,
    is_heard,
)
from control_plane.places.items import ACTIVE, FAILED, FULL, REMOVED

_HALF: Final = 2


@dataclass(frozen=True)
class Health:
    """Judgements about the cells of an observation, as of `now_us`."""

    observation: Observation
    options: Options
    now_us: int

    @cached_property
    def down(self) -> frozenset[str]:
        """Cells that do not answer, and those that an operator calls failed."""
        return frozenset(
            cell.name
            for cell in self.observation.cells
            if cell.state == FAILED or (cell.state != REMOVED and self._is_down(cell.name))
        )

    @property
    def is_blind(self) -> bool:
        """Whether so many cells look down that it is more likely the observers who are wrong."""
        used = [cell for cell in self.observation.cells if cell.state not in (FAILED, REMOVED)]
        return _HALF * sum(cell.name in self.down for cell in used) > len(used)

    @cached_property
    def usable(self) -> frozenset[str]:
        """Cells that may get new members: active ones that have answered for a while."""
        return frozenset(
            cell.name
            for cell in self.observation.cells
            if cell.state == ACTIVE and self._is_steady(cell.name)
        )

    @cached_property
    def hot(self) -> frozenset[str]:
        """Cells with much more to do than the others."""
        loads = {
            cell.name: self._requests_per_s(cell.name)
            for cell in self.observation.cells
            if cell.state not in (FAILED, REMOVED)
        }
        mean = sum(loads.values()) / len(loads) if loads else 0.0
        least = max(self.options.hot_requests_per_s, mean * self.options.hot_ratio)
        return frozenset(name for name, load in loads.items() if load >= least)

    def filling(self, cell: CellRecord) -> str:
        """The state that the cell should have by how full it is, as far as that is known."""
        reports = self._seen(cell.name)
        if not reports:
            return cell.state
        return FULL if any(report.full for report in reports) else ACTIVE

    def failing_since_us(self, cell: str) -> int:
        """Since when somebody sees it fail; now, where nobody does."""
        times_us = (report.failing_since_us for report in self._seen(cell))
        return min((time_us for time_us in times_us if time_us is not None), default=self.now_us)

    def answers(self, cell: str) -> bool:
        """Whether somebody sees it answer, and nobody sees it fail."""
        seen = self._seen(cell)
        seen_failing = any(report.failing_since_us is not None for report in seen)
        return bool(seen) and not seen_failing and cell not in self.down

    def fails_somebody(self, cell: str) -> bool:
        """Whether it has failed long enough, as one of those who are heard sees it at least."""
        return any(self._fails(report) for report in self._seen(cell))

    def is_reached(self, cell: str) -> bool:
        """Whether somebody sees it answer, and most do not see it fail."""
        seen = self._seen(cell)
        return cell not in self.down and any(report.failing_since_us is None for report in seen)

    def is_unknown(self, cell: str) -> bool:
        """Whether nobody knows of it who has looked at others for a while: nor will anybody.

        So it is with a cell that no server is told of any more, but by the registry.
        """
        reports = [one for front_end in self._heard_front_ends for one in front_end.reports]
        reports += self.observation.probes
        looks = any(self._answers_long(report) for report in reports)
        return looks and all(report.cell != cell for report in reports)

    def _is_down(self, cell: str) -> bool:
        """By the majority of the front ends, whom it has to serve.

        A cell that they reach is up, whatever the manager sees of it. Its own probe decides where
        no front end is heard, and where they are divided.
        """
        heard = [self._fails(report) for report in self._heard(cell)]
        probed = any(self._fails(report) for report in self._probes(cell))
        if _HALF * sum(heard) == len(heard):
            return probed
        return _HALF * sum(heard) > len(heard)

    def _is_steady(self, cell: str) -> bool:
        return self.answers(cell) and all(map(self._answers_long, self._seen(cell)))

    def _answers_long(self, report: Report) -> bool:
        for_us = self.now_us - report.answering_since_us
        return report.failing_since_us is None and for_us >= self.options.back_after_us

    def _fails(self, report: Report) -> bool:
        since_us = report.failing_since_us
        return since_us is not None and self.now_us - since_us >= self.options.down_after_us

    def _seen(self, cell: str) -> list[Report]:
        return [*self._heard(cell), *self._probes(cell)]

    def _heard(self, cell: str) -> list[Report]:
        return [
            report
            for front_end in self._heard_front_ends
            for report in front_end.reports
            if report.cell == cell
        ]

    @property
    def _heard_front_ends(self) -> list[FrontEnd]:
        return [
            front_end
            for front_end in self.observation.front_ends
            if is_heard(front_end.heartbeat_us, self.now_us, self.options)
        ]

    def _probes(self, cell: str) -> list[Report]:
        return [report for report in self.observation.probes if report.cell == cell]

    def _requests_per_s(self, cell: str) -> float:
        return sum(report.requests_per_s for report in self._heard(cell))
