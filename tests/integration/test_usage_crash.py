"""kill -9 under load: usage has every send, and what it lacks else lies in gaps that it reports."""

import json
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from glue_jobs.records import minute_writer
from tests.integration.metered_client import Books, LostReplyError, MeteredClient, Send, Sums
from tests.integration.server_process import ServerProcess

ACCOUNT = "111122223333"
QUEUES = ("plain", "ordered.fifo")
SENDS = {"SendMessage", "SendMessageBatch"}
SENT_PER_RUN = 60
CRASHES = 2
SENDERS_PER_QUEUE = 2


@dataclass
class Run:
    """One life of the server: from when to when clients called it, and what it told them."""

    began_s: float = field(default_factory=time.time)
    ended_s: float = 0.0
    books: Books = field(default_factory=Books)
    sent: int = 0
    enough: threading.Event = field(default_factory=threading.Event)

    @property
    def minutes(self) -> range:
        return range(int(self.began_s) // 60, int(self.ended_s) // 60 + 1)


def send(port: int, url: str, left: list[Send], run: Run, seed: int) -> None:
    """First what earlier runs left, then more, until the server is gone or there is enough."""
    chance, client = random.Random(seed), MeteredClient(port, ACCOUNT, Books())
    try:
        while left or not run.enough.is_set():
            if not left:
                size = chance.choice((1, 300, 7_000))
                count = chance.choice((1, 1, 10))
                left.append(Send(url, [size] * count, batch=chance.random() < 0.5 or count > 1))
            left[0].attempt(client)
            left.pop(0)
            run.sent += 1
            if run.sent >= SENT_PER_RUN:
                run.enough.set()
    except LostReplyError:
        return  # it is repeated in the next run
    finally:
        client.close()
        with LOCK:
            run.books.sums += client.books.sums
            run.books.again += client.books.again


def consume(port: int, url: str, run: Run) -> None:
    client = MeteredClient(port, ACCOUNT, Books())
    try:
        while not run.enough.is_set() or client.receive_and_delete(url):
            client.receive_and_delete(url)
    except LostReplyError:
        pass  # what it was about comes again
    finally:
        client.close()
        with LOCK:
            run.books.sums += client.books.sums
            run.books.lost += client.books.lost


LOCK = threading.Lock()


def serve_a_while(server: ServerProcess, left: dict[str, list[Send]], *, crash: bool) -> Run:
    server.start()
    run = Run()
    opening = MeteredClient(server.port, ACCOUNT, Books())
    urls = [opening.create(name) for name in QUEUES]
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(send, server.port, url, left.setdefault(f"{url} {n}", []), run, n)
            for url in urls
            for n in range(SENDERS_PER_QUEUE)
        ]
        jobs += [pool.submit(consume, server.port, url, run) for url in urls]
        if crash:
            while not run.enough.wait(0.1):
                assert not all(job.done() for job in jobs)
            server.kill()
        for job in jobs:
            job.result()
    opening.close()
    run.ended_s = time.time()
    if not crash:
        assert server.stop() == 0
    return run


def stored(data: Path) -> list[dict[str, Any]]:
    """The records, each identity once."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for path in (data / "usage" / "records").rglob("*.parquet"):
        for row in parquet.read_table(path, partitioning=None).to_pylist():
            assert found.setdefault((row["writer"], row["number"]), row) == row
    return list(found.values())


def summed(rows: list[dict[str, Any]]) -> Sums:
    sums: Sums = Counter()
    for row in rows:
        assert (row["account"], row["status"]) == (ACCOUNT, "2xx")
        for name in ("requests", "units", "messages", "bytes"):
            sums[row["queue"], row["operation"], name] += row[name]
    return +sums


@pytest.mark.parametrize("options", [(), ("--cells", "3")], ids=["one cell", "three cells"])
def test_bills_have_every_send_and_gaps_have_all_that_they_lack(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=options)
    left: dict[str, list[Send]] = {}
    runs = [serve_a_while(server, left, crash=True) for _ in range(CRASHES)]
    runs.append(serve_a_while(server, left, crash=False))
    assert not any(left.values())
    rows = [row for row in stored(tmp_path / "data") if row["operation"] != "CreateQueue"]

    told: Sums = sum((run.books.sums for run in runs), Counter())
    again: Sums = sum((run.books.again for run in runs), Counter())
    every_mark = {
        mark["writer"]: mark
        for path in (tmp_path / "data" / "usage" / "writers").glob("*.json")
        if (mark := json.loads(path.read_text()))
    }
    marks = {writer: mark for writer, mark in every_mark.items() if mark["kind"] == "server"}
    assert summed([row for row in rows if row["writer"] not in marks]) == {
        key: number for key, number in told.items() if key[1] in SENDS and number
    }
    # What was repeated and stored nothing is a request of its own.
    repeated = [row for row in rows if row["writer"] in marks and row["operation"] in SENDS]
    assert summed(repeated) <= again
    rows = [row for row in rows if row["operation"] not in SENDS]
    by_predecessor = {mark["after"]: mark for mark in marks.values()}
    writer = ""
    for run in runs:
        mark = by_predecessor[writer]
        writer = mark["writer"]
        billed = summed([r for r in rows if r["writer"] == writer])
        reads = {k: n for k, n in run.books.sums.items() if k[1] not in SENDS and n}
        if mark["closed"]:
            assert billed == reads
            continue
        successor = by_predecessor[writer]
        gap = range(mark["complete_to"], successor["opened"] + 1)
        for key, number in reads.items():
            most = number + (run.books.lost if key[2] == "requests" else 1 << 30)
            assert billed[key] <= most
            assert billed[key] == number or run.minutes[-1] in gap
        if mark["complete_to"] == mark["opened"]:
            assert set(run.minutes) <= set(gap)
    assert marks[writer]["closed"]
    assert len(marks) == CRASHES + 1


def test_a_mark_vouches_for_what_was_sent_right_before_a_crash(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", tmp_path / "log", options=("--cells", "3"))
    server.start()
    client = MeteredClient(server.port, ACCOUNT, Books())
    Send(client.create(QUEUES[0]), [1], batch=False).attempt(client)
    server.kill()
    client.close()
    server.start()
    assert server.stop() == 0
    (row,) = [its for its in stored(tmp_path / "data") if its["operation"] in SENDS]
    marks = (tmp_path / "data" / "usage" / "writers").glob("*.json")
    desks = [desk for path in marks for desk in json.loads(path.read_text())["desks"].split()]
    assert row["writer"] in {minute_writer(desk, row["minute"]) for desk in desks}
