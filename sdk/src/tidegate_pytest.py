"""Fixtures for tests that use queues: a server for each process of pytest, an account a test.

An account sees no queues of another one, so that tests need no clean-up, whatever their order, and
also under pytest-xdist. `pip install 'tidegate-sdk[pytest]'` is all; pytest finds the fixtures.
"""

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, cast

import pytest

if TYPE_CHECKING:
    from pathlib import Path

REGION: Final = "us-east-1"

_OPTIONS: Final = (
    *("--auth", "off", "--host", "127.0.0.1", "--port", "0"),
    *("--usage", "off", "--metrics", "off", "--log-level", "error", "--no-sixty-second-rules"),
)
_STOP_S_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class TidegateTestServer:
    """A server that serves at `url`, without authentication, for as long as the tests run."""

    url: str
    _accounts: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def new_account(self) -> str:
        """The id of an account, 12 digits, that nobody has used yet."""
        return f"{next(self._accounts):012d}"

    def client(self, account: str, **options: Any) -> Any:
        """An SQS client of boto3, with Tidegate's extensions, that calls as this account."""
        from tidegate_sdk.session import client  # noqa: PLC0415 - tests without queues need no boto3

        given = {
            "region_name": REGION,
            "aws_access_key_id": account,
            "aws_secret_access_key": "any",
        }
        return client(self.url, **(given | options))


@pytest.fixture(scope="session")
def tidegate_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidegateTestServer]:
    """A server of this process's own, on a free port, with a directory that is thrown away."""
    process, output = _start(tmp_path_factory.mktemp("tidegate"))
    with process, output:
        try:
            greeting = output.readline()
            if " on http" not in greeting:
                said = process.stderr.read() if process.stderr is not None else ""
                pytest.fail(f"tidegate does not start: {said}", pytrace=False)
            yield TidegateTestServer(greeting.split(" on ")[1].split(",")[0])
        finally:
            process.terminate()
            if process.stderr is not None:
                process.stderr.close()
            process.wait(_STOP_S_MAX)


@pytest.fixture
def tidegate_account(tidegate_server: TidegateTestServer) -> str:
    """An account of this test's own."""
    return tidegate_server.new_account()


@pytest.fixture
def tidegate_sqs(tidegate_server: TidegateTestServer, tidegate_account: str) -> Any:
    """A client of the account; its `meta.endpoint_url` is for code that makes its own clients."""
    made = tidegate_server.client(tidegate_account)
    yield made
    made.close()


@pytest.fixture
def tidegate_queue(tidegate_sqs: Any) -> str:
    """The URL of a standard queue."""
    return str(tidegate_sqs.create_queue(QueueName="queue")["QueueUrl"])


def _start(folder: "Path") -> "tuple[subprocess.Popen[str], IO[str]]":
    clean = {name: text for name, text in os.environ.items() if not name.startswith("TIDEGATE_")}  # noqa: TID251 - a server's settings are not those of whoever runs tests
    command = [sys.executable, "-m", "control_plane.cli", "serve", *_OPTIONS]
    process = subprocess.Popen(  # noqa: S603 - the server itself
        [*command, "--data", str(folder / "data")],
        env=clean,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, cast("IO[str]", process.stdout)
