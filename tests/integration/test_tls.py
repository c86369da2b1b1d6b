"""A server with a certificate: HTTPS with whom trusts it, and nothing else."""

import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import SSLError

from tests.integration.certificates import Certificates, make_certificates
from tests.integration.server_process import ANSWER_S_MAX, ServerProcess, run_command


def tls_options(made: Certificates) -> tuple[str, ...]:
    return ("--tls-certificate", str(made.certificate), "--tls-key", str(made.key))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    options = tls_options(certificates)
    started = ServerProcess(
        folder / "data", folder / "log", options=options, authority=certificates.authority
    )
    started.start()
    yield started
    started.kill()


def test_a_message_goes_round(server: ServerProcess) -> None:
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    assert queue == f"{server.url}/000000000000/orders"
    assert queue.startswith("https://")
    assert server.url in server.greeting
    client.send_message(QueueUrl=queue, MessageBody="x" * 300_000)
    (message,) = client.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    assert message["Body"] == "x" * 300_000


def test_who_does_not_trust_the_certificate_does_not_get_through(server: ServerProcess) -> None:
    client = boto3.client(
        "sqs",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="any",
        aws_secret_access_key="any",
        config=Config(retries={"total_max_attempts": 1}),
    )
    with pytest.raises(SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        client.list_queues()


def test_plain_http_gets_no_answer(server: ServerProcess) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=ANSWER_S_MAX)
    connection.request("GET", "/health")
    with pytest.raises((http.client.BadStatusLine, ConnectionError)):
        connection.getresponse()
    connection.close()
    assert server.get("/health")[0] == 200


def shake_hands(server: ServerProcess, context: ssl.SSLContext) -> str | None:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=ANSWER_S_MAX) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        return connection.version()


@pytest.mark.parametrize(
    ("version", "name"),
    [(ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")],
)
def test_tls_1_2_and_1_3_are_spoken(
    server: ServerProcess, certificates: Certificates, version: ssl.TLSVersion, name: str
) -> None:
    context = ssl.create_default_context(cafile=certificates.authority)
    context.minimum_version = context.maximum_version = version
    assert shake_hands(server, context) == name


def test_tls_1_1_is_refused(
    server: ServerProcess, certificates: Certificates, recwarn: pytest.WarningsRecorder
) -> None:
    context = ssl.create_default_context(cafile=certificates.authority)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    # An alert is the server's: it is not the client that would not.
    with pytest.raises(ssl.SSLError, match="ALERT"):
        shake_hands(server, context)
    assert all(issubclass(one.category, DeprecationWarning) for one in recwarn)


def test_the_command_line_reaches_it(server: ServerProcess, certificates: Certificates) -> None:
    bundle = ("--ca-bundle", str(certificates.authority))
    listed = run_command("queue", "--endpoint", server.url, *bundle, "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    untrusted = run_command("queue", "--endpoint", server.url, "list")
    assert untrusted.returncode == 1
    assert "CERTIFICATE_VERIFY_FAILED" in untrusted.stderr
    assert untrusted.stderr.count("\n") == 1


def test_the_server_stops_while_connections_are_open(
    tmp_path: Path, certificates: Certificates
) -> None:
    options = tls_options(certificates)
    server = ServerProcess(
        tmp_path / "data", tmp_path / "log", options=options, authority=certificates.authority
    )
    server.start()
    client = server.client()
    client.list_queues()
    with socket.create_connection(("127.0.0.1", server.port)):  # shakes no hands
        assert server.stop() == 0
