"""Summaries of measured times."""

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

_MS_PER_S = 1_000


def percentile(ordered: Sequence[float], share: float) -> float:
    """The nearest-rank percentile of values in ascending order.

    `share` is in 0..1. It is always one of the values, never an interpolation between two. NaN when
    there are none.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"a share is between 0 and 1: {share}")
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle one, or the mean of the two in the middle; NaN when there are none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


@dataclass(frozen=True, slots=True)
class Latency:
    """How long requests took, in milliseconds; NaN when there were none."""

    count: int
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, times_s: Sequence[float]) -> Self:
        """Summarise times in seconds."""
        ordered = array("d", sorted(times_s))
        return cls(
            count=len(ordered),
            p50_ms=percentile(ordered, 0.50) * _MS_PER_S,
            p90_ms=percentile(ordered, 0.90) * _MS_PER_S,
            p99_ms=percentile(ordered, 0.99) * _MS_PER_S,
            max_ms=percentile(ordered, 1.0) * _MS_PER_S,
        )

    @classmethod
    def median_of(cls, runs: Sequence["Latency"]) -> Self:
        """Field by field the median of several runs; `count` is that of all of them together."""
        return cls(
            count=sum(run.count for run in runs),
            p50_ms=median([run.p50_ms for run in runs]),
            p90_ms=median([run.p90_ms for run in runs]),
            p99_ms=median([run.p99_ms for run in runs]),
            max_ms=median([run.max_ms for run in runs]),
        )
