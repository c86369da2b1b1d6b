"""`python -m tests.audits.proof --histories 50`: bills of servers that crash, beside their clients.

Each life of a server is a process that ends at a step of its own; the next goes on. Then a bill is
made, by a process that keeps what a kill at each of its steps would leave; a third one goes on from
each of these, and has to come to the same bytes.
"""

import argparse
import json
import multiprocessing
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from signal import SIGKILL
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.audits.checking import SPARK
from tests.audits.lives import SENDS, book_of, live
from tests.integration.server_process import ROOT

_LIVES_MAX: Final = 4
_STEPS_MAX: Final = 260
_US_PER_MINUTE: Final = 60_000_000
_US_PER_HOUR: Final = 60 * _US_PER_MINUTE
_BILLS_S_MAX: Final = 3_600
_COUNTED: Final = ("requests", "units", "messages", "bytes")

Sums = Counter[tuple[str, ...]]
"""By account, queue, operation, and what is counted; of reads by hour, too."""


def main() -> int:
    """0 where bills are what clients have in their books."""
    parser = argparse.ArgumentParser(prog="python -m tests.audits.proof")
    parser.add_argument("--histories", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with TemporaryDirectory() as root:
        crashes = make(Path(root), options.histories, options.seed)
        said = bills(Path(root))
        problems = compare(Path(root), said)
    say(f"{options.histories} histories, {crashes} crashes; {said['steps']} steps of a bill")
    for line in (*problems[:20], f"{len(problems)} problems"):
        say(line)
    return 1 if problems else 0


def make(root: Path, histories: int, seed: int) -> int:
    """Histories of as many services, each of an account of its own; how many crashes they had."""
    crashes = 0
    for number in range(seed, seed + histories):
        account = f"{number:012}"
        folder = root / account
        folder.mkdir()
        random = Random(f"lives {number}")
        began_us = 0
        for life in range(1, random.randint(2, _LIVES_MAX) + 1):
            kill_at = random.randint(1, _STEPS_MAX)
            crashes += _in_a_process(folder, account, life, began_us, kill_at)
            began_us = _last_us(folder) + random.choice((1, 40, 4_000)) * 1_000_000
        if _in_a_process(folder, account, 0, began_us, 0):
            raise AssertionError(f"{account}: the last life did not end well")
    return crashes


def _in_a_process(folder: Path, account: str, life: int, began_us: int, kill_at: int) -> bool:
    """Whether it was killed."""
    # A fork of this one: it has the modules, and nothing of what any life before had.
    context = multiprocessing.get_context("fork")
    process = context.Process(target=live, args=(folder, account, life, began_us, kill_at))
    process.start()
    process.join()
    if process.exitcode not in {0, -SIGKILL}:
        raise AssertionError(f"{account}: life {life} ended with {process.exitcode}")
    return process.exitcode != 0


def _last_us(folder: Path) -> int:
    if not (folder / "book.jsonl").exists():
        return 0
    return max((its["time_us"] for its in book_of(folder)), default=0)


def bills(root: Path) -> dict[str, Any]:
    """What bills of the usage place say, made and made again in processes of their own."""
    for way in ("make", "again"):
        ran = subprocess.run(
            [str(SPARK), "-m", "tests.spark.proof", way, str(root)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_BILLS_S_MAX,
            check=False,
        )
        if ran.returncode:
            raise AssertionError(ran.stdout[-2_000:] + ran.stderr[-4_000:])
    said: dict[str, Any] = json.loads((root / "said.json").read_bytes())
    return said


def compare(root: Path, said: dict[str, Any]) -> list[str]:
    """What differs between the bill and the clients' books."""
    billed: Sums = Counter()
    for row in said["rows"]:
        is_send = row["operation"] in SENDS
        hour = "" if is_send else str(row["hour"])
        for what in _COUNTED:
            key = (row["account"], row["queue"], row["operation"], hour, what)
            billed[key] += row[what]
    accounts = sorted(path.name for path in root.iterdir() if (path / "book.jsonl").exists())
    owner = {writer: account for account, writer in _writers(root, accounts)}
    problems: list[str] = list(said["unequal"])
    for account in accounts:
        gaps = [gap for gap in said["gaps"] if owner.get(gap["writer"]) == account]
        its: Sums = Counter({key: n for key, n in billed.items() if key[0] == account})
        problems += _differences(account, root / account, its, gaps)
    return problems


def _writers(root: Path, accounts: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Which account's records each writer has, by the records."""
    from pyarrow import parquet  # noqa: PLC0415 - forked lives have no need of its threads

    known = set(accounts)
    for path in (root / "usage/records").rglob("*.parquet"):
        table = parquet.read_table(path, columns=["account", "writer"]).to_pylist()
        yield from {(row["account"], row["writer"]) for row in table if row["account"] in known}
    # A server that was cut off before it had a record: the one after it names it.
    marks = [json.loads(path.read_bytes()) for path in (root / "usage/writers").glob("*.json")]
    after = {mark["writer"]: mark["after"] for mark in marks}
    for account in known:
        last = root / account / "data/usage.writer"
        writer = json.loads(last.read_bytes())["writer"] if last.exists() else ""
        while writer:
            yield account, writer
            writer = after.get(writer, "")


def _differences(account: str, folder: Path, billed: Sums, gaps: list[Any]) -> Iterator[str]:
    sent, reads, in_gaps = _expected(account, folder, gaps)
    for key in sorted({*billed, *sent, *reads}):
        if key[2] in SENDS:
            if billed[key] != sent[key]:
                yield f"{key}: {billed[key]} billed, {sent[key]} stored"
            continue
        short = reads[key] - billed[key]
        if not 0 <= short <= in_gaps[key]:
            yield f"{key}: {billed[key]} billed, {reads[key]} answered, {in_gaps[key]} in gaps told"
    # A gap may tell its size: then all of them together lack no more than that.
    sizes = [gap.get("requests_max", -1) for gap in gaps]
    short = sum((reads - billed)[key] for key in reads if key[-1] == "requests")
    if -1 not in sizes and short > sum(sizes):
        yield f"{account}: {short} requests short, {sum(sizes)} told at most"


def _expected(account: str, folder: Path, gaps: list[Any]) -> tuple[Sums, Sums, Sums]:
    """Sends that were stored, reads that were answered, and those of them in gaps."""
    lines = list(book_of(folder))
    received = {
        body
        for its in lines
        if its["what"] == "answered" and its["operation"] == "ReceiveMessage"
        for body in its["bodies"]
    }
    sent: Sums = Counter()
    reads: Sums = Counter()
    in_gaps: Sums = Counter()
    for at, its in enumerate(lines):
        if its["what"] not in {"asked", "answered"}:
            continue
        is_send = its["operation"] in SENDS
        was_answered = at + 1 < len(lines) and lines[at + 1]["what"] == "answered"
        if is_send and its["what"] == "asked" and (was_answered or its["bodies"][0] in received):
            _add(sent, account, its, "")
        elif not is_send and its["what"] == "answered":
            hour = str(its["time_us"] // _US_PER_HOUR)
            _add(reads, account, its, hour)
            if any(_has(gap, its["time_us"]) for gap in gaps):
                _add(in_gaps, account, its, hour)
    return sent, reads, in_gaps


def _has(gap: dict[str, Any], time_us: int) -> bool:
    minute = time_us // _US_PER_MINUTE
    until = gap["to_minute"] if gap["to_minute"] >= 0 else minute
    return bool(gap["from_minute"] <= minute <= until)


def _add(sums: Sums, account: str, its: dict[str, Any], hour: str) -> None:
    defaults = {"requests": 1, "units": 1, "messages": 0, "bytes": 0}
    for what in _COUNTED:
        sums[account, its["queue"], its["operation"], hour, what] += its.get(what, defaults[what])


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
