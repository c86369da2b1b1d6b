"""`tidegate bill` hands its options to the job, and the job's exit code back."""

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from control_plane.cli import spark
from control_plane.cli.main import tidegate
from control_plane.cli.times import month


def test_options_become_arguments_of_the_job(tmp_path: Path) -> None:
    said, python = tmp_path / "said", tmp_path / "python"
    runs_jobs = '[ "$1" = -m ] || exit 0'
    python.write_text(f'#!/bin/sh\n{runs_jobs}\nprintf "%s\\n" "$@" > {said}\nexit 2\n')
    python.chmod(0o755)
    options = ["--period", "2026-10", "--usage", "a b", "--account", "111122223333", "--close"]
    options += ["--accept", "a.txt,00ff"]
    ended = CliRunner().invoke(tidegate, ["bill", "--python", str(python), *options])
    assert ended.exit_code == 2
    assert said.read_text().splitlines() == [
        "-m",
        "glue_jobs.bill",
        "--usage=a b",
        "--out=data/bills",
        "--period=2026-10",
        "--account=111122223333",
        "--accounts=",
        "--customers=",
        "--prices=",
        "--exports=",
        "--close=yes",
        "--accept=a.txt,00ff",
        "--gap_minutes=2",
        "--kept_days=0",
        "--chained=",
        "--memory=3g",
    ]


def test_without_spark_it_says_how_to_get_it(tmp_path: Path) -> None:
    ended = CliRunner().invoke(tidegate, ["bill", "--python", str(tmp_path / "none")])
    assert ended.exit_code == 2
    assert "is not there; `make bill` installs it" in ended.output


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("#!/bin/sh\nexit 1\n", "returned non-zero exit status 1"),
        ("#!/bin/sh\necho no module named pyspark >&2\nexit 1\n", "jobs: no module named pyspark"),
        ("#!/nowhere\n", "does not run the jobs: No such file or directory"),
    ],
)
@pytest.mark.parametrize("command", [["bill"], ["audit", "--exports", "e"]])
def test_a_python_that_does_not_run_the_jobs_is_refused(
    tmp_path: Path, command: list[str], script: str, said: str
) -> None:
    python = tmp_path / "python"
    python.write_text(script)
    python.chmod(0o755)
    ended = CliRunner().invoke(tidegate, [*command, "--python", str(python)])
    assert (ended.exit_code, said in ended.output) == (2, True), ended.output


def test_the_python_of_the_command_is_taken_where_it_has_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark, "find_spec", lambda name: name)
    assert spark.spark_python(None) == Path(sys.executable)


def test_where_there_is_no_spark_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark, "_OF_CHECKOUT", tmp_path / "a/b/c/python")
    with pytest.raises(click.UsageError, match=r"pip install 'tidegate\[bill\]'"):
        spark.spark_python(None)


def test_a_month_is_that_of_its_moment_in_utc() -> None:
    assert (month(0), month(1_796_083_199), month(1_796_083_200)) == (
        "1970-01",
        "2026-11",
        "2026-12",
    )
