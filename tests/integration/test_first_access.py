"""`tidegate root`: the first access key of a table that nobody has served yet."""

import configparser
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from data_plane.dynamodb.opening import make_table
from tests.integration.dynamodb_engine import Engine
from tests.integration.server_process import ServerProcess, run_command


@pytest.fixture
def engine() -> Iterator[Engine]:
    started = Engine()
    yield started
    started.stop()


def root(engine: Engine, key: str, data: Path) -> tuple[int, str, str]:
    """Exit code, what was printed, what was said."""
    done = run_command(
        *("root", "--endpoint", engine.url, "--table", engine.table, "--kms-key", key),
        *("--data", str(data)),
    )
    return done.returncode, done.stdout, done.stderr


def test_the_key_is_the_one_that_servers_on_the_table_know(engine: Engine, tmp_path: Path) -> None:
    dynamodb = engine.client()
    make_table(dynamodb, engine.table)
    key = engine.client("kms").create_key()["KeyMetadata"]["Arn"]
    file = tmp_path / "data" / "credentials"

    code, printed, said = root(engine, key, tmp_path / "data")
    assert (code, printed) == (0, f"export AWS_SHARED_CREDENTIALS_FILE={file}\n"), said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    parser = configparser.RawConfigParser()
    parser.read(file)
    secret = parser["default"]["aws_secret_access_key"]
    assert secret not in printed + said
    assert said.startswith("tidegate: root access key created: account=000000000000 key=AKIA")
    text = file.read_text()

    # Again: nothing is made.
    assert root(engine, key, tmp_path / "data") == (0, printed, "")
    assert file.read_text() == text

    # Elsewhere, where its file is not: still nothing, but by an explicit wish.
    code, printed, _ = root(engine, key, tmp_path / "elsewhere")
    assert code == 0
    assert "put it back, or start once with --new-root-key" in printed
    assert not (tmp_path / "elsewhere" / "credentials").exists()

    options = ("--cell", "dynamodb", "--endpoint", engine.url, "--table", engine.table)
    keys = ("--kms-key", key, "--kms-endpoint", engine.url)
    server = ServerProcess(
        tmp_path / "data", tmp_path / "log", options=(*options, *keys), auth="on"
    )
    server.start()
    try:
        assert f"export AWS_SHARED_CREDENTIALS_FILE={file}" in server.greeting
        assert server.client().create_queue(QueueName="first")["QueueUrl"].endswith("/first")
    finally:
        server.kill()


def test_a_table_that_is_not_there_is_not_made(engine: Engine, tmp_path: Path) -> None:
    key = engine.client("kms").create_key()["KeyMetadata"]["Arn"]
    code, printed, said = root(engine, key, tmp_path)
    assert (code, printed) == (1, "")
    assert said.startswith(f"tidegate: table: cannot read '{engine.table}': ")
    assert said.count("\n") == 1
    with pytest.raises(ClientError, match="ResourceNotFoundException"):
        engine.client().describe_table(TableName=engine.table)
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_is_not_there(engine: Engine, tmp_path: Path) -> None:
    dynamodb = engine.client()
    make_table(dynamodb, engine.table)
    code, printed, said = root(engine, "alias/nobody", tmp_path)
    assert (code, printed) == (1, "")
    assert said.startswith("tidegate: kms-key: cannot open the registry secret: ")
    assert dynamodb.scan(TableName=engine.table)["Count"] == 0
    assert list(tmp_path.iterdir()) == []
    code, _, said = root(engine, "no key", tmp_path)
    assert (code, said) == (2, "tidegate: kms-key: 'no key' is no id, alias or ARN of a KMS key\n")
