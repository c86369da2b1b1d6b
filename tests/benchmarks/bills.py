"""Bills on Spark beside the same sums on DuckDB; tests/spark/measure.py has the work."""

import json
import subprocess
from typing import Any, Final

from tests.benchmarks.plan import Plan
from tests.benchmarks.report import Fact, Report
from tests.benchmarks.server_process import ROOT

SPARK: Final = ROOT / ".venvs/spark/bin/python"
SLOWER_MAX: Final = 4
SKEWED_MAX: Final = 1.3
SHARES: Final = (0.0, 0.9)
_MILLION: Final = 1e6


def measure_bills(plan: Plan, report: Report) -> None:
    """Times and memory of usage and billing, with many tenants and with one that has most."""
    if not SPARK.exists():
        report.say('bills are left out: BENCH="--only bills" installs Spark')
        return
    even, skewed = (_measured(plan.bill_records, share) for share in SHARES)
    for name, its in (("many tenants", even), ("one tenant has 90 %", skewed)):
        _state(report, f"bills, {name}", its)
    slower = skewed["spark"]["wall_s"] / even["spark"]["wall_s"]
    report.state(Fact("bills: 90 % of one tenant to many tenants", slower, "times", SKEWED_MAX))


def _measured(records: int, share: float) -> dict[str, Any]:
    """Of a process of its own: Java compiles what runs for long, and a second run gains by that."""
    command = [str(SPARK), "-m", "tests.spark.measure", "--rows", str(records)]
    command += ["--share", str(share)]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    its: dict[str, Any] = json.loads(said.stdout)
    return its


def _state(report: Report, name: str, its: dict[str, Any]) -> None:
    for engine in ("spark", "duckdb"):
        millions = its["records"] / its[engine]["wall_s"] / _MILLION
        report.state(Fact(f"{name}: {engine}", millions, "million records/s"))
        report.state(Fact(f"{name}: {engine}, processors", its[engine]["cpu_s"], "s"))
        report.state(Fact(f"{name}: {engine}, memory", its[engine]["rss_mb_max"], "MB"))
    of_setting = its["spark"]["rss_mb_max"] / its["spark_memory_mb_set"]
    report.state(Fact(f"{name}: spark, memory to heap and overhead", of_setting, "times", 1.0))
    slower = its["spark"]["wall_s"] / its["duckdb"]["wall_s"]
    report.state(Fact(f"{name}: DuckDB to Spark", slower, "times", SLOWER_MAX))
