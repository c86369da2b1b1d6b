"""`make` refuses what it would ignore."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]

SIMULATION: Final = (sys.executable, "-m", "tests.simulation", "--check")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--dry-run", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_variable_that_is_misspelled_is_named() -> None:
    ran = make("simulate", "SEDS=3")
    assert ran.returncode == 2
    assert "there is no variable SEDS" in ran.stderr


def test_known_variables_are_taken_whatever_they_hold() -> None:
    ran = make("drill", "ROUNDS=3", "DRILL=--only backup --folder a=b")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "--rounds 3 --only backup --folder a=b" in ran.stdout


def test_options_of_simulations_are_checked_before_anything_runs() -> None:
    ran = make("simulate", "SEEDS=abc", "SIMULATE=--kind fifo")
    check, tests, universes = [
        line.strip() for line in ran.stdout.splitlines() if " -m tests." in line
    ]
    assert universes.endswith(" -m tests.simulation --seeds abc --kind fifo")
    assert check == f"{universes} --check"
    assert tests.endswith("tests/simulation")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--seeds", "abc"), "argument --seeds: invalid int value: 'abc'"),
        (("--kind", "no-such"), "argument --kind: invalid choice: 'no-such'"),
        (("--planted", "--kind", "machines-fifo"), "no bugs are planted in machines-fifo"),
        (("--seeds", "1000000", "--kind", "fifo"), ""),
    ],
)
def test_a_check_of_options_runs_nothing(options: tuple[str, ...], said: str) -> None:
    ran = subprocess.run(
        (*SIMULATION, *options), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (ran.returncode, ran.stdout) == (2 if said else 0, "")
    assert said in ran.stderr


def test_jobs_that_bill_have_both_environments() -> None:
    ran = make("--always-make", "test-spark")
    for environment in ("requirements/test.txt", "requirements/spark.txt"):
        assert f'echo "installing {environment}"' in ran.stdout
