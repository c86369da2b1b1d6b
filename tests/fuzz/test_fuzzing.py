"""A short campaign with the same inputs each time; `python -m tests.fuzz` runs longer ones.

It follows no coverage: to instrument what is fuzzed takes ten times as long as the inputs do.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
INPUTS = 1400
PLANTED = """
import runpy, sys
from tests.fuzz import targets

def run(octets):
    if octets[:1] == b"b" and len(octets) > 2:
        raise ValueError("planted")

targets.TARGETS = {"planted": lambda: targets.Target([b"ab"], run)}
sys.argv = ["tests.fuzz", *sys.argv[1:]]
runpy.run_module("tests.fuzz", run_name="__main__", alter_sys=True)
"""


def campaign(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, *arguments),
        cwd=ROOT,
        env={"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_short_campaign_breaks_nothing(record_property: Any) -> None:
    done = campaign("-m", "tests.fuzz", "--plain", "--runs", str(INPUTS))
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.findall(r"([a-z-]+) (\d+)(?:, |$)", done.stdout.strip().rpartition(": ")[2])
    assert {name for name, _ in counts} == {
        "forms",
        "json",
        "kinesis",
        "policies",
        "receipt-handles",
        "streams",
        "tokens",
        "verifier",
    }
    assert sum(int(count) for _, count in counts) == INPUTS
    record_property("says", " / ".join(done.stdout.split("\n")).strip(" /"))


def test_what_breaks_is_found_and_can_be_run_again() -> None:
    found = campaign("-c", PLANTED, "planted", "--plain")
    assert found.returncode == 1, found.stdout + found.stderr
    assert "ValueError: planted" in found.stderr
    command = re.search(r"^broken: python -m tests\.fuzz (planted --replay \S+)$", found.stdout)
    assert command is not None
    again = campaign("-c", PLANTED, *command[1].split())
    assert "ValueError: planted" in again.stderr
