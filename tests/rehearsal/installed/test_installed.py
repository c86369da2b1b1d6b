"""Both wheels, installed into an empty environment outside the checkout, do all that they say."""

import os
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from infra.release.wheels import build
from tests.rehearsal.installed.bare import VERSIONS, Bare
from tests.rehearsal.processes import UnavailableError

KEY: Final = {
    "TIDEGATE_ROOT_ACCESS_KEY_ID": "bare-root",
    "TIDEGATE_ROOT_SECRET_ACCESS_KEY": "bare-secret",
}
MESSAGE: Final = """
import sys
import tidegate_sdk

sqs = tidegate_sdk.client(
    sys.argv[1],
    region_name="us-east-1",
    aws_access_key_id="bare-root",
    aws_secret_access_key="bare-secret",
)
queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
sqs.send_message(QueueUrl=queue, MessageBody="two coffees")
received = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=10)["Messages"]
print([message["Body"] for message in received])
"""
RECORDS: Final = """
import sys
import tidegate_sdk

kinesis = tidegate_sdk.client(
    sys.argv[1],
    "kinesis",
    region_name="us-east-1",
    aws_access_key_id="bare-root",
    aws_secret_access_key="bare-secret",
)
kinesis.create_stream(StreamName="clicks", ShardCount=2)
# It changes the locks of futures, which each Python makes in its own way.
with tidegate_sdk.Producer(kinesis, "clicks") as producer:
    stored = [producer.put(b"click", str(n)) for n in range(1000)]
print(len({future.result(0) for future in stored}))
"""
COMMANDS: Final = """
from control_plane.cli.main import COMMANDS
print(*COMMANDS)
"""


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    build(out)
    return out


def test_a_wheel_has_the_packages_and_nothing_else(distributions: Path) -> None:
    names: dict[str, set[str]] = {}
    for wheel in distributions.glob("*.whl"):
        with zipfile.ZipFile(wheel) as opened:
            names[wheel.name.partition("-")[0]] = {
                name.partition("/")[0].partition("-")[0] for name in opened.namelist()
            }
    assert names == {
        "tidegate": {"control_plane", "data_plane", "glue_jobs", "tidegate"},
        "tidegate_sdk": {"tidegate_pytest.py", "tidegate_sdk"},
    }


def test_wheels_are_the_same_twice(
    distributions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    before = os.umask(0o077)
    try:
        again = build(tmp_path)
    finally:
        os.umask(before)
    assert {path.name: path.read_bytes() for path in again} == {
        path.name: path.read_bytes() for path in distributions.glob("*.whl")
    }


@pytest.fixture(params=VERSIONS)
def bare(request: pytest.FixtureRequest, tmp_path: Path, distributions: Path) -> tuple[Bare, float]:
    """An environment, and when its making began."""
    made, began_s = Bare(tmp_path), time.monotonic()
    try:
        made.make(request.param, distributions)
    except UnavailableError as error:
        pytest.skip(str(error))
    return made, began_s


@contextmanager
def serving(bare: Bare, *options: str) -> Iterator[str]:
    """The URL of a server; it must end with 0 on SIGTERM."""
    with (bare.folder / "log").open("w", encoding="utf-8") as log:
        server = subprocess.Popen(
            bare.command("tidegate", "serve", "--port", "0", *options),
            cwd=bare.folder,
            env=bare.environment(KEY),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert server.stdout is not None
    with server, server.stdout:
        try:
            greeting = server.stdout.readline()
            assert " on http://127.0.0.1:" in greeting, (bare.folder / "log").read_text()
            yield greeting.split(" on ")[1].split(",")[0]
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=300) == 0
        finally:
            server.kill()


def test_from_nothing_to_a_message_and_every_command(
    bare: tuple[Bare, float], record_property: Any
) -> None:
    env, began_s = bare
    with serving(env) as url:
        sent = env.run("python", "-c", MESSAGE, url)
        assert (sent.stdout, sent.stderr) == ("['two coffees']\n", "")
        # From nothing, wheels apart: what a newcomer waits for.
        record_property("says", f"a first message after {time.monotonic() - began_s:.0f} s")
        put = env.run("python", "-c", RECORDS, url)
        assert (put.stdout, put.stderr) == ("1000\n", "")
        _use_commands(env, url)
    assert env.run("tidegate", "rescue", "data", "rescued").returncode == 0
    assert (
        env.run("tidegate", "restore", "kept", "--data", "back", "--keys", "keys").returncode == 0
    )
    assert env.run("tidegate", "keys", "rotate", "--data", "data").returncode == 0
    with serving(env, "--cells", "3", "--data", "several") as url:
        listed = env.run("tidegate", "cells", "--endpoint", url, "list", environment=KEY)
        assert listed.stdout.count("cell-") >= 3, listed.stderr


def _use_commands(env: Bare, url: str) -> None:
    for name in env.run("python", "-c", COMMANDS).stdout.split():
        helped = env.run("tidegate", name, "--help")
        assert (helped.returncode, helped.stderr) == (0, ""), name
    for group, *rest in (
        ("queue", "list"),
        ("account", "list"),
        ("user", "list"),
        ("key", "list"),
        ("budget", "list"),
        ("usage",),
    ):
        ran = env.run("tidegate", group, *rest, "--endpoint", url, environment=KEY)
        assert (ran.returncode, ran.stderr) == (0, ""), group
    for words in (
        ("cost", "--messages-per-s", "10"),
        ("export", "exports", "--data", "data"),
        ("backup", "kept", "--data", "data", "--keys", "keys"),
        ("digest", "add", "data/usage"),
    ):
        ran = env.run("tidegate", *words)
        assert ran.returncode == 0, (words, ran.stderr)
    billed = env.run("tidegate", "bill")
    assert billed.returncode == 2
    assert "`pip install 'tidegate[bill]'` installs it" in billed.stderr
