"""A server that shares its host: what stands before its paths is named by --base-url."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.integration.server_process import ServerProcess
from tests.ports import free_port


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder: Path = tmp_path_factory.mktemp("server")
    port = free_port()
    options = ("--base-url", f"http://127.0.0.1:{port}/sqs/")
    started = ServerProcess(folder / "data", folder / "log", port, options, auth="on")
    started.start()
    yield started
    started.kill()


def client(server: ServerProcess, path: str) -> Any:
    key, secret = server.access_key
    return boto3.client(
        "sqs",
        endpoint_url=server.url + path,
        region_name="us-east-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.mark.parametrize("path", ["/sqs", "/sqs/", "", "/"])
def test_a_client_with_or_without_the_prefix(server: ServerProcess, path: str) -> None:
    """Without: a client beside the server, or whose proxy takes the prefix away and signs anew."""
    sqs = client(server, path)
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    assert url.startswith(f"{server.url}/sqs/")
    assert url.endswith("/orders")
    sqs.send_message(QueueUrl=url, MessageBody="one")
    assert sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"][0]["Body"] == "one"
    # JavaScript's SDK sends a call to the queue's URL.
    account, name = url.split("/")[-2:]
    assert client(server, f"/sqs/{account}/{name}").get_queue_attributes(QueueUrl=url)


@pytest.mark.parametrize("path", ["/sqsx", "/other", "/api/sqs/", "/sqs/api/sqs", "/sqs/sqs"])
def test_other_paths_are_refused(server: ServerProcess, path: str) -> None:
    with pytest.raises(ClientError) as refused:
        client(server, path).list_queues()
    expected = "InvalidAddress" if "api" in path else "InvalidAction"
    assert refused.value.response["Error"]["Code"] == expected


def test_addresses_of_other_servers(tmp_path: Path) -> None:
    """As docs/clients.md has them under "Coming from another server"."""
    port, account = free_port(), "100010001000"
    base = f"http://127.0.0.1:{port}/queue/us-east-1"
    options = ("--account", account, "--base-url", base)
    server = ServerProcess(tmp_path / "data", tmp_path / "log", port, options)
    server.start()
    try:
        sqs = server.client()
        assert sqs.create_queue(QueueName="orders")["QueueUrl"] == f"{base}/{account}/orders"
        for written_down in (
            f"http://localhost:4566/queue/us-east-1/{account}/orders",
            f"http://sqs.us-east-1.localhost.localstack.cloud:4566/{account}/orders",
            f"http://us-east-1.goaws.com:4100/{account}/orders",
            "http://localhost:9324/queue/orders",
        ):
            sqs.send_message(QueueUrl=written_down, MessageBody="x")
    finally:
        server.kill()
