"""Data directories that cannot serve, or are somebody else's: one line, and what to do."""

import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.server_process import ROOT, ServerProcess, command, run_command
from tests.ports import free_port


def refusal(
    data: Path, *options: str, become: Callable[[], None] | None = None, code: int = 2
) -> str:
    """The one line that a start with this directory says."""
    arguments = ("serve", "--port", str(free_port()), "--data", str(data), "--auth", "off")
    ran = subprocess.run(
        command(*arguments, *options),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=become,
    )
    assert (ran.returncode, ran.stdout) == (code, ""), ran.stderr
    (line,) = ran.stderr.splitlines()
    return line.removeprefix("tidegate: ")


def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refusal(tmp_path / "file" / "data")
    assert said == f"data: cannot use {tmp_path / 'file' / 'data'}: Not a directory"


def test_a_file_system_that_is_read_only() -> None:
    assert refusal(Path("/proc/tidegate")).startswith("data: cannot use /proc/tidegate: ")


def test_a_disk_that_is_full_at_the_first_start(tmp_path: Path) -> None:
    import resource  # noqa: PLC0415 - in this test alone

    def no_room() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    assert refusal(tmp_path / "data", become=no_room, code=1).startswith("data: ")


def test_a_directory_of_another_format(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").touch(mode=0o600)
    (tmp_path / "data.mdb").write_bytes(b"of another program" * 1000)
    said = refusal(tmp_path, code=1)
    assert said.startswith(f"data: {tmp_path / 'data.mdb'} is damaged: page 0: it is no meta page;")


def test_what_is_stored_is_for_nobody_else(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o755)  # whatever this process may make
    server = ServerProcess(data, tmp_path / "log", auth="on")
    server.start()
    try:
        server.client().create_queue(QueueName="orders")
        laxer = [path for path in (data, *data.rglob("*")) if path.stat().st_mode & 0o077]
        assert not laxer
    finally:
        server.stop()
    said = f'"reason":"others could use {data} (mode 755): now mode 700"'
    assert said in server.log.read_text()
    (data / "data.mdb").chmod(0o644)
    server.start()
    server.stop()
    assert stat.S_IMODE((data / "data.mdb").stat().st_mode) == 0o600


@pytest.fixture
def known(tmp_path: Path) -> Iterator[ServerProcess]:
    """A service with a queue and a message, stopped."""
    server = ServerProcess(tmp_path / "data", tmp_path / "log", auth="on")
    server.start()
    client = server.client()
    queue = client.create_queue(QueueName="orders")["QueueUrl"]
    client.send_message(QueueUrl=queue, MessageBody="kept")
    server.stop()
    yield server
    server.kill()


def test_a_known_service_does_not_begin_anew_unasked(known: ServerProcess) -> None:
    (known.data / "data.mdb").rename(known.data.parent / "lost")
    said = refusal(known.data, code=1)
    assert said.startswith(f"data: {known.data} has master.keys and credentials and usage, but no")
    assert said.endswith("--begin-anew")
    (known.data / "data.mdb").touch()
    assert refusal(known.data, code=1) == said
    assert (known.data / "data.mdb").stat().st_size == 0
    known.auth, known.options = "off", ("--begin-anew",)
    known.start()
    assert "QueueUrls" not in known.client().list_queues()
    known.stop()


def test_master_keys_that_are_missing(known: ServerProcess) -> None:
    (known.data / "master.keys").rename(known.data.parent / "lost")
    said = refusal(known.data)
    assert said.startswith(f"master-keys: {known.data / 'master.keys'}: no such file; what this")


def test_a_file_that_is_cut_while_it_is_served(known: ServerProcess) -> None:
    known.start()
    os.truncate(known.data / "data.mdb", 8192)
    assert known.process is not None
    # Whatever touches the file first ends the process; the look at its pages may refuse it before.
    for _ in range(1000):
        try:
            status, body = known.get("/health")
        except (ConnectionError, OSError):
            break
        if status == 503:
            assert json.loads(body)["status"] == "unavailable"
            known.kill()
            break
    else:
        raise AssertionError("nobody noticed")
    if known.process.wait(30) not in (-signal.SIGKILL, 0):
        until_s = time.monotonic() + 30
        while (ended := "ended the server") not in known.log.read_text():
            assert time.monotonic() < until_s, known.log.read_text()
            time.sleep(0.05)  # who watches the process writes it when that has ended
        log = known.log.read_text()
        assert f"tidegate: a fatal signal {ended} (bus error): data.mdb in" in log
        assert (known.data / "died").read_text().startswith("Fatal Python error: Bus error")
    said = refusal(known.data, code=1)
    assert "is damaged: it was cut to 8192 bytes" in said


def test_damage_of_one_item_is_told_and_the_rest_is_served(known: ServerProcess) -> None:
    octets = (known.data / "data.mdb").read_bytes()
    flipped = octets.replace(b"|us-east-1\0orders", b"|us-east-1\0oreers")
    assert flipped != octets
    (known.data / "data.mdb").write_bytes(flipped)
    known.start()
    client = known.client()
    health = json.loads(known.get("/health")[1])
    assert (health["status"], health["cells"]) == ("damaged", {"local": "damaged"})
    assert 'tidegate_cell_damaged_items{cell="local"} 1.0' in known.get("/metrics")[1]
    assert "damaged item Q|000000000000|us-east-1/" in known.log.read_text()
    with pytest.raises(client.exceptions.ClientError, match=r"\(503\)|ServiceUnavailable"):
        client.get_queue_url(QueueName="orders")
    other = client.create_queue(QueueName="zebra")["QueueUrl"]
    client.send_message(QueueUrl=other, MessageBody="served")
    known.stop()
    assert "Traceback" not in known.log.read_text()


def test_rescued_messages_are_served(known: ServerProcess, tmp_path: Path) -> None:
    octets = bytearray((known.data / "data.mdb").read_bytes())
    octets[4096 * 2 : 4096 * 3] = bytes(4096)
    (known.data / "data.mdb").write_bytes(octets)
    rescued = tmp_path / "rescued"
    ran = run_command("rescue", str(known.data), str(rescued))
    assert ran.returncode in (0, 3), ran.stderr
    assert f"queue {'0' * 12}/us-east-1/orders: 1 messages whole" in ran.stdout
    again = run_command("rescue", str(known.data), str(rescued))
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    server = ServerProcess(rescued, tmp_path / "log", auth="on")
    server.start()
    client = server.client()
    queue = client.get_queue_url(QueueName="orders")["QueueUrl"]
    (message,) = client.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
    assert message["Body"] == "kept"
    server.stop()
