"""What drills are told, and what they tell."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.drills.ledger import KINDS, Violation


class Kept(Protocol):
    """Books at their end: what was counted, and what was violated."""

    tally: Counter[str]
    violations: list[Violation]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how much and with which luck to drill; `fault` is planted into the servers.

    A drill ends after its rounds, after so many seconds, and when something was violated unless it
    is to keep going. `causes` are the failures to choose from, where a drill has several; () are
    all of them. With `round` each round draws what that one drew. `evidence` is where to keep
    the data of a server whose promise was broken; None: nowhere.
    """

    folder: Path
    rounds: int
    seconds: float
    cells: int
    seed: int
    connections: int = 6
    fault: str = ""
    causes: Sequence[str] = ()
    keep_going: bool = False
    round: int = 0
    evidence: Path | None = None
    progress: Callable[[str], None] = lambda _line: None


@dataclass(slots=True)
class Findings:
    """What came of a drill. `skipped` says why it did not happen; `facts` are worth a mention.

    `figures` are lines of what was measured. `kept` are copies of data that a promise was broken
    with, by server, and `repeat` has the options that repeat the round in which that was first.
    """

    drill: str
    skipped: str = ""
    rounds: int = 0
    seconds: float = 0.0
    tally: Counter[str] = field(default_factory=Counter)
    violations: list[Violation] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    kept: dict[str, Path] = field(default_factory=dict)
    repeat: str = ""

    def add(self, ledgers: Iterable[Kept]) -> None:
        """Take over what books say at the end."""
        for ledger in ledgers:
            self.tally.update(ledger.tally)
            self.violations += ledger.violations

    def line(self) -> str:
        """All of it in one line."""
        if self.skipped:
            return f"skipped: {self.drill}: {self.skipped}"
        found = Counter(violation.kind for violation in self.violations)
        kinds = [kind for kind in KINDS if kind in ("lost", "resurrected") or found[kind]]
        sends, deletes = self.tally["sends"], self.tally["deletes"]
        return ", ".join(
            (
                f"{self.drill}: {self.rounds:,} rounds",
                *self.facts,
                f"{sends:,} acknowledged sends and {deletes:,} deletes checked",
                *(f"{kind} {found[kind]:,}" for kind in kinds),
                f"{self.seconds:.1f} s",
            )
        )
