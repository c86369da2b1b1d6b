"""What fails is run once more alone, and what passes then is told."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lanes import once_more

ALWAYS = "def test_always(): assert False\n"
FIRST = """
from pathlib import Path
def test_first():
    mark = Path(__file__).with_suffix(".ran")
    was_there = mark.exists()
    mark.touch()
    assert was_there
"""
NEVER = "def test_never(): pass\n"


def run(
    folder: Path, *tests: str, strict: bool = False, only: str = ""
) -> subprocess.CompletedProcess[str]:
    (folder / "test_some.py").write_text("\n".join(tests))
    (folder / "pytest.ini").touch()
    options = ["-p", "xdist", "-c", "pytest.ini", "--rootdir", ".", "-k", only]
    strictly = [once_more.STRICT] if strict else []
    command = [sys.executable, once_more.__file__, *strictly, *options, "test_some.py"]
    environment = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_a_test_that_passes_alone_is_flaky(tmp_path: Path) -> None:
    ran = run(tmp_path, FIRST, NEVER)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "\nflaky: test_some.py::test_first\n" in ran.stdout
    assert "never" not in ran.stdout.partition("once more")[2]


def test_a_flaky_test_fails_a_strict_run(tmp_path: Path) -> None:
    ran = run(tmp_path, FIRST, NEVER, strict=True)
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
    assert "flaky:" not in ran.stdout


def test_a_test_that_fails_again_fails_the_run(tmp_path: Path) -> None:
    ran = run(tmp_path, FIRST, ALWAYS)
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
    assert "flaky:" not in ran.stdout


def test_tests_that_cannot_be_read_fail_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, "import nothing_of_this_name").returncode == pytest.ExitCode.INTERRUPTED


def test_a_run_without_failures_is_quiet(tmp_path: Path) -> None:
    ran = run(tmp_path, NEVER)
    assert (ran.returncode, "once more" in ran.stdout) == (0, False)


@pytest.mark.parametrize("strict", [False, True])
def test_a_run_without_tests_says_so_and_fails(tmp_path: Path, *, strict: bool) -> None:
    ran = run(tmp_path, NEVER, strict=strict, only="no_such")
    assert ran.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
    assert ran.stdout.splitlines()[-1].startswith("no test matches: ")
    assert ran.stdout.endswith(" -k no_such test_some.py\n")
