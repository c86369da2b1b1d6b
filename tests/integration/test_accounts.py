"""A server that verifies signatures, with SDKs and the command line, from its first start on."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from click.testing import CliRunner
from pyarrow import parquet

from control_plane.cli.main import tidegate as commands
from tests.integration.server_process import ServerProcess, run_command


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[ServerProcess]:
    started = ServerProcess(tmp_path / "data", tmp_path / "log", auth="on")
    started.start()
    yield started
    if started.process is not None:
        started.kill()


@pytest.fixture(autouse=True)
def no_own_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that whoever runs the tests has configured for AWS."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def client(server: ServerProcess, credentials: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """As the line that the server prints lets a program make one: without keys or a region."""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    made = boto3.session.Session().client(
        "sqs", endpoint_url=server.url, config=Config(retries={"total_max_attempts": 1})
    )
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE")
    return made


def stranger(server: ServerProcess) -> Any:
    """A client with an access key that nobody has made."""
    return boto3.client(
        "sqs",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="AKIAIOSFODNN7EXAMPLE",
        aws_secret_access_key="any",
        config=Config(retries={"total_max_attempts": 1}),
    )


def tidegate(server: ServerProcess, group: str, *arguments: str, credentials: Path) -> str:
    options = (group, "--endpoint", server.url, "--credentials", str(credentials))
    ended = CliRunner().invoke(commands, [*options, *arguments])
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


def secrets_in(*files: Path) -> list[str]:
    return [
        line.partition(" = ")[2]
        for file in files
        for line in file.read_text().splitlines()
        if line.startswith("aws_secret_access_key")
    ]


def test_from_the_first_start_to_a_revoked_key_of_another_account(
    guarded: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = guarded.data / "credentials"
    greeting = guarded.greeting
    assert greeting.splitlines()[1] == f"export AWS_SHARED_CREDENTIALS_FILE={root}"
    assert stat.S_IMODE(root.stat().st_mode) == 0o600
    assert json.loads(guarded.get("/health")[1])["authentication"] == "on"

    operator = client(guarded, root, monkeypatch)
    assert operator.meta.region_name == "us-east-1"
    url = operator.create_queue(QueueName="orders")["QueueUrl"]
    operator.send_message(QueueUrl=url, MessageBody="of the operator")
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        stranger(guarded).list_queues()

    account = tidegate(guarded, "account", "create", "shop", credentials=root).strip()
    shop_file, ann_file = tmp_path / "shop", tmp_path / "ann"
    shop_file.write_text(tidegate(guarded, "key", "create", "--account", account, credentials=root))
    shop = client(guarded, shop_file, monkeypatch)
    shop.create_queue(QueueName="orders")
    assert "Messages" not in shop.receive_message(QueueUrl="orders")
    with pytest.raises(ClientError, match="AccessDenied"):
        shop.receive_message(QueueUrl=url)

    policy = tmp_path / "policy.json"
    statement = {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": "*"}
    policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    created = ("create", "ann", "--policy", str(policy))
    user_id = tidegate(guarded, "user", *created, credentials=shop_file).strip()
    ann_file.write_text(tidegate(guarded, "key", "create", "--user", "ann", credentials=shop_file))
    ann = client(guarded, ann_file, monkeypatch)
    ann.send_message(QueueUrl="orders", MessageBody="of ann")
    answer = shop.receive_message(QueueUrl="orders", AttributeNames=["SenderId"])
    assert answer["Messages"][0]["Attributes"]["SenderId"] == user_id
    with pytest.raises(ClientError, match="AccessDenied"):
        ann.receive_message(QueueUrl="orders")

    (ann_id,) = [
        line.split()[0]
        for line in tidegate(guarded, "key", "list", credentials=shop_file).splitlines()
        if "ann" in line.split()
    ]
    tidegate(guarded, "key", "revoke", ann_id, "--yes", credentials=shop_file)
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        ann.send_message(QueueUrl="orders", MessageBody="too late")

    contents = root.read_bytes()
    assert guarded.stop() == 0
    guarded.start()
    assert guarded.greeting == greeting
    assert root.read_bytes() == contents
    answer = client(guarded, root, monkeypatch).receive_message(QueueUrl=url)
    assert answer["Messages"][0]["Body"] == "of the operator"

    said = greeting + guarded.log.read_text() + guarded.get("/metrics")[1]
    for secret in (*secrets_in(root, shop_file, ann_file), guarded_master_key(guarded)):
        assert secret
        assert secret not in said
    acts = [json.loads(line) for line in guarded.log.read_text().splitlines()]
    assert [act["act"] for act in acts if act["event"] == "administration"] == [
        "TidegateCreateAccount",
        "TidegateCreateAccessKey",
        "TidegateCreateUser",
        "TidegateCreateAccessKey",
        "TidegateRevokeAccessKey",
    ]


def guarded_master_key(server: ServerProcess) -> str:
    contents = json.loads((server.data / "master.keys").read_text())
    return str(contents["keys"][0]["key"])


def test_a_lost_file_and_an_open_one(guarded: ServerProcess) -> None:
    file = guarded.data / "credentials"
    guarded.stop()
    file.unlink()
    guarded.start()
    assert "start once with --new-root-key." in guarded.greeting
    assert not file.exists()
    guarded.stop()
    guarded.options = ("--new-root-key",)
    guarded.start()
    tidegate(guarded, "queue", "create", "orders", credentials=file)
    guarded.stop()
    where = ("--port", str(guarded.port), "--data", str(guarded.data))
    ended = run_command("serve", *where, "--new-root-key")
    assert ended.returncode == 2
    assert ended.stderr.endswith(f"tidegate: new-root-key: {file} is there; move it away first\n")


def test_commands_find_the_file_in_the_data_folder(guarded: ServerProcess) -> None:
    environment = {"TIDEGATE_ENDPOINT": guarded.url, "TIDEGATE_DATA": str(guarded.data)}
    ended = CliRunner().invoke(commands, ["queue", "create", "orders"], env=environment)
    assert (ended.stdout, ended.stderr) == (f"{guarded.url}/000000000000/orders\n", "")


def test_usage_says_who_did_what_and_who_was_refused(
    guarded: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = guarded.data / "credentials"
    tidegate(guarded, "user", "create", "reader", credentials=root)
    key = tmp_path / "reader"
    key.write_text(tidegate(guarded, "key", "create", "--user", "reader", credentials=root))
    url = client(guarded, root, monkeypatch).create_queue(QueueName="orders")["QueueUrl"]
    with pytest.raises(ClientError, match="AccessDenied"):
        client(guarded, key, monkeypatch).purge_queue(QueueUrl=url)
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        stranger(guarded).list_queues()
    assert guarded.stop() == 0
    rows = [
        row
        for path in (guarded.data / "usage" / "access").rglob("*.parquet")
        for row in parquet.read_table(path, partitioning=None).to_pylist()
    ]
    told = {(r["operation"], r["queue"], r["status"], r["code"]): r for r in rows}
    made = told["CreateQueue", "", "2xx", ""]
    denied = told["PurgeQueue", "orders", "4xx", "AccessDenied"]
    unknown = told["ListQueues", "", "4xx", "InvalidClientTokenId"]
    assert made["principal"] == "arn:aws:iam::000000000000:root"
    assert denied["principal"] == "arn:aws:iam::000000000000:user/reader"
    assert (unknown["principal"], unknown["access_key_id"], unknown["account"]) == ("", "", "")
    assert made["access_key_id"] != denied["access_key_id"] != ""
    assert {row["client"] for row in rows} == {"127.0.0.1"}


def test_a_root_key_that_is_given_serves_as_long_as_it_is_given(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", auth="on")
    names = ("TIDEGATE_ROOT_ACCESS_KEY_ID", "TIDEGATE_ROOT_SECRET_ACCESS_KEY")

    def listed(secret: str) -> Any:
        made = boto3.client(
            "sqs",
            endpoint_url=server.url,
            region_name="us-east-1",
            aws_access_key_id="ci-root",
            aws_secret_access_key=secret,
            config=Config(retries={"total_max_attempts": 1}),
        )
        return made.list_queues().get("QueueUrls", [])

    server.environment = dict(zip(names, ("ci-root", "canary-first"), strict=True))
    server.start()
    assert listed("canary-first") == []
    assert not (server.data / "credentials").exists()
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        listed("canary-second")
    ended = CliRunner().invoke(
        commands, ["queue", "--endpoint", server.url, "create", "orders"], env=server.environment
    )
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert server.stop() == 0
    server.environment = dict(zip(names, ("ci-root", "canary-second"), strict=True))
    server.start()
    assert len(listed("canary-second")) == 1
    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        listed("canary-first")
    server.stop()
    server.environment = {}
    server.start()
    with pytest.raises(ClientError, match="InvalidClientTokenId"):
        listed("canary-second")
    assert (server.data / "credentials").exists(), "the first start without one makes a key"
    server.stop()
    assert "canary" not in server.log.read_text() + server.greeting
