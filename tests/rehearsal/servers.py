"""A Tidegate server in a process of its own, its messages on DynamoDB at an endpoint."""

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.integration.server_process import ServerProcess

_FAILED: Final = re.compile(r'^tidegate_requests_total\{.*status="500".*', re.MULTILINE)


@contextmanager
def serving(
    endpoint: str, folder: Path, *options: str, module: str = "control_plane.cli"
) -> Iterator[ServerProcess]:
    """A server with a new table at the endpoint; `module` is what is run in its process."""
    table = f"tidegate-{uuid.uuid4().hex[:8]}"
    cell = ("--cell", "dynamodb", "--endpoint", endpoint, "--table", table)
    quiet = ("--log-level", "warning", "--no-sixty-second-rules")
    data, log = folder / table, folder / f"{table}.log"
    server = ServerProcess(data, log, options=(*cell, *quiet, *options), module=module)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def internal_failures(server: ServerProcess) -> list[str]:
    """What its metrics say of requests that were answered with an internal failure."""
    _, text = server.get("/metrics")
    return [match.group() for match in _FAILED.finditer(text)]
