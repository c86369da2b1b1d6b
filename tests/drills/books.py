"""What clients of a service with several cells were told, and what follows from it.

A standard queue may deliver twice what was received or deleted shortly before, or while, the cell
that served it was lost (docs/promises.md, *Several cells*): that is counted. Everything else is a
violation. Clients note what they ask before they ask.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.drills.ledger import Violation
from tests.drills.unavailability import Call

LAG_S_MAX: Final = 1.0
"""How far the other copies are behind, where all cells answer."""

TAKE_OVER_S_MAX: Final = 15.0
"""How long after a cell was lost another one may still not serve in its place."""

STORED_MAX: Final = 150
"""With more messages stored, senders wait for consumers."""

STOCK: Final = 60
"""So many stay stored while there are senders: what is lost with a cell are messages nobody has."""

EARLY_S_MAX: Final = 0.01
NEVER_S: Final = float("inf")


class Book:
    """What all books have. Methods may be called from many threads.

    Consumers leave a `stock` of messages where they are, until no more are sent.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.changed = threading.Condition(threading.RLock())
        self.violations: list[Violation] = []
        self.tally: Counter[str] = Counter()
        self.stock = STOCK
        self.pause_s: float | None = None
        """After each send; None: as that of all queues."""

        self.calls: list[Call] | None = None
        """All that was waited for, where somebody wants to know."""

        self._longest_s: dict[str, float] = {}
        self._lost_cells: list[tuple[float, float]] = []

    def accuse(self, kind: str, text: str) -> None:
        """Note a violation."""
        with self.changed:
            self.violations.append(Violation(kind, f"{self.name}: {kind}: {text}"))
            self.changed.notify_all()

    def note(self, what: str, count: int = 1) -> None:
        """Count something, and wake who waits for it."""
        with self.changed:
            self.tally[what] += count
            self.changed.notify_all()

    def waited(self, what: str, began_s: float, ended_s: float) -> None:
        """A call was answered, or given up; `began_s` is when its first attempt was made."""
        with self.changed:
            self._longest_s[what] = max(ended_s - began_s, self._longest_s.get(what, 0.0))
            if self.calls is not None:
                self.calls.append(Call(what, began_s, ended_s))

    def wait_for(self, what: str, count: int, seconds: float) -> bool:
        """Return when so much of it was noted; False: not in time, or something is violated."""
        with self.changed:
            self.changed.wait_for(lambda: self.tally[what] >= count or self.violations, seconds)
            return self.tally[what] >= count

    def left(self) -> Sequence[object]:
        """What is stored, as far as clients know."""
        raise NotImplementedError

    def end(self) -> None:
        """All that is stored was received and deleted: what was not, is lost."""
        for what in self.left():
            self.accuse("lost", f"message {what}")

    def has_room(self) -> bool:
        """Return when senders need not wait for consumers; False: not within a second."""
        stored_max = max(STORED_MAX, self.stock)
        with self.changed:
            return self.changed.wait_for(lambda: len(self.left()) < stored_max, 1)

    def take_waits(self) -> dict[str, float]:
        """The longest waits since this was asked last."""
        with self.changed:
            taken, self._longest_s = self._longest_s, {}
            return taken

    def cell_lost(self, now_s: float, old_map_s: float = 0.0) -> None:
        """A cell is lost now: what copies have not heard of may be delivered again.

        So may what front ends do that go by an old map for so long.
        """
        with self.changed:
            until_s = now_s + old_map_s + TAKE_OVER_S_MAX
            self._lost_cells.append((now_s - LAG_S_MAX, until_s))

    def _may_be_forgotten(self, told_s: float) -> bool:
        return any(began_s <= told_s <= ended_s for began_s, ended_s in self._lost_cells)


@dataclass(slots=True)
class Sent:
    """A message of a standard queue that may be stored."""

    acknowledged: bool = False
    message_id: str = ""
    leased_s: float = 0.0
    leased_until_s: float = 0.0
    delete_asked: bool = False
    deleted_s: float = NEVER_S


