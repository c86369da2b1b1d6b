"""Run tests, and once more alone what fails: `python -m tests.lanes.once_more [--strict] ...`.

A test that passes then is told in a line that begins with "flaky:", and fails the run only if it
is to be strict. All other options are pytest's.
"""

import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

STRICT: Final = "--strict"


def _pytest(cache: str, options: Sequence[str]) -> int:
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *options]
    return subprocess.run(command, check=False).returncode


def _failed(cache: str) -> list[str]:
    """The names of tests that failed; none where pytest came to no end."""
    kept = Path(cache, "v/cache/lastfailed")
    return sorted(json.loads(kept.read_text())) if kept.exists() else []


def main(arguments: Sequence[str]) -> int:
    """The exit code of pytest, or 0 if all that failed passes alone and nothing is strict."""
    options = [argument for argument in arguments if argument != STRICT]
    with tempfile.TemporaryDirectory() as cache:
        code = _pytest(cache, options)
        if code == pytest.ExitCode.NO_TESTS_COLLECTED:
            print(f"no test matches: {shlex.join(options)}", flush=True)
        failed = _failed(cache)
        if code != pytest.ExitCode.TESTS_FAILED or not failed or STRICT in arguments:
            return code
        print(f"once more, alone: {len(failed)} that failed", flush=True)
        again = _pytest(cache, [*options, "--lf", "--lfnf=none", "-n", "0"])
        if again:
            return again
    print(*(f"flaky: {name}" for name in failed), sep="\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
