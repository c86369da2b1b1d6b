"""`tidegate bill` hands its options to the job, and the job's exit code back."""

from pathlib import Path

from click.testing import CliRunner

from control_plane.cli.main import tidegate
from control_plane.cli.times import month


def test_options_become_arguments_of_the_job(tmp_path: Path) -> None:
    said, python = tmp_path / "said", tmp_path / "python"
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {said}\nexit 2\n')
    python.chmod(0o755)
    options = ["--period", "2026-10", "--usage", "a b", "--account", "111122223333", "--close"]
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
        "--prices=",
        "--exports=",
        "--close=yes",
        "--kept_days=0",
        "--memory=3g",
    ]


def test_without_spark_it_says_how_to_get_it(tmp_path: Path) -> None:
    ended = CliRunner().invoke(tidegate, ["bill", "--python", str(tmp_path / "none")])
    assert ended.exit_code == 2
    assert "is not there; `make bill` installs it" in ended.output


def test_a_month_is_that_of_its_moment_in_utc() -> None:
    assert (month(0), month(1_796_083_199), month(1_796_083_200)) == (
        "1970-01",
        "2026-11",
        "2026-12",
    )
