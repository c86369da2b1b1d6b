"""A real server in a process of its own, and boto3 clients for it."""

import configparser
import http.client
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.integration import forked
from tests.integration.forked import Forked, starter
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
START_S_MAX = 60
STOP_S_MAX = 60
COMMAND_S_MAX = 120
ANSWER_S_MAX = 60
"""Long polls are of 20 s."""

LAG_S_MAX = 60
"""A server that a busy machine holds up is not to refuse what comes meanwhile."""


PROGRAM = ("-m", "control_plane.cli")


def command(*arguments: str, program: tuple[str, ...] = PROGRAM) -> list[str]:
    return [sys.executable, *program, *arguments]


NOWHERE = "http://127.0.0.1:1"
"""For commands without an --endpoint, which must not meet a server that somebody runs here."""


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TIDEGATE_ENDPOINT": NOWHERE}
    server = starter(environment)
    if server is not None:
        return forked.run(server, arguments, environment, COMMAND_S_MAX)
    return subprocess.run(
        command(*arguments),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )


@dataclass
class ServerProcess:
    """Serves `data`; may be killed and started again, on the same port.

    With an `authority` to trust its certificate by, it is one that speaks HTTPS. Port 0 becomes the
    one that it says. Its log goes to the file `stderr`, if that is there, else to `log`.
    `environment` is added to this process's.
    """

    data: Path
    log: Path
    port: int = field(default_factory=free_port)
    options: tuple[str, ...] = ()
    auth: str = "off"
    authority: Path | None = None
    program: tuple[str, ...] = PROGRAM
    stderr: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[str] | Forked | None = None
    greeting: str = ""

    @property
    def url(self) -> str:
        scheme = "https" if self.authority is not None else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    @property
    def access_key(self) -> tuple[str, str]:
        """Id and secret of the root's access key; any serve where authentication is off."""
        if self.auth == "off":
            return "any", "any"
        credentials = configparser.RawConfigParser()
        credentials.read_string((self.data / "credentials").read_text())
        section = credentials["default"]
        return section["aws_access_key_id"], section["aws_secret_access_key"]

    def start(self) -> None:
        """Start it and return when it is well."""
        arguments = [
            *("serve", "--port", str(self.port), "--data", str(self.data), "--auth", self.auth),
            *("--lag", str(LAG_S_MAX), *self.options),
        ]
        with self.log.open("ab") as log:
            stderr = log.fileno() if self.stderr is None else self.stderr
            self.process = self._process(arguments, stderr)
        assert self.process.stdout is not None
        self.greeting = "".join(self.process.stdout.readline() for _ in range(2))
        said = re.search(r" on \S+:(\d+), ", self.greeting)
        assert said is not None, f"the server does not start: {self.log.read_text()}"
        self.port = int(said[1])
        until_s = time.monotonic() + START_S_MAX
        while (health := self.get("/health"))[0] != 200:
            assert time.monotonic() < until_s, health
            time.sleep(0.05)  # between two looks

    def _process(self, arguments: Sequence[str], stderr: int) -> "subprocess.Popen[str] | Forked":
        environment = {**os.environ, **self.environment}
        server = starter(environment) if self.program == PROGRAM else None
        if server is not None:
            return Forked(server, arguments, environment, stdout=None, stderr=stderr)
        return subprocess.Popen(
            command(*arguments, program=self.program),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
            env=environment,
        )

    def get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_S_MAX)
        if self.authority is not None:
            trusted = ssl.create_default_context(cafile=self.authority)
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self.port, timeout=ANSWER_S_MAX, context=trusted
            )
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def kill(self) -> None:
        """As a crash does."""
        self._end(signal.SIGKILL)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """As an operator does; the exit code."""
        return self._end(number)

    def _end(self, number: int) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        code = self.process.wait(timeout=STOP_S_MAX)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def client(self, *, attempts: int = 1) -> Any:
        return boto3.client(
            "sqs",
            endpoint_url=self.url,
            verify=str(self.authority) if self.authority is not None else None,
            region_name="us-east-1",
            aws_access_key_id=self.access_key[0],
            aws_secret_access_key=self.access_key[1],
            config=Config(
                retries={"total_max_attempts": attempts},
                connect_timeout=ANSWER_S_MAX,
                read_timeout=ANSWER_S_MAX,
            ),
        )
