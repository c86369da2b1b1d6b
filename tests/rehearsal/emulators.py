"""Engines that speak DynamoDB's and S3's API on this machine, each as a context manager.

They differ, and each is wrong somewhere; what passes on all of them has been seen by three authors.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import boto3
from botocore.config import Config

from data_plane.dynamodb.opening import make_table
from tests.ports import free_port
from tests.rehearsal import dynamodb_local as local
from tests.rehearsal.processes import HOST, Program, UnavailableError, a_way_out_exists
from tests.rehearsal.processes import running as running_program

REGION: Final = "us-east-1"
CREDENTIALS: Final = {"aws_access_key_id": "rehearsal", "aws_secret_access_key": "rehearsal"}

ENGINES: Final = ("ministack", "moto", "dynamodb-local")
S3_ENGINES: Final = ("ministack", "moto")

_IN_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a folder of its own there
_SCRATCH_BYTES_MAX: Final = 4 * 1024**3

_MINISTACK: Final = local.ENVIRONMENTS / "emulators" / "bin" / "ministack"


@contextmanager
def running(engine: str, folder: Path) -> Iterator[str]:
    """The URL of a fresh engine, which logs into the folder. Raises UnavailableError."""
    program = {"ministack": ministack, "moto": moto, "dynamodb-local": dynamodb_local}[engine]()
    # What it leaves lying about goes with it: MiniStack lays each function out anew.
    with TemporaryDirectory(dir=_scratch_place(folder), ignore_cleanup_errors=True) as scratch:
        program.environment["TMPDIR"] = scratch
        with running_program(program, folder / f"{engine}.log") as url:
            _warm_up(url)
            yield url


def _scratch_place(otherwise: Path) -> Path:
    """In memory, where there is plenty: a copy of a function is 100 MB in thousands of files."""
    if _IN_MEMORY.is_dir() and shutil.disk_usage(_IN_MEMORY).free >= _SCRATCH_BYTES_MAX:
        return _IN_MEMORY
    return otherwise


def _warm_up(url: str) -> None:
    """Take the first requests, for which engines read their code: a cell would not wait so long."""
    engine = client("dynamodb", url, timeout_s=60)
    make_table(engine, "warm-up")
    key = {"pk": {"S": "warm"}, "sk": {"B": b"up"}}
    engine.put_item(TableName="warm-up", Item=key)
    engine.get_item(TableName="warm-up", Key=key)
    engine.delete_table(TableName="warm-up")
    engine.close()


def ministack() -> Program:
    """MiniStack, in an environment of its own because it pins botocore."""
    if not _MINISTACK.exists():
        raise UnavailableError("MiniStack is not installed (requirements/emulators.txt)")
    port = free_port()
    return Program(
        "MiniStack",
        [str(_MINISTACK)],
        port,
        "/_ministack/health",
        {
            "BIND_HOST": HOST,
            "GATEWAY_PORT": str(port),
            "MINISTACK_REGION": REGION,
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "LAMBDA_EXECUTOR": "local",
        },
    )


def moto() -> Program:
    """The server of moto."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", HOST, "-p", str(port)]
    return Program("moto", command, port, "/moto-api/")


def dynamodb_local() -> Program:
    """DynamoDB Local, which listens on all interfaces: only where there are no others."""
    if a_way_out_exists():
        raise UnavailableError(
            "DynamoDB Local listens on all interfaces, so it needs a network of its own"
        )
    folder, port = local.engine(), free_port()
    command = [
        local.java(),
        "-Xmx512m",
        "-Djava.library.path=./DynamoDBLocal_lib",
        "-jar",
        "DynamoDBLocal.jar",
        "-inMemory",
        "-sharedDb",
        "-disableTelemetry",
        "-port",
        str(port),
    ]
    return Program("DynamoDB Local", command, port, folder=folder)


def client(
    service: str,
    url: str,
    *,
    timeout_s: float = 30,
    mode: Literal["legacy", "standard"] = "standard",
    attempts: int = 1,
) -> Any:
    """A plain SDK client; it makes so many attempts of each call."""
    connect: Any = boto3.client  # the overloads want the service spelled out
    return connect(
        service,
        endpoint_url=url,
        region_name=REGION,
        config=Config(
            connect_timeout=timeout_s,
            read_timeout=timeout_s,
            retries={"mode": mode, "total_max_attempts": attempts},
            s3={"addressing_style": "path"},
        ),
        **CREDENTIALS,
    )
