"""`python -m tests.spark.measure`: bills by Spark beside the same sums by DuckDB, in one run.

Both read the same generated records and do the same work: each record once, sums by the hour,
the free quantity and tiers, charges as exact decimals, all of it written as Parquet. What DuckDB
does not do (statements, FOCUS tables) is left out of Spark's time, and said apart.
"""

# ruff: noqa: S608 - statements are of this file and its folders

import argparse
import json
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb
import psutil
from pyspark.sql import functions as f

from glue_jobs.arguments import JobError
from glue_jobs.billing_options import Options
from glue_jobs.billing_run import BillingRun
from glue_jobs.price_book import PriceBook, book_for
from glue_jobs.progress import Progress
from glue_jobs.session import OVERHEAD_MB, open_session
from tests.spark.generator import PERIOD, Load, generate

ROWS: Final = 20_000_000
THREADS: Final = 2
MEMORY_MB: Final = 3 * 1024
"""MiB of the heap."""

_SAMPLE_S: Final = 0.2
_MB: Final = 1_000_000
_MIB: Final = 1 << 20


@dataclass(slots=True)
class Measured:
    """Seconds of a clock and of processors, and the most memory that was resident, in MB."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    rss_mb_max: float = 0.0


class Watch:
    """Measures this process and its children while it is entered."""

    def __init__(self) -> None:
        self.measured = Measured()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Measured:
        self._started, self._cpu = time.monotonic(), _cpu_s()
        self._thread.start()
        return self.measured

    def __exit__(self, *_: object) -> None:
        self.measured.wall_s = round(time.monotonic() - self._started, 1)
        self.measured.cpu_s = round(_cpu_s() - self._cpu, 1)
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            resident = sum(_of_each(lambda its: its.memory_info().rss))
            self.measured.rss_mb_max = max(self.measured.rss_mb_max, round(resident / _MB))


def _cpu_s() -> float:
    times = _of_each(lambda its: its.cpu_times())
    return float(
        sum(its.user + its.system + its.children_user + its.children_system for its in times)
    )


def _of_each(ask: Callable[[Any], Any]) -> list[Any]:
    found = []
    own = psutil.Process()
    for process in (own, *own.children(recursive=True)):
        try:
            found.append(ask(process))
        except psutil.NoSuchProcess:  # it ended meanwhile
            continue
    return found


def by_spark(usage: Path, out: Path, prices: Path) -> tuple[Measured, Measured, Decimal]:
    """Usage and billing; statements and tables; the charges' sum."""
    session = open_session("measure", memory=f"{MEMORY_MB}m", cores=str(THREADS))
    options = Options(usage=str(usage), out=str(out), period=PERIOD, prices=str(prices))
    run = BillingRun(session, options, Progress("measure", _say))
    try:
        with Watch() as first:
            found, lines = run.usage_and_charges()
            total = lines.agg(f.sum("cost")).first()
        with Watch() as second:
            run.write_bills(found, lines)
    finally:
        session.stop()
    if total is None:
        raise JobError("no charges")
    return first, second, total[0]


