"""`tidegate health`: what a probe of a container or a supervisor runs."""

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate
from tests.integration.certificates import make_certificates
from tests.integration.server_process import ServerProcess


def health(*options: str, **environment: str) -> Result:
    return CliRunner().invoke(tidegate, ["health", *options], env=environment)


def test_it_finds_the_server_by_the_servers_own_variables(server: ServerProcess) -> None:
    well = health(TIDEGATE_PORT=str(server.port))
    assert (well.exit_code, json.loads(well.stdout)["status"]) == (0, "ok")
    assert health("--endpoint", server.url).exit_code == 0
    server.stop()
    gone = health(TIDEGATE_PORT=str(server.port))
    assert (gone.exit_code, gone.stdout) == (1, "")
    assert gone.stderr.startswith(f"tidegate: no answer from http://127.0.0.1:{server.port}: ")


def test_it_trusts_the_certificate_that_the_server_was_given(tmp_path: Path) -> None:
    made, other = make_certificates(tmp_path / "one"), make_certificates(tmp_path / "two")
    options = ("--tls-certificate", str(made.certificate), "--tls-key", str(made.key))
    server = ServerProcess(
        tmp_path / "data", tmp_path / "log", options=options, authority=made.authority
    )
    server.start()
    try:
        at = {"TIDEGATE_PORT": str(server.port)}
        assert health(**at, TIDEGATE_TLS_CERTIFICATE=str(made.certificate)).exit_code == 0
        assert health(**at, TIDEGATE_TLS_CERTIFICATE=str(other.certificate)).exit_code == 1
        assert health(**at).exit_code == 1, "it does not speak HTTP"
    finally:
        server.kill()


def test_what_does_not_answer_is_not_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = str(silent.getsockname()[1])
        stalled = health("--port", port, "--timeout", "0.2")
    assert stalled.exit_code == 1
    assert "timed out" in stalled.stderr


@pytest.mark.parametrize("url", ["127.0.0.1:9324", "ftp://host", "http://"])
def test_what_is_no_url_is_named(url: str) -> None:
    refused = health("--endpoint", url)
    assert refused.exit_code == 1
    assert "is no URL of a server" in refused.stderr
