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
    command = [str(SPARK), "-m", "tests.spark.measure", "--rows", str(plan.bill_records)]
    command += [word for share in SHARES for word in ("--share", str(share))]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    even, skewed = (json.loads(line) for line in said.stdout.splitlines())
    for name, its in (("many tenants", even), ("one tenant has 90 %", skewed)):
        _state(report, f"bills, {name}", its)
    slower = skewed["spark"]["wall_s"] / even["spark"]["wall_s"]
    report.state(Fact("bills: 90 % of one tenant to many tenants", slower, "times", SKEWED_MAX))


def _state(report: Report, name: str, its: dict[str, Any]) -> None:
    for engine in ("spark", "duckdb"):
        millions = its["records"] / its[engine]["wall_s"] / _MILLION
        report.state(Fact(f"{name}: {engine}", millions, "million records/s"))
        report.state(Fact(f"{name}: {engine}, processors", its[engine]["cpu_s"], "s"))
        report.state(Fact(f"{name}: {engine}, memory", its[engine]["rss_mb_max"], "MB"))
    slower = its["spark"]["wall_s"] / its["duckdb"]["wall_s"]
    report.state(Fact(f"{name}: DuckDB to Spark", slower, "times", SLOWER_MAX))
