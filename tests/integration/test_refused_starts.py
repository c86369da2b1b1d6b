"""A start that is refused says why in one line, by an exit code that says whose turn it is."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from control_plane import process
from control_plane.cells import StartError
from control_plane.cli.main import tidegate
from control_plane.doctor import examine
from control_plane.named_files import check_beside_store
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock
from tests.integration.certificates import make_certificates
from tests.integration.server_process import ServerProcess, run_command
from tests.ports import free_port

NOWHERE = "203.0.113.9"
"""An address that no machine has (RFC 5737)."""

Options = Callable[[Path], tuple[str, ...]]


def refused(data: Path, *options: str, code: int) -> str:
    """The line with which a start on this directory is refused."""
    ended = run_command("serve", "--port", str(free_port()), "--data", str(data), *options)
    # Where the SDK found credentials it says so in the log.
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("{")]
    assert (ended.returncode, ended.stdout, len(lines)) == (code, "", 1), ended.stderr
    return lines[0].removeprefix("tidegate: ")


def junk(folder: Path) -> str:
    file = folder / "junk"
    file.write_text("junk")
    file.chmod(0o600)
    return str(file)


def of_another_key(folder: Path) -> tuple[str, ...]:
    own, other = make_certificates(folder / "own"), make_certificates(folder / "other")
    return "--tls-certificate", str(own.certificate), "--tls-key", str(other.key)


def of_no_certificate(folder: Path) -> tuple[str, ...]:
    return (
        "--tls-certificate",
        junk(folder),
        "--tls-key",
        str(make_certificates(folder / "own").key),
    )


WRONG: dict[str, Options] = {
    "tls-certificate": of_no_certificate,
    "tls-key": of_another_key,
    "master-keys": lambda folder: ("--master-keys", junk(folder)),
    "queues": lambda folder: ("--queues", junk(folder)),
    "billing": lambda folder: ("--billing", junk(folder)),
    "metrics-key": lambda folder: ("--metrics-key", junk(folder)),
    "usage": lambda folder: ("--usage", junk(folder)),
    "host": lambda _folder: ("--host", NOWHERE),
    "metrics": lambda _folder: ("--metrics", f"{NOWHERE}:9999"),
    "blobs": lambda folder: ("--cell", "dynamodb", "--blobs", junk(folder)),
    "cell-data": lambda folder: ("--cells", "2", "--cell-data", f"{folder / 'a'},{folder / 'a/b'}"),
}


@pytest.mark.parametrize("setting", WRONG)
def test_what_has_to_be_corrected_ends_with_2(tmp_path: Path, setting: str) -> None:
    said = refused(tmp_path / "data", *WRONG[setting](tmp_path), code=2)
    assert said.startswith(f"{setting}: ")


def of_a_wrong_attribute(folder: Path) -> tuple[str, ...]:
    file = folder / "queues.toml"
    file.write_text("[queues.orders]\nDelaySeconds = 901\n")
    return "--queues", str(file)


def of_a_lost_file(folder: Path) -> tuple[str, ...]:
    """KMS, and a key file besides, which is not there."""
    return "--kms-key", "alias/x", "--master-keys", str(folder / "lost")


MADE_BEFORE: dict[str, Options] = {
    **WRONG,
    "attribute": of_a_wrong_attribute,
    "key file beside KMS": of_a_lost_file,
    "keys below a file": lambda folder: ("--master-keys", f"{junk(folder)}/keys"),
    "usage below a file": lambda folder: ("--usage", f"{junk(folder)}/usage"),
    "cells below a file": lambda folder: (
        "--cells",
        "2",
        "--cell-data",
        f"{folder / 'a'},{junk(folder)}/b",
    ),
}


@pytest.mark.parametrize("wrong", MADE_BEFORE)
def test_nothing_is_left_behind(tmp_path: Path, wrong: str) -> None:
    options = MADE_BEFORE[wrong](tmp_path)
    before = sorted(tmp_path.rglob("*"))
    refused(tmp_path / "new" / "data", *options, code=2)
    assert sorted(tmp_path.rglob("*")) == before


def test_nothing_is_made_in_a_backup_or_another_service(stopped: ServerProcess) -> None:
    before = sorted(stopped.data.rglob("*"))
    assert "is a service's" in refused(stopped.data / "new", code=2)
    assert sorted(stopped.data.rglob("*")) == before


@pytest.fixture
def stopped(tmp_path: Path) -> ServerProcess:
    """A server that has served, and does not any more."""
    server = ServerProcess(tmp_path / "data", tmp_path / "log", auth="on")
    server.start()
    assert server.stop() == 0
    return server


def test_keys_of_another_service_end_with_2_and_credentials_that_are_none(
    stopped: ServerProcess, tmp_path: Path
) -> None:
    keys, credentials = stopped.data / "master.keys", stopped.data / "credentials"
    kept = tmp_path / "kept"
    shutil.move(keys, kept)
    assert refused(stopped.data, code=2).startswith(f"master-keys: {keys}: no such file; ")
    other = ServerProcess(tmp_path / "other", tmp_path / "log", auth="on")
    other.start()
    assert other.stop() == 0
    shutil.copy(other.data / "master.keys", keys)
    said = refused(stopped.data, code=2)
    assert said.startswith("master-keys: cannot open the registry secret: ")
    shutil.move(kept, keys)
    credentials.write_text("junk")
    store = (stopped.data / "data.mdb").read_bytes()
    said = refused(stopped.data, code=2)
    assert said == f"auth: {credentials} is no credentials file; move it away"
    assert (stopped.data / "data.mdb").read_bytes() == store


def test_what_is_stored_and_damaged_ends_with_1(stopped: ServerProcess) -> None:
    (stopped.data / "data.mdb").write_bytes(bytes(100_000))
    assert "is damaged" in refused(stopped.data, code=1)
    (stopped.data / "data.mdb").unlink()
    assert "but no data.mdb" in refused(stopped.data, code=1)


def test_an_engine_that_does_not_answer_ends_with_1(tmp_path: Path) -> None:
    nobody = f"http://127.0.0.1:{free_port()}"
    tables = ("--cell", "dynamodb", "--cell-endpoint", nobody)
    said = refused(tmp_path / "data", *tables, code=1)
    assert said.startswith(f"cell-endpoint: no DynamoDB answers at {nobody}")


@pytest.mark.parametrize("name", ["serve", "doctor"])
def test_whose_directory_it_is_that_cannot_be_read_is_said(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
) -> None:
    data, user, access = tmp_path / "data", os.geteuid(), os.access
    data.mkdir(mode=0o700)

    def not_there(path: Path, mode: int, **others: Any) -> bool:
        return Path(path) != data and access(path, mode, **others)

    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    monkeypatch.setattr(os, "access", not_there)
    ended = CliRunner().invoke(tidegate, [name, "--port", str(free_port()), "--data", str(data)])
    said = ended.output + capfd.readouterr().err
    assert f"{data} belongs to user {user}" in said
    assert "store: " not in said
    assert ended.exit_code == {"serve": 2, "doctor": 1}[name]


def test_a_port_that_this_user_may_not_have_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_host: str, _port: int) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(process, "bind", refuse)
    with pytest.raises(
        StartError, match=r"port: cannot listen on 127\.0\.0\.1:80: Permission denied"
    ):
        process.run(ServerSettings(port=80))


def test_a_start_that_is_refused_late_is_no_server_that_was_cut_off(
    stopped: ServerProcess, tmp_path: Path
) -> None:
    file = tmp_path / "queues.toml"
    file.write_text('[queues.a]\ndead_letters = { queue = "none", max_receive_count = 5 }\n')
    assert refused(stopped.data, "--queues", str(file), code=2).startswith("queues: ")
    found = [json.loads(path.read_bytes()) for path in stopped.data.glob("usage/writers/*.json")]
    servers = [mark for mark in found if mark["kind"] == "server"]
    assert [mark["closed"] for mark in servers] == [True, True]


@pytest.mark.parametrize("setting", ["billing", "master_keys"])
def test_a_pipe_is_read_by_who_uses_it_alone(tmp_path: Path, setting: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    held = os.open(pipe, os.O_RDWR)
    os.write(held, b"{}")
    settings: dict[str, Any] = {"data": tmp_path / "data", setting: pipe}
    check_beside_store(ServerSettings(**settings), SystemClock())
    assert os.read(held, 100) == b"{}"
    os.close(held)


@pytest.mark.parametrize("setting", ["data", "master_keys", "billing", "cell_data"])
def test_what_another_user_keeps_closed_is_said_by_start_and_doctor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    closed, stat, access = tmp_path / "closed", Path.stat, os.access
    closed.mkdir()
    (closed / "a").touch(mode=0o600)

    def refuse(path: Path, **others: Any) -> os.stat_result:
        if closed in path.parents:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **others)

    def may(path: Path, mode: int, **others: Any) -> bool:
        return closed not in (Path(path), *Path(path).parents) and access(path, mode, **others)

    monkeypatch.setattr(Path, "stat", refuse)
    monkeypatch.setattr(os, "access", may)
    given: dict[str, Any] = {"data": tmp_path / "data", "port": free_port()}
    given |= {"cells": 2} if setting == "cell_data" else {}
    given[setting] = f"{closed}/a,{tmp_path}/b" if setting == "cell_data" else closed / "a"
    settings = ServerSettings(**given)
    assert any(one.state == "error" for one in examine(settings, SystemClock()))
    with pytest.raises(StartError, match=f"{closed}/a"):
        process.run(settings)
