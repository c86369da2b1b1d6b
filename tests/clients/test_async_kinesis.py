"""async-kinesis, unmodified, against a real server; it pins a botocore that others here do not."""

import json
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.integration.server_process import ROOT, ServerProcess

PYTHON: Final = ROOT / ".venvs/kinesis/bin/python"
RUN_S_MAX: Final = 60


@pytest.mark.nightly
@pytest.mark.skipif(not PYTHON.exists(), reason="async-kinesis is missing: `make nightly` has it")
def test_what_is_produced_is_consumed(
    server: ServerProcess, client_environment: dict[str, str], folder: Path, queue_name: str
) -> None:
    ran = subprocess.run(
        [str(PYTHON), str(folder / "async_kinesis.py"), server.url, queue_name],
        env=client_environment,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == {"read": list(range(50))}
