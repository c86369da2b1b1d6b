"""What was compared, as text for people and as Markdown for documents."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.benchmarks.report import Row

AIM_PEERS: Final = ("fauxqs", "fauxqs-quiet", "fauxqs-disk")
AIM_WORK: Final = "send"
AIM_CONNECTIONS: Final = 64
AIM_RATIO_MIN: Final = 2.0

LARGE: Final = 100
_MS_PER_S: Final = 1_000
_WIDTH: Final = 60
_COLUMNS: Final = (
    f"{'msg/s':>9}{'ratio':>8}{'p50 ms':>9}{'p99 ms':>10}{'us/msg':>9}{'gen.':>6}{'others':>8}"
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One work by all: the row of each contestant by its name, ours first.

    `waiting` are the messages that were in the queue of each when it began, where that matters.
    """

    work: str
    connections: int
    rows: Mapping[str, Row]
    waiting: Mapping[str, int] = field(default_factory=dict)

    def ratio(self, peer: str) -> float:
        """How many times as many messages ours did; NaN if the peer finished none."""
        ours = next(iter(self.rows.values())).messages_hz
        theirs = self.rows[peer].messages_hz
        return ours / theirs if theirs else math.nan


def title(comparison: Comparison) -> str:
    """Name the work and the number of connections."""
    plural = "" if comparison.connections == 1 else "s"
    return f"{comparison.work}, {comparison.connections} connection{plural}"


def text(comparison: Comparison, labels: Mapping[str, str]) -> str:
    """Render a comparison; the labels are those of the contestants by name."""
    lines = [f"{title(comparison):<{_WIDTH}}{_COLUMNS}"]
    for at, (name, row) in enumerate(comparison.rows.items()):
        ratio = ratio_text(comparison.ratio(name)) if at else ""
        lines.append(
            f"  {labels[name]:<{_WIDTH - 2}}{row.messages_hz:>9,.0f}{ratio:>8}"
            f"{row.latency.p50_ms:>9.2f}{row.latency.p99_ms:>10.2f}{row.server_us:>9.0f}"
            f"{row.generator_share:>6.0%}{row.other_cores:>8.1f}"
        )
        if name in comparison.waiting:
            lines.append(f"    {comparison.waiting[name]:,} messages were waiting")
        lines += [f"    {count} errors: {error}" for error, count in row.errors.items()]
    ceiling = next(iter(comparison.rows.values())).ceiling_hz
    lines.append(f"  (the generator's ceiling: {ceiling:,.0f} calls/s)")
    return "\n".join(lines)


def ratio_text(ratio: float) -> str:
    """Render how many times; what could not be compared is no number."""
    if math.isnan(ratio):
        return "-"
    if ratio < 1:
        return f"{ratio:.2g}x"
    return f"{ratio:.1f}x" if ratio < LARGE else f"{ratio:,.0f}x"


def markdown(comparisons: Sequence[Comparison], labels: Mapping[str, str]) -> str:
    """Render a table of messages a second, with the ratio of ours to each peer's."""
    lines = [
        f"| work | connections | {' | '.join(labels.values())} |",
        f"|---|---|{'---|' * len(labels)}",
    ]
    for comparison in comparisons:
        cells = [_cell(comparison, name) for name in comparison.rows]
        lines.append(f"| {comparison.work} | {comparison.connections} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(comparison: Comparison, name: str) -> str:
    row = comparison.rows[name]
    cell = f"{row.messages_hz:,.0f}" if row.messages_hz > 0 else "none"
    if cell == "none" and row.latency.count:
        cell += f", a call took {row.latency.p50_ms / _MS_PER_S:.1f} s"
    if row.messages_hz > 0 and name != next(iter(comparison.rows)):
        cell += f" ({ratio_text(comparison.ratio(name))})"
    if name in comparison.waiting and len(set(comparison.waiting.values())) > 1:
        cell += f", {comparison.waiting[name]:,} waiting"
    errors = sum(row.errors.values())
    return f"{cell}, {errors:,} errors" if errors else cell


def aims(comparisons: Sequence[Comparison]) -> list[str]:
    """Say whether the aim is met, where what it speaks of was measured."""
    said = []
    for comparison in comparisons:
        if (comparison.work, comparison.connections) != (AIM_WORK, AIM_CONNECTIONS):
            continue
        for peer in AIM_PEERS:
            if peer in comparison.rows:
                ratio = comparison.ratio(peer)
                verdict = "met" if ratio >= AIM_RATIO_MIN else "MISSED"
                said.append(
                    f"single sends at {AIM_CONNECTIONS} connections, to those of {peer}: "
                    f"{ratio_text(ratio)}  ({verdict}: at least {AIM_RATIO_MIN:g}x)"
                )
    return said
