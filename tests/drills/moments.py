"""What clients of a service were told by some moment, and what is there of it after a restore.

Messages are numbers, in lines: one of a standard queue, one for each group of a FIFO queue. In a
line of a group the next number is sent when the last one was acknowledged.
"""

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from tests.drills.ledger import Violation


@dataclass
class Line:
    """Numbers by what was asked and answered."""

    asked: int = 0
    acknowledged: set[int] = field(default_factory=set)
    delete_asked: set[int] = field(default_factory=set)
    deleted: set[int] = field(default_factory=set)


Moment = dict[str, Line]


class Told:
    """What clients are told. Its methods may be called from many threads."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.lines: Moment = defaultdict(Line)
        self.tally: Counter[str] = Counter()
        self.violations: list[Violation] = []

    def accuse(self, kind: str, text: str) -> None:
        """Note a violation."""
        with self.changed:
            self.violations.append(Violation(kind, f"backup: {kind}: {text}"))

    def send_asked(self, line: str) -> int:
        """The next number."""
        with self.changed:
            self.lines[line].asked += 1
            return self.lines[line].asked

    def send_answered(self, line: str, number: int) -> None:
        """It was acknowledged."""
        with self.changed:
            self.lines[line].acknowledged.add(number)
            self.tally["sends"] += 1
            self.changed.notify_all()

    def delete_asked(self, line: str, number: int) -> None:
        """It is going to be deleted."""
        with self.changed:
            self.lines[line].delete_asked.add(number)

    def delete_answered(self, line: str, number: int) -> None:
        """That was acknowledged."""
        with self.changed:
            self.lines[line].deleted.add(number)
            self.tally["deletes"] += 1
            self.changed.notify_all()

    def stored(self, line: str) -> int:
        """How many there are, about."""
        with self.changed:
            return len(self.lines[line].acknowledged) - len(self.lines[line].deleted)

    def wait_for(self, what: str, more: int, seconds: float) -> bool:
        """Return when so much more of it was noted; False: not in time."""
        with self.changed:
            enough = self.tally[what] + more
            return self.changed.wait_for(lambda: self.tally[what] >= enough, seconds)

    def moment(self) -> Moment:
        """All of it as it is now."""
        with self.changed:
            return deepcopy(self.lines)

    def begin_anew(self) -> None:
        """Nothing is stored; numbers go on, so that none is taken for one of before."""
        with self.changed:
            self.lines = defaultdict(
                Line, {name: Line(line.asked) for name, line in self.lines.items()}
            )

    def judge(
        self, before: Moment, after: Moment, found: dict[str, list[int]], ordered: Iterable[str]
    ) -> None:
        """Hold what a restored service has to what was told before the backup and after it."""
        for name, line in after.items():
            numbers = set(found.get(name, ()))
            earlier = before.get(name, Line())
            self._each("lost", name, earlier.acknowledged - line.delete_asked - numbers)
            self._each("resurrected", name, numbers & earlier.deleted)
            self._each("altered", name, {number for number in numbers if number > line.asked})
        for name in ordered:
            self._judge_order(name, found.get(name, []))

    def _judge_order(self, name: str, numbers: Sequence[int]) -> None:
        if list(numbers) != sorted(set(numbers)):
            self.accuse("order", f"{name}: {numbers}")
        elif numbers and len(numbers) <= numbers[-1] - numbers[0]:
            self.accuse("order", f"{name} has gaps: {numbers}")

    def _each(self, kind: str, name: str, numbers: Iterable[int]) -> None:
        for number in sorted(numbers):
            self.accuse(kind, f"message {number} of {name}")