class StandardBook(Book):
    """The book of a standard queue: messages are numbers."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.sent: dict[int, Sent] = {}
        self._stored: set[int] = set()
        """What was acknowledged, and nobody has asked to delete."""

    def send_asked(self) -> int:
        """A message that is going to be sent; its number."""
        with self.changed:
            number = len(self.sent) + 1
            self.sent[number] = Sent()
            return number

    def send_answered(self, number: int, message_id: str) -> None:
        """It was acknowledged."""
        with self.changed:
            sent = self.sent[number]
            sent.acknowledged = True
            if not sent.delete_asked:
                self._stored.add(number)
            self._identify(number, message_id)
            self.note("sends")

    def delivered(
        self, number: int, message_id: str, asked_s: float, answered_s: float, visibility_s: float
    ) -> None:
        """It was received by a call of that time."""
        with self.changed:
            sent = self.sent.get(number)
            if sent is None:
                self.accuse("altered", f"message {number}, which nobody sent")
                return
            self._identify(number, message_id)
            if asked_s > sent.deleted_s:
                self._again("resurrected", number, sent.deleted_s, asked_s)
                sent.deleted_s, sent.delete_asked = NEVER_S, False
                if sent.acknowledged:
                    self._stored.add(number)
            elif asked_s > sent.leased_s and answered_s < sent.leased_until_s - EARLY_S_MAX:
                self._again("early", number, sent.leased_s, asked_s)
            # Who asked first may have been answered last.
            if asked_s + visibility_s > sent.leased_until_s:
                sent.leased_s, sent.leased_until_s = answered_s, asked_s + visibility_s
            self.note("deliveries")

    def delete_asked(self, number: int) -> None:
        """It is going to be deleted."""
        with self.changed:
            self.sent[number].delete_asked = True
            self._stored.discard(number)

    def delete_answered(self, number: int, now_s: float) -> None:
        """That was acknowledged."""
        with self.changed:
            self.sent[number].deleted_s = now_s
            self.note("deletes")

    def left(self) -> list[int]:
        """What is stored, as far as clients know."""
        with self.changed:
            return sorted(self._stored)

    def _again(self, kind: str, number: int, told_s: float, asked_s: float) -> None:
        if self._may_be_forgotten(told_s):
            self.note(f"{kind}, as a cell was lost")
            return
        self.accuse(kind, f"message {number} came {asked_s - told_s:.3f} s after that was told")

    def _identify(self, number: int, message_id: str) -> None:
        sent = self.sent[number]
        if sent.message_id and sent.message_id != message_id:
            if sent.acknowledged:
                self.accuse("duplicate", f"message {number} has two ids")
            self.note("stored twice by repeated calls")
        sent.message_id = message_id


@dataclass(slots=True)
class Group:
    """A message group, whose messages are the numbers from 1 on, sent one after the other."""

    sent: int = 0
    acknowledged: int = 0
    done: set[int] = field(default_factory=set)
    in_doubt: set[int] = field(default_factory=set)
    ids: dict[int, tuple[str, str]] = field(default_factory=dict)
    low: int = 1
    """Everything below is done."""

    def is_done(self, number: int) -> bool:
        return number < self.low or number in self.done

    def end(self, number: int) -> None:
        """It is deleted for good."""
        self.in_doubt.discard(number)
        self.done.add(number)
        while self.low in self.done:
            self.done.discard(self.low)
            self.low += 1


class FifoBook(Book):
    """The book of a FIFO queue: nothing is excused but what was not answered."""

    def __init__(self, name: str, groups: Iterable[str]) -> None:
        super().__init__(name)
        self.groups = {group: Group() for group in groups}

    def send_asked(self, group: str) -> int:
        """The next message of a group is going to be sent, over and over until it is taken."""
        with self.changed:
            self.groups[group].sent += 1
            return self.groups[group].sent

    def send_answered(self, group: str, number: int, identity: tuple[str, str]) -> None:
        """It was acknowledged, with this message id and sequence number."""
        with self.changed:
            self.groups[group].acknowledged = number
            self._identify(group, number, identity)
            self.note("sends")

    def delivered(self, group: str, numbers: list[tuple[int, tuple[str, str]]]) -> None:
        """These were received together, in this order, with these ids and sequence numbers."""
        with self.changed:
            book = self.groups[group]
            together: set[int] = set()
            for number, identity in numbers:
                if not 1 <= number <= book.sent:
                    self.accuse("altered", f"message {group}{number}, which nobody sent")
                    return
                self._identify(group, number, identity)
                if book.is_done(number):
                    self.accuse("resurrected", f"message {group}{number} was deleted")
                # While one of a group is there, later ones come only together with it. So what is
                # in doubt was deleted after all.
                for doubtful in [each for each in book.in_doubt if each < number]:
                    if doubtful not in together:
                        book.end(doubtful)
                before = {each for each in range(book.low, number) if not book.is_done(each)}
                if before - together or (together and number < max(together)):
                    self.accuse("order", f"message {group}{number} came before {sorted(before)}")
                book.in_doubt.discard(number)
                together.add(number)
                self.note("deliveries")

    def delete_asked(self, group: str, number: int) -> None:
        """It is going to be deleted."""
        with self.changed:
            self.groups[group].in_doubt.add(number)

    def delete_answered(self, group: str, number: int) -> None:
        """That was acknowledged."""
        with self.changed:
            self.groups[group].end(number)
            self.note("deletes")

    def left(self) -> list[str]:
        """What is stored, as far as clients know."""
        with self.changed:
            return [
                f"{name}{number}"
                for name, group in self.groups.items()
                for number in range(group.low, group.acknowledged + 1)
                if not group.is_done(number) and number not in group.in_doubt
            ]

    def _identify(self, group: str, number: int, identity: tuple[str, str]) -> None:
        known = self.groups[group].ids.setdefault(number, identity)
        if known != identity:
            self.accuse("duplicate", f"message {group}{number} is {known}, and {identity}")
