"""A Tidegate server in a process of its own, its messages on DynamoDB at an endpoint."""

import http.client
import re
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from tests.rehearsal.dynamodb_local import ROOT
from tests.rehearsal.processes import Program, free_port, running

_FAILED: Final = re.compile(r'^tidegate_requests_total\{.*status="500".*', re.MULTILINE)


@contextmanager
def serving(
    endpoint: str, folder: Path, *options: str, module: str = "control_plane.cli"
) -> Iterator[str]:
    """The URL of a server with a new table at the endpoint; its log is in the folder."""
    name, port = f"tidegate-{uuid.uuid4().hex[:8]}", free_port()
    command = [sys.executable, "-m", module, "serve", "--port", str(port)]
    command += ["--cell", "dynamodb", "--endpoint", endpoint, "--table", name]
    command += ["--log-level", "warning", "--no-sixty-second-rules", *options]
    program = Program("tidegate", command, port, "/health", folder=ROOT)
    with running(program, folder / f"{name}.log") as url:
        yield url


def internal_failures(url: str) -> list[str]:
    """Lines of the server's metrics about requests that were answered with an internal failure."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    return [match.group() for match in _FAILED.finditer(text)]
