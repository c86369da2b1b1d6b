"""`make` refuses what it would ignore."""

import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


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
