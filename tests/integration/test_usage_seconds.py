"""kill -9 loses no more than the reads of five seconds, and the mark says how many at most."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from tests.integration.metered_client import Books, LostReplyError, MeteredClient
from tests.integration.server_process import ServerProcess

ACCOUNT = "111122223333"
CLIENTS = 3
LOST_S_MAX = 5.0
LIVES_S = (2.5, 7.3, 11.1)


@dataclass
class Life:
    """When each read of one life of the server was acknowledged, and how many may have been."""

    reads_s: list[float] = field(default_factory=list)
    lost: int = 0
    killed_s: float = 0.0


def read(port: int, url: str, life: Life, over: threading.Event) -> None:
    client = MeteredClient(port, ACCOUNT, Books())
    try:
        while not over.is_set():
            client.call("ReceiveMessage", {"QueueUrl": url})
            life.reads_s.append(time.monotonic())
            # A pause, so that no moment has far more of them than any other.
            over.wait(0.005)
    except LostReplyError:
        life.lost += 1
    finally:
        client.close()


def live(server: ServerProcess, seconds: float) -> Life:
    server.start()
    life, over = Life(), threading.Event()
    opening = MeteredClient(server.port, ACCOUNT, Books())
    url = opening.create("q")
    opening.close()
    with ThreadPoolExecutor(CLIENTS) as pool:
        jobs = [pool.submit(read, server.port, url, life, over) for _ in range(CLIENTS)]
        time.sleep(seconds)  # a server has to have served for so long
        life.killed_s = time.monotonic()
        server.kill()
        over.set()
        for job in jobs:
            job.result()
    return life


def reads_by_writer(data: Path) -> dict[str, int]:
    """Each identity once; two that differ fail."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for path in (data / "usage" / "records").rglob("*.parquet"):
        for row in parquet.read_table(path, partitioning=None).to_pylist():
            assert found.setdefault((row["writer"], row["number"]), row) == row
    sums: dict[str, int] = {}
    for row in found.values():
        if row["operation"] == "ReceiveMessage":
            sums[row["writer"]] = sums.get(row["writer"], 0) + row["requests"]
    return sums


@pytest.mark.nightly
@pytest.mark.parametrize("options", [(), ("--cells", "3")], ids=["one cell", "three cells"])
def test_a_crash_loses_five_seconds_of_reads_at_most(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=options)
    lives = [live(server, seconds) for seconds in LIVES_S]
    server.start()
    assert server.stop() == 0

    paths = (tmp_path / "data" / "usage" / "writers").glob("*.json")
    marks = [mark for path in paths if (mark := json.loads(path.read_text()))["kind"] == "server"]
    after = {mark["after"]: mark for mark in marks}
    billed, writer = reads_by_writer(tmp_path / "data"), ""
    for life in lives:
        mark = after[writer]
        writer = mark["writer"]
        counted, answered = billed.get(writer, 0), len(life.reads_s)
        late = sum(at > life.killed_s - LOST_S_MAX for at in life.reads_s)
        assert answered - late <= counted <= answered + life.lost
        assert answered - counted <= mark["unsaved_max"]
        assert mark["ended"]
        assert not mark["closed"]
    assert after[writer]["closed"]
    assert sum(billed.values()) > sum(len(life.reads_s) for life in lives) / 2
    assert not list((tmp_path / "data" / "usage").glob("tails/*"))
