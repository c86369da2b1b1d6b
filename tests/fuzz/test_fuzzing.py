"""A short campaign with the same inputs each time; `python -m tests.fuzz` runs longer ones.

It follows no coverage: to instrument what is fuzzed takes ten times as long as the inputs do.
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
    command = shlex.split(found.stdout.removeprefix("broken: "))
    assert Path(ROOT, command[0]) == Path(sys.executable)
    assert command[1:5] == ["-m", "tests.fuzz", "planted", "--replay"]
    again = campaign("-c", PLANTED, *command[3:])
    assert again.returncode == 1
    assert "ValueError: planted" in again.stderr


def test_an_input_that_breaks_nothing_says_so() -> None:
    for octets, count in (("YWI=", 2), ("", 0)):
        again = campaign("-c", PLANTED, "planted", "--replay", octets)
        said = f"planted: {count} bytes, nothing broke\n"
        assert (again.returncode, again.stdout) == (0, said), again.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--replay", "AAAA"), "--replay needs the target that the input is for"),
        (("verifier", "--replay", "%%"), "argument --replay: '%%' is not base64"),
        (("verifier", "--replay", "é"), "argument --replay: 'é' is not base64"),
        (("no-such", "--replay", "AAAA"), "no target 'no-such'"),
    ],
)
def test_what_cannot_be_run_again_is_refused(arguments: tuple[str, ...], said: str) -> None:
    refused = campaign("-m", "tests.fuzz", *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert said in refused.stderr.splitlines()[-1]
