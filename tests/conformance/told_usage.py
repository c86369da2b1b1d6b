"""Says what accounts have used in a month of a usage place, as a server would: JSON, by account.

python -m tests.conformance.told_usage PLACE PERIOD TIME_S BILLING ACCOUNT...

BILLING is a file of `serve --billing`, or "".
"""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from control_plane.billing_terms import read_terms
from control_plane.core.month_usage import cost_text
from control_plane.tenant_usage import MonthCosts
from data_plane.blobs.files import FileBlobs
from data_plane.usage.record import UsageRecord
from data_plane.usage.summary import UsageSummary

T = TypeVar("T")


class _Stopped:
    """A clock at one time."""

    def __init__(self, time_s: int) -> None:
        self._time_us = time_s * 1_000_000

    def now_us(self) -> int:
        return self._time_us


async def _at_once(call: Callable[[], T]) -> T:
    return call()


async def _nothing() -> list[UsageRecord]:
    return []


def main(place: str, period: str, time_s: str, billing: str, *accounts: str) -> None:
    """Say it."""
    clock = _Stopped(int(time_s))
    summary = UsageSummary(FileBlobs(Path(place), clock, _at_once), _at_once, clock)
    terms = read_terms(Path(billing) if billing else None, period)
    costs = MonthCosts(summary, _nothing, lambda: 0.0, terms, clock)
    told = {}
    for account in accounts:
        month = asyncio.run(costs.month(account, period))
        told[account] = [
            [*key, its.requests, its.units, its.bytes, cost_text(its.cost)]
            for key, its in sorted(month.lines.items())
        ]
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
