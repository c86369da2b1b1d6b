"""`tidegate export` while a server takes messages."""

import gzip
import json
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.integration.server_process import ServerProcess, run_command

EXPORTS = 3
_MINUTE = slice(1, 9)
_US_PER_MINUTE = 60_000_000


def _send(server: ServerProcess, queue: str, begun: Event, stop: Event) -> int:
    """Send until it is time to stop; how many messages it were."""
    client = server.client()
    for calls in count(1):
        entries = [{"Id": str(entry), "MessageBody": "body" * 50} for entry in range(10)]
        client.send_message_batch(QueueUrl=queue, Entries=entries)
        begun.set()
        if stop.is_set():
            return 10 * calls
    raise AssertionError("a count has no end")


def _items(folder: Path) -> list[dict[str, dict[str, Any]]]:
    lines: list[dict[str, dict[str, Any]]] = []
    for path in sorted((folder / "data").iterdir()):
        with gzip.open(path, "rt") as file:
            lines += [json.loads(line)["Item"] for line in file]
    return lines


def _number(item: dict[str, dict[str, Any]], name: str) -> int:
    return int(item[name]["N"])


def _check_one_moment(folder: Path) -> int:
    """Messages in segments, and in the ledger, which is written with them; how many it are."""
    items = _items(folder)
    summary = json.loads((folder / "manifest-summary.json").read_bytes())
    segments = [its for its in items if its["pk"]["S"].startswith("B|") and its["k"]["S"] == "s"]
    ledger = [its for its in items if its["pk"]["S"] == "L|"]
    # Rows of minutes that are over become usage records, and go.
    minutes = {int.from_bytes(b64decode(its["sk"]["B"])[_MINUTE], "big") for its in ledger}
    counted = [its for its in segments if _number(its, "t") // _US_PER_MINUTE in minutes]
    assert sum(_number(its, "n") for its in counted) == sum(_number(its, "m") for its in ledger)
    stored = sum(_number(its, "n") for its in segments)
    keys = [(its["pk"]["S"], b64decode(its["sk"]["B"])) for its in items]
    assert len(set(keys)) == len(keys) == summary["itemCount"]
    assert max(_number(its, "t") for its in segments) <= summary["tidegate"]["as_of_us"]
    return stored


def test_each_export_is_of_one_moment(server: ServerProcess, tmp_path: Path) -> None:
    queue = server.client().create_queue(QueueName="orders")["QueueUrl"]
    begun, stop = Event(), Event()
    with ThreadPoolExecutor(2) as pool:
        sending = [pool.submit(_send, server, queue, begun, stop) for _ in range(2)]
        try:
            assert begun.wait(60)
            for number in range(EXPORTS):
                command = ("export", str(tmp_path / str(number)), "--data", str(server.data))
                exported = run_command(*command)
                assert exported.returncode == 0, exported.stderr
        finally:
            stop.set()
        sent = sum(task.result() for task in sending)
    found = []
    for number in range(EXPORTS):
        (folder,) = (tmp_path / str(number) / "AWSDynamoDB").iterdir()
        found.append(_check_one_moment(folder))
    assert sorted(found) == found
    assert 0 < found[-1] <= sent
    server.stop()
    stopped = run_command("export", str(tmp_path / "after"), "--data", str(server.data))
    assert stopped.returncode == 0, stopped.stderr


@pytest.mark.parametrize("cut_off", ["kill", "stop"])
def test_a_server_that_ended_leaves_nothing_in_the_way(
    server: ServerProcess, tmp_path: Path, cut_off: str
) -> None:
    getattr(server, cut_off)()
    out = tmp_path / "out"
    assert run_command("export", str(out), "--data", str(server.data)).returncode == 0
    server.start()
    assert run_command("export", str(out), "--data", str(server.data)).returncode == 0
    assert len(list((out / "AWSDynamoDB").iterdir())) == 2
