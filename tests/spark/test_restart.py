"""Bills that are killed at any step, and go on in another process, come to the same bytes."""

import json
import subprocess
import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs.corrections import MANIFEST
from tests.spark.fresh import ROOT, Machine, bill_afresh
from tests.spark.generator import MINUTE, PERIOD, RECORD, put_mark, put_records, record
from tests.spark.steps import all_of, unequal
from tests.spark.test_bill import bill, some_records

STEPS = (
    f"_drafts/usage_hourly/period={PERIOD}",
    f"inputs/period={PERIOD}",
    f"rated/period={PERIOD}",
    "writing invoices",
    f"focus/period={PERIOD}",
    f"runs/period={PERIOD}",
)
"""In each step that progress names after it has looked at records, and at the ends of them."""


def put_month(place: Path) -> None:
    """Records of two days, copies of some, and a file that is none."""
    put_records(place, some_records())
    put_records(place, some_records()[:5])
    put_stray(place)


def put_little(place: Path) -> None:
    """As much, of records as few as can be."""
    put_records(place, [record(number=n, minute=MINUTE + n * 1440) for n in (1, 2)])
    put_stray(place)


STRAY = "records/date=2026-11-01/hour=00/notes.txt"
STEPS_S_MAX = 600
STEPS_MIN = 15
"""So many states of outputs a bill leaves at least on its way."""

STEPS_TRIED = 3
"""Of them, at like distances: to finish all takes a quarter of an hour (`tests.audits.proof`)."""

FAR_AWAY = {
    "LC_ALL": "tr_TR.UTF-8",
    "LANG": "tr_TR.UTF-8",
    "TZ": "Asia/Kolkata",
    "PYTHONHASHSEED": "4242",
    # Java has locales and zones of its own.
    "JAVA_TOOL_OPTIONS": "-Duser.language=tr -Duser.country=TR -Duser.timezone=Asia/Kolkata",
}


def put_stray(place: Path) -> None:
    path = place / STRAY
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("hello")


def test_two_processes_write_the_same_bytes(session: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "usage"
    put_month(place)
    here = bill(session, place, tmp_path / "here")
    there = bill_afresh(place, tmp_path / "there", period=PERIOD)
    assert (there["run"], there["findings"]) == (here.run, here.findings)
    assert all_of(tmp_path / "there") == all_of(tmp_path / "here")


@pytest.mark.nightly
def test_a_bill_that_is_killed_at_every_step_ends_as_one_that_is_not(
    session: SparkSession, tmp_path: Path
) -> None:
    place, killed, whole = tmp_path / "usage", tmp_path / "killed", tmp_path / "whole"
    put_little(place)
    for step in STEPS:
        bill_afresh(place, killed, kill_at=step, period=PERIOD)
        assert not list((killed / "runs").rglob("*.json"))
    ended = bill_afresh(place, killed, period=PERIOD)
    assert bill(session, place, whole).run == ended["run"]
    assert all_of(killed) == all_of(whole)


@pytest.mark.nightly
def test_two_machines_write_the_same_bytes(tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "usage", tmp_path / "elsewhere"
    put_month(place)
    copytree(place, elsewhere / "usage")
    one = Machine({"LC_ALL": "C", "TZ": "UTC", "PYTHONHASHSEED": "0"}, cores="1", partitions=1)
    other = Machine(
        FAR_AWAY, elsewhere, cores="3", partitions=7, is_little=False, lists_backwards=True
    )
    here = bill_afresh(place, tmp_path / "here", machine=one, period=PERIOD)
    there = bill_afresh(elsewhere / "usage", elsewhere / "there", machine=other, period=PERIOD)
    assert there == here
    assert all_of(elsewhere / "there") == all_of(tmp_path / "here")
    assert any(name.endswith(MANIFEST) for name in all_of(tmp_path / "here"))


@pytest.mark.nightly
def test_what_a_kill_at_any_step_leaves_is_finished_by_another_process(
    session: SparkSession, tmp_path: Path
) -> None:
    """Of a bill that closes its month: it has all the steps of others."""
    options: dict[str, Any] = {"close": True, "accept": [STRAY]}
    place, kept = tmp_path / "usage", tmp_path / "kept"
    put_little(place)
    put_mark(place, RECORD["writer"], records=2, complete_to=MINUTE + 3 * 1440)
    its = {"usage": str(place), "out": str(tmp_path / "whole"), "period": PERIOD, **options}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.steps", json.dumps(its), str(kept)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=STEPS_S_MAX,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    steps = json.loads(ran.stdout)
    assert len(steps) >= STEPS_MIN
    names = sorted(steps)
    tried = {name: steps[name] for name in names[len(names) // 2 :: len(names) // STEPS_TRIED]}
    assert unequal(session, its, kept, tried) == []
