"""A Tidegate server in a process of its own, its messages on DynamoDB at an endpoint."""

import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.integration.server_process import PROGRAM, ServerProcess

_FAILED: Final = re.compile(r'^tidegate_requests_total\{.*status="500".*', re.MULTILINE)


@contextmanager
def serving(
    endpoint: str, folder: Path, *options: str, count: int = 1, program: tuple[str, ...] = PROGRAM
) -> Iterator[list[ServerProcess]]:
    """Servers that share a new table at the endpoint; `program` is what Python runs."""
    table = f"tidegate-{uuid.uuid4().hex[:8]}"
    cell = ("--cell", "dynamodb", "--endpoint", endpoint, "--table", table)
    bodies = ("--blobs", str(folder / f"{table}-bodies"))
    keys = ("--master-keys", str(folder / f"{table}.keys"))
    quiet = ("--log-level", "warning", "--no-sixty-second-rules")
    servers = [
        ServerProcess(
            folder / f"{table}-{number}",
            folder / f"{table}-{number}.log",
            options=(*cell, *bodies, *keys, *quiet, *options),
            program=program,
        )
        for number in range(count)
    ]
    try:
        servers[0].start()  # and makes the keys, which the others need
        with ThreadPoolExecutor() as pool:
            list(pool.map(ServerProcess.start, servers[1:]))
        yield servers
    finally:
        for server in servers:
            if server.process is not None:
                server.kill()


def internal_failures(server: ServerProcess) -> list[str]:
    """What its metrics say of requests that were answered with an internal failure."""
    _, text = server.get("/metrics")
    return [match.group() for match in _FAILED.finditer(text)]
