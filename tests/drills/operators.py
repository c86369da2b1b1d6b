"""Operators who are tired: what they do to the cells of a server under load, in any order.

A round is a sequence of acts of a seed of its own, on a new service: that of the drill's seed plus
the rounds before, so `--seed N --rounds 1` repeats one. In the end everything that was acknowledged
has to be there: what is destroyed has copies. A start may be refused where the line names a way
out: that is taken then, and excuses no loss. Some rounds lose everything after that: the server has
to tell it before it begins with nothing.
"""

import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, TypeVar

from tests.benchmarks.server_process import ServerProcess
from tests.drills.books import FifoBook, StandardBook
from tests.drills.consumers import Workers
from tests.drills.drill import Findings, Plan
from tests.drills.hurried import ALONE
from tests.drills.operated import CELLS, Operated
from tests.drills.operator_acts import ACTS, LOSE_ALL, lose_all
from tests.drills.rounds_at_once import RoundsAtOnce

_DRILL: Final = "operators"
_ACTS: Final = (3, 7)
"""How many a round has."""

_LOST_SHARE: Final = 1 / 6
"""Of rounds that end with the loss of everything."""

_SHORT_S: Final = 60.0
"""A drill that is to be shorter has the fewest acts a round, and rounds at once."""

_AT_ONCE: Final = (3, 8)
"""How many rounds go on at the same time: most of one is waiting."""

_PAUSE_S: Final = 0.4
_NOTED: Final = (5, 40)
_SHOWN_MAX: Final = 3
_KEPT_MAX: Final = 400
_KEPT_EVERY_S: Final = 0.5

OneBook = TypeVar("OneBook", StandardBook, FifoBook)


class Round(NamedTuple):
    """What a process is told of a round; `until_s` on the clock that processes share."""

    folder: Path
    seed: int
    acts: tuple[str, ...]
    until_s: float
    is_short: bool
    fault: str


class Done(NamedTuple):
    """What came of a round: the acts, and what its books say at the end."""

    seed: int
    acts: Sequence[str]
    findings: Findings


def operators(plan: Plan) -> Findings:
    """Do what operators do, at random, a new service in each round. Several rounds go at once."""
    findings = Findings(_DRILL, facts=[f"{CELLS} cells"])
    began_s = time.monotonic()
    acts, until_s = tuple(plan.causes or (*ACTS, LOSE_ALL)), began_s + plan.seconds
    is_short = plan.seconds < _SHORT_S
    rounds = [
        Round(plan.folder, plan.seed + at, acts, until_s, is_short, plan.fault)
        for at in range(plan.rounds)
    ]
    few, many = _AT_ONCE
    count: Counter[str] = Counter()
    at_once = RoundsAtOnce(_perform, rounds, few if is_short else many)
    with closing(iter(at_once)) as ended:
        for done in filter(None, ended):
            findings.rounds += 1
            findings.add([done.findings])
            count.update(done.acts)
            took_s = time.monotonic() - began_s
            plan.progress(
                f"{_DRILL}: seed {done.seed}: {', '.join(done.acts)}; {took_s:.0f} s in all"
            )
            for violation in done.findings.violations[:_SHOWN_MAX]:
                plan.progress(f"{_DRILL}: seed {done.seed}: {violation.text}")
            if findings.violations and not plan.keep_going:
                break
    findings.facts += [f"{number} {act}" for act, number in sorted(count.items())]
    findings.facts.append(f"{findings.tally['announced']:,} lost as a line had said")
    findings.seconds = time.monotonic() - began_s
    return findings


def _perform(round_: Round) -> Done | None:
    """A round, in a process that does one after the other; None: it is too late to begin it."""
    if time.monotonic() > round_.until_s:
        return None
    findings = Findings(_DRILL)
    with _site(round_) as site:
        acts = _do(round_, site)
        findings.add(site.books)
        if site.is_violated:
            _keep(round_, site)
    return Done(round_.seed, acts, findings)


@contextmanager
def _site(round_: Round) -> Iterator[Operated]:
    """A service that is not started yet."""
    folder = round_.folder / f"{_DRILL}-{round_.seed}"
    folder.mkdir()
    fault = (round_.fault,) if round_.fault else ()
    wrapper = (sys.executable, "-m", "tests.drills.hurried", str(folder), ALONE, *fault)
    server = ServerProcess(folder / "data", folder / "server.log", (), wrapper)
    site = Operated(
        [server],
        CELLS,
        data=folder / "data",
        notes=folder / "acts.log",
        options=("--log-level", "warning"),
        noted=_NOTED,
        others=(_kept(StandardBook("kept")), _kept(FifoBook("kept.fifo", "a"))),
    )
    try:
        yield site
    finally:
        if server.process is not None:
            server.process.kill()
            server.process.wait()
        shutil.rmtree(folder)


def _kept(book: OneBook) -> OneBook:
    """A queue that nobody receives from before the end: a message of every moment is in it."""
    book.stock, book.pause_s = _KEPT_MAX, _KEPT_EVERY_S
    return book


def _do(round_: Round, site: Operated) -> list[str]:
    """The sequence, everything well again, and everything received; what was done."""
    random = Random(f"{_DRILL} {round_.seed}")
    least, most = _ACTS
    count = random.randint(least, least if round_.is_short else most)
    acts = [act for act in round_.acts if act != LOSE_ALL]
    names = random.choices(acts, k=count) if acts else []
    if LOSE_ALL in round_.acts and (not acts or random.random() < _LOST_SHARE):
        names.append(LOSE_ALL)
    with _accused(site):
        site.start()
        for book in site.books:
            attributes = {"FifoQueue": "true"} if book.name.endswith(".fifo") else {}
            site.insist("CreateQueue", QueueName=book.name, Attributes=attributes)
        workers = Workers(site.servers, site.books, _PAUSE_S)
        try:
            with _accused(site):
                _act(site, random, names, workers)
        finally:
            workers.stop()
    return names


def _act(site: Operated, random: Random, names: Sequence[str], workers: Workers) -> None:
    """What is done while clients go on, and how that ends. Raises what goes wrong."""
    site.await_progress(random)
    for name in names:
        if site.is_violated:
            return
        if name != LOSE_ALL:
            site.say(f"act: {name}")
            ACTS[name](site, random)
            site.pause(random)
    site.await_well()
    site.await_progress(random)
    site.say("drain")
    workers.drain()
    for book in site.books:
        book.end()
    if LOSE_ALL in names and not site.is_violated:
        lose_all(site, random)


@contextmanager
def _accused(site: Operated) -> Iterator[None]:
    """Tell as a violation what goes wrong; other rounds go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - nothing may end the other rounds
        at = traceback.extract_tb(error.__traceback__)[-1]
        site.standard.accuse("answer", f"{type(error).__name__}: {error} ({at.name}, {at.lineno})")


def _keep(round_: Round, site: Operated) -> None:
    """Keep what was done and said in a round that went wrong, for the evidence."""
    for path in (site.notes, site.server.log):
        if path.exists():
            shutil.copyfile(path, round_.folder / f"{_DRILL}-{round_.seed}-{path.name}")
