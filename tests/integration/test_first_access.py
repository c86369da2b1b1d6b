"""`tidegate root`: the first access key of a table that nobody has served yet."""

import configparser
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.server import ThreadedMotoServer

from data_plane.dynamodb.opening import make_table
from tests.integration.server_process import ServerProcess, free_port, run_command

_NUMBERS = count()


@pytest.fixture
def table() -> str:
    """What is stored outlives its engine, so each test has a table of its own."""
    return f"deployed-{next(_NUMBERS)}"


@pytest.fixture
def engine() -> Iterator[str]:
    port = free_port()
    server = ThreadedMotoServer("127.0.0.1", port, verbose=False)
    server.start()
    yield f"http://127.0.0.1:{port}"
    server.stop()


def client(service: Any, endpoint: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
    )


def root(engine: str, table: str, key: str, data: Path) -> tuple[int, str, str]:
    """Exit code, what was printed, what was said."""
    done = run_command(
        *("root", "--endpoint", engine, "--table", table, "--kms-key", key),
        *("--data", str(data)),
    )
    return done.returncode, done.stdout, done.stderr


def test_the_key_is_the_one_that_servers_on_the_table_know(
    engine: str, table: str, tmp_path: Path
) -> None:
    dynamodb = client("dynamodb", engine)
    make_table(dynamodb, table)
    key = client("kms", engine).create_key()["KeyMetadata"]["Arn"]
    file = tmp_path / "data" / "credentials"

    code, printed, said = root(engine, table, key, tmp_path / "data")
    assert (code, printed) == (0, f"export AWS_SHARED_CREDENTIALS_FILE={file}\n"), said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    parser = configparser.RawConfigParser()
    parser.read(file)
    secret = parser["default"]["aws_secret_access_key"]
    assert secret not in printed + said
    assert said.startswith("tidegate: root access key created: account=000000000000 key=AKIA")
    text = file.read_text()

    # Again: nothing is made.
    assert root(engine, table, key, tmp_path / "data") == (0, printed, "")
    assert file.read_text() == text

    # Elsewhere, where its file is not: still nothing, but by an explicit wish.
    code, printed, _ = root(engine, table, key, tmp_path / "elsewhere")
    assert code == 0
    assert "put it back, or start once with --new-root-key" in printed
    assert not (tmp_path / "elsewhere" / "credentials").exists()

    options = ("--cell", "dynamodb", "--endpoint", engine, "--table", table)
    keys = ("--kms-key", key, "--kms-endpoint", engine)
    server = ServerProcess(
        tmp_path / "data", tmp_path / "log", options=(*options, *keys), auth="on"
    )
    server.start()
    try:
        assert f"export AWS_SHARED_CREDENTIALS_FILE={file}" in server.greeting
        assert server.client().create_queue(QueueName="first")["QueueUrl"].endswith("/first")
    finally:
        server.kill()


def test_a_table_that_is_not_there_is_not_made(engine: str, table: str, tmp_path: Path) -> None:
    key = client("kms", engine).create_key()["KeyMetadata"]["Arn"]
    code, printed, said = root(engine, table, key, tmp_path)
    assert (code, printed) == (1, "")
    assert said.startswith(f"tidegate: table: cannot read '{table}': ")
    assert said.count("\n") == 1
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        client("dynamodb", engine).describe_table(TableName=table)
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_is_not_there(engine: str, table: str, tmp_path: Path) -> None:
    dynamodb = client("dynamodb", engine)
    make_table(dynamodb, table)
    code, printed, said = root(engine, table, "alias/nobody", tmp_path)
    assert (code, printed) == (1, "")
    assert said.startswith("tidegate: kms-key: cannot open the registry secret: ")
    assert dynamodb.scan(TableName=table)["Count"] == 0
    assert list(tmp_path.iterdir()) == []
    code, _, said = root(engine, table, "no key", tmp_path)
    assert (code, said) == (2, "tidegate: kms-key: 'no key' is no id, alias or ARN of a KMS key\n")