def by_duckdb(usage: Path, out: Path) -> tuple[Measured, Decimal]:
    """The same sums and charges."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {THREADS}")
    out.mkdir()
    with Watch() as measured:
        for statement in _statements(usage, out, book_for(PERIOD)):
            connection.execute(statement)
        total = connection.execute("SELECT sum(cost) FROM rated").fetchall()[0][0]
    connection.close()
    return measured, total


def _statements(usage: Path, out: Path, book: PriceBook) -> list[str]:
    tiers = ", ".join(
        f"('{sku}', {tier.start}, {tier.end or (1 << 63) - 1}, {tier.price}::DECIMAL(20, 10))"
        for sku in book.free_skus
        for tier in book.tiers(sku, "*")
    )
    fifo = "', '".join(
        operation for operation, skus in book.charges["fifo"].items() if "requests-fifo" in skus
    )
    records = f"read_parquet('{usage}/records/**/*.parquet', hive_partitioning = false)"
    return [
        f"""CREATE TABLE hourly AS
        SELECT minute // 60 AS hour, account, region, queue, operation, status, code,
          count(*) AS records, sum(requests)::BIGINT AS requests, sum(units)::BIGINT AS units,
          sum(messages)::BIGINT AS messages, sum(bytes)::BIGINT AS bytes,
          sum(failed_entries)::BIGINT AS failed_entries,
          sum(CASE WHEN operation = 'ReceiveMessage' AND status = '2xx' AND messages = 0
            THEN requests ELSE 0 END)::BIGINT AS empty_receives
        FROM (SELECT DISTINCT * FROM {records}) GROUP BY ALL""",
        f"COPY hourly TO '{out}/hourly.parquet' (COMPRESSION zstd)",
        f"CREATE TABLE tiers AS SELECT * FROM (VALUES {tiers}) AS t(sku, low, high, price)",
        f"""CREATE TABLE charged AS
        SELECT hour, account, region, queue, operation,
          CASE WHEN queue LIKE '%.fifo' AND operation IN ('{fifo}')
            THEN 'requests-fifo' ELSE 'requests-standard' END AS sku,
          sum(units)::BIGINT AS quantity
        FROM hourly WHERE account <> '' AND status <> '5xx' AND code <> 'RequestThrottled'
        GROUP BY ALL""",
        f"""CREATE TABLE placed AS
        SELECT *, greatest(0, least(quantity, {book.free_quantity} - taken)) AS free FROM (
          SELECT *,
            coalesce(sum(quantity) OVER (PARTITION BY account
              ORDER BY hour, region, sku, queue, operation
              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT AS taken,
            coalesce(sum(quantity) OVER (PARTITION BY account, region, sku
              ORDER BY hour, queue, operation
              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)::BIGINT AS begin
          FROM charged)""",
        """CREATE TABLE rated AS
        SELECT * EXCLUDE (part), part::DECIMAL(18, 0) * price AS cost FROM (
          SELECT hour, account, region, queue, operation, p.sku, low, price,
            least(begin + quantity, high) - greatest(begin + free, low) AS part
          FROM placed p JOIN tiers t ON p.sku = t.sku)
        WHERE part > 0""",
        f"COPY rated TO '{out}/rated.parquet' (COMPRESSION zstd)",
    ]


def _in_order(folder: Path) -> Path:
    """Tidegate's own book, with the free quantity for what comes first, as DuckDB has it here."""
    book = json.loads(book_for(PERIOD).text) | {"spread": "in order"}
    path = folder / "prices.json"
    path.write_text(json.dumps(book))
    return path


def measure(rows: int, share: float, folder: Path) -> dict[str, Any]:
    """Both over the same records."""
    usage = folder / "usage"
    written = generate(usage, Load(rows=rows, share=share))
    _say(f"{written:,} records; the largest account has {share:.0%} of them, or what chance gave")
    duckdb_took, theirs = by_duckdb(usage, folder / "duckdb")
    took, bills_took, ours = by_spark(usage, folder / "bills", _in_order(folder))
    if Decimal(ours) != Decimal(theirs):
        raise JobError(f"Spark's charges are {ours}, DuckDB's {theirs}")
    return {
        "records": written,
        "share_of_largest": share,
        "usd": str(ours),
        "spark": asdict(took),
        "spark_memory_mb_set": round((MEMORY_MB + OVERHEAD_MB) * _MIB / _MB),
        "spark_statements_and_focus": asdict(bills_took),
        "duckdb": asdict(duckdb_took),
        "ratio_wall": round(duckdb_took.wall_s / took.wall_s, 3),
        "ratio_cpu": round(duckdb_took.cpu_s / took.cpu_s, 3),
    }


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.measure")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--share", type=float, action="append", help="of the largest account")
    options = parser.parse_args()
    for share in options.share or [0.0, 0.9]:
        folder = Path(tempfile.mkdtemp(prefix="tidegate-measure-"))
        try:
            print(json.dumps(measure(options.rows, share, folder)), flush=True)
        finally:
            shutil.rmtree(folder)
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
