"""Tests that share an engine, a deployment or a Spark run one after the other, in one worker."""

import os
import re
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

@pytest.mark.xdist_group("engine")
@pytest.mark.parametrize("number", range(8))
def test_of_a_group(number):
    pass
"""


def test_a_group_has_one_worker(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-v"]
    # Options for this run are not for that one: a `--basetemp` of both would be emptied under us.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    workers = re.findall(r"^\[(gw\d)\] .* PASSED", ran.stdout, re.MULTILINE)
    assert len(workers) == 8, ran.stdout
    assert len(set(workers)) == 1, ran.stdout
