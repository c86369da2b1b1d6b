"""`python -m tests.spark.virtual_years`: two years of hourly bills, on a time of their own.

Each hour the present month is billed, as a deployment does it; each day the one before, from its
fourth day on what is due is closed. Records come some times a month; some come when their month is
closed. Some runs are cut off. Hours in which nothing came need no Spark.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyarrow import parquet
from pyspark.sql import SparkSession

from glue_jobs.bill import due
from glue_jobs.billing_options import Options
from glue_jobs.billing_run import BillingRun
from glue_jobs.invoicing import first_hour, next_period
from glue_jobs.outputs import pointers
from glue_jobs.places import place_of
from glue_jobs.progress import Progress
from glue_jobs.session import open_session
from tests.spark.generator import put_mark, put_records, record
from tests.spark.steps import all_of, told_of_steps

START: Final = "2026-11"
WRITER: Final = "00112233445566aa"
_CLOSE_DAY: Final = 4
_CLOSE_HOUR: Final = 5
_CUT_OFF: Final = 0.25
"""So many of the runs that write are cut off, and tried again an hour later."""

_STEPS_OF_A_RUN: Final = 40
_LATE: Final = 0.4
"""In so many months records come that are of an earlier one."""

_HOURS_PER_DAY: Final = 24


class CutOffError(Exception):
    """A run ends here, whatever it was about to do."""


@dataclass
class Told:
    """What a rehearsal came to: runs, those that wrote, those that were cut off."""

    runs: int = 0
    wrote: int = 0
    cut_off: int = 0
    late: int = 0
    problems: list[str] = field(default_factory=list)


class Years:
    """A usage place and its bills, hour by hour."""

    def __init__(self, session: SparkSession, root: Path, seed: int, every_h: int = 1) -> None:
        self.told = Told()
        self._every_h = every_h
        self._session = session
        self._usage, self._out = root / "usage", root / "bills"
        self._random = Random(seed)
        self._numbers = 0
        self._served: Counter[str] = Counter()
        """Units by month: the book of what was served."""
        self._closed: dict[str, bytes] = {}

    def pass_month(self, period: str, arrivals: int) -> None:
        """Bill each hour of a month, in which records come so many times."""
        begin, end = first_hour(period), first_hour(next_period(period))
        # The first by the first day's end, so that a month never is without usage.
        times = {begin + self._random.randrange(1, _HOURS_PER_DAY)}
        times |= {self._random.randrange(begin + _HOURS_PER_DAY, end) for _ in range(arrivals - 1)}
        for hour in range(begin + 1, end + 1):
            if hour in times:
                self._arrive(period, begin, hour)
            if hour == end:
                self._arrive_late(period)
            if min(times) <= hour < end and hour % self._every_h == 0:
                self._bill(period)
            day, of_day = divmod(hour - begin, _HOURS_PER_DAY)
            if of_day == _CLOSE_HOUR and period > START:
                self._look_back(period, day + 1)

    def _look_back(self, period: str, day: int) -> None:
        """What is to be done once a day."""
        previous = next_period(period, -1)
        if day < _CLOSE_DAY:
            self._bill(previous)
        elif (its := due(pointers(place_of(str(self._out))), previous)) < period:
            self._bill(its, close=True)

    def _arrive(self, period: str, begin: int, hour: int) -> None:
        rows = []
        for _ in range(self._random.randint(1, 4)):
            self._numbers += 1
            units = self._random.randrange(1, 400_000)
            self._served[period] += units
            minute = self._random.randrange(begin, hour) * 60
            rows.append(
                record(writer=WRITER, number=self._numbers, minute=minute, units=units, requests=1)
            )
        put_records(self._usage, rows)
        # As of the end of the month: what is not there by then is late, and of another writer.
        until = first_hour(next_period(period)) * 60
        opened = first_hour(START) * 60
        its: dict[str, Any] = {"records": self._numbers, "complete_to": until, "closed": False}
        put_mark(self._usage, WRITER, opened=opened, **its)

    def _arrive_late(self, period: str) -> None:
        """Records of a month that is closed."""
        months = sorted(its for its in self._closed if its >= next_period(period, -12))
        if not months or self._random.random() > _LATE:
            return
        of = self._random.choice(months)
        self.told.late += 1
        writer = f"{self.told.late:016x}"
        units = self._random.randrange(1, 400_000)
        self._served[of] += units
        minute = first_hour(of) * 60 + self._random.randrange(28 * 1440)
        put_records(self._usage, [record(writer=writer, number=1, minute=minute, units=units)])
        put_mark(self._usage, writer, opened=minute, complete_to=minute + 1)

    def _bill(self, period: str, *, close: bool = False) -> None:
        """One run, which may be cut off."""
        left = -1
        if self._random.random() < _CUT_OFF:
            left = self._random.randrange(1, _STEPS_OF_A_RUN)
        wrote = False

        def step(what: str) -> None:
            nonlocal left, wrote
            wrote = wrote or what.startswith("before put_new")
            # Runs that write nothing are over before they could be cut off.
            left -= wrote
            if wrote and left == 0:
                raise CutOffError

        options = Options(str(self._usage), str(self._out), period, close=close)
        self.told.runs += 1
        try:
            with told_of_steps(step) as progress:
                BillingRun(self._session, options, progress).run()
        except CutOffError:
            self.told.cut_off += 1
            if close:
                # Else the next day would do it again.
                self._run(period, close=True)
        self.told.wrote += wrote
        if close:
            self._closed[period] = self._of(period)

    def _run(self, period: str, *, close: bool = False) -> None:
        options = Options(str(self._usage), str(self._out), period, close=close)
        BillingRun(self._session, options, Progress("", lambda _: None)).run()

    def _of(self, period: str) -> bytes:
        """All that is kept of a month."""
        of_month = {
            name: content
            for name, content in all_of(self._out).items()
            if f"period={period}/" in name or f"/{period}." in name
        }
        return repr(sorted(of_month.items())).encode()

    def end(self, period: str) -> None:
        """Bill what came last, and compare."""
        self._run(period)
        self._compare()

    def _compare(self) -> None:
        """Closed months are as they were, and invoices come to what was served."""
        for period, content in self._closed.items():
            if self._of(period) != content:
                self.told.problems.append(f"{period} is not what it was when it was closed")
        billed: Counter[str] = Counter()
        for its in pointers(place_of(str(self._out))):
            lines = self._out / f"invoices/period={its.period}/run={its.run}/lines"
            for path in lines.rglob("rows.parquet"):
                for row in parquet.ParquetFile(path).read().to_pylist():
                    billed[row["of_period"]] += row["quantity"]
        for period in sorted({*billed, *self._served}):
            if billed[period] != self._served[period]:
                self.told.problems.append(
                    f"{period}: {billed[period]} units billed, {self._served[period]} served"
                )


def rehearse(  # noqa: PLR0913 - what a rehearsal is made from
    session: SparkSession,
    root: Path,
    months: int,
    *,
    arrivals: int = 1,
    seed: int = 1,
    every_h: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> Told:
    """Pass so many months, with a run every so many hours, and compare."""
    years = Years(session, root, seed, every_h)
    period = START
    for _ in range(months):
        years.pass_month(period, arrivals)
        say(f"{period}: {years.told}")
        period = next_period(period)
    years.end(next_period(period, -1))
    return years.told


def main() -> int:
    """0 where nothing was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.virtual_years")
    parser.add_argument("--months", type=int, default=24)
    parser.add_argument("--arrivals", type=int, default=2, help="times a month records come")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    session = open_session("years", cores="2", is_little=True)
    with TemporaryDirectory() as root:
        told = rehearse(
            session,
            Path(root),
            options.months,
            arrivals=options.arrivals,
            seed=options.seed,
            say=lambda line: print(line, flush=True),
        )
    print(told)
    return 1 if told.problems else 0


if __name__ == "__main__":
    sys.exit(main())
