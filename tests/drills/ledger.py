"""What the clients of one server were told, and what follows from it for what they are told later.

Times are seconds of the clock that the server has, too. Clients note what they ask before they ask,
so that whatever was not answered is known to be in doubt. An *audit* is a time without other
clients, in which everything visible is received: what should have been seen then and was not, is
lost.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from data_plane.bag.bounds import FOREIGN_LEASE_GUARD_MS
from tests.drills.content import MIXED, Sizes, content_of, differences, number_in

EARLY_S_MAX: Final = 0.01
"""Leases end in whole milliseconds."""

LATE_S_MAX: Final = FOREIGN_LEASE_GUARD_MS / 1000 + 0.1
"""How much later than its lease's end a message may be found: a server that was started anew lets
leases of the one before it end later."""

NEVER_S: Final = float("inf")


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and what shows it. `kind` is one of KINDS."""

    kind: str
    text: str


KINDS: Final = (
    *("lost", "resurrected", "early", "altered", "duplicate", "order", "count", "answer"),
)


@dataclass(slots=True)
class Entry:
    """A message that may be stored.

    It may not be delivered from `hidden_from_s` to `hidden_until_s`, and audits must find it from
    `due_s` on. A change of its visibility that was answered before `changeable_until_s` was made.
    `counts` are the receive counts that were answered with it.
    """

    round: int
    acknowledged: bool = False
    message_id: str = ""
    hidden_from_s: float = 0.0
    hidden_until_s: float = 0.0
    changeable_until_s: float = 0.0
    due_s: float = NEVER_S
    counts: set[int] = field(default_factory=set)
    deleting: bool = False
    audit: int = 0

    @property
    def stored(self) -> bool:
        """Whether it is known to have been stored, and nobody asked to delete it."""
        return (self.acknowledged or bool(self.counts)) and not self.deleting


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A receive without an answer: it may hide this many messages until then."""

    until_s: float
    count: int


class Ledger:
    """The books of one server. Its methods may be called from many threads."""

    def __init__(self, cell: str, sizes: Sizes = MIXED) -> None:
        self.cell = cell
        self.content_of = partial(content_of, sizes=sizes)
        self.round = 0
        self.entries: dict[int, Entry] = {}
        self.gone: dict[int, float] = {}
        """From when on no receive may bring a message, by number."""
        self.unanswered: list[Unanswered] = []
        self.violations: list[Violation] = []
        self.tally: Counter[str] = Counter()
        self.changed = threading.Condition(threading.RLock())
        self._numbers = 0
        self._audits = 0

    def wait_for(self, what: str, count: int, seconds: float) -> bool:
        """Return when so much was noted under this name of the tally; False: not in time."""
        with self.changed:
            return self.changed.wait_for(lambda: self.tally[what] >= count, seconds)

    def note(self, what: str) -> None:
        """Count something, and that something was counted."""
        with self.changed:
            self.tally.update((what, "noted"))
            self.changed.notify_all()

    def accuse(self, kind: str, text: str) -> None:
        """Note a violation."""
        with self.changed:
            self.violations.append(
                Violation(kind, f"{self.cell}, round {self.round}: {kind}: {text}")
            )

    # Sending

    def send_asked(self, delay_s: int, now_s: float) -> int:
        """Note a message that is going to be sent; its number."""
        with self.changed:
            self._numbers += 1
            self.entries[self._numbers] = Entry(self.round, hidden_until_s=now_s + delay_s)
            return self._numbers

    def send_answered(
        self, number: int, answer: Mapping[str, Any], delay_s: int, now_s: float
    ) -> None:
        """Note that a send was acknowledged."""
        content = self.content_of(number)
        with self.changed:
            entry = self.entries.get(number)
            if entry is not None:
                entry.acknowledged = True
                if not entry.counts:
                    entry.due_s = now_s + delay_s
                self._identify(number, entry, answer["MessageId"])
            digests = (answer.get("MD5OfMessageBody"), answer.get("MD5OfMessageAttributes", ""))
            if digests != (content.md5_of_body, content.md5_of_attributes):
                self.accuse("altered", f"message {number} was acknowledged with other digests")
            self.note("sends")

    def send_failed(self, number: int, delay_s: int, now_s: float) -> None:
        """Note that nobody knows whether a message is stored."""
        with self.changed:
            entry = self.entries.get(number)
            if entry is not None and not entry.counts:
                entry.due_s = now_s + delay_s

    # Receiving

    def delivered(
        self,
        message: Mapping[str, Any],
        visibility_s: float,
        asked_s: float,
        answered_s: float,
        *,
        auditing: bool = False,
    ) -> int | None:
        """Note a delivery and judge it; the number of the message, None if it was never sent."""
        number = number_in(message)
        with self.changed:
            entry = self.entries.get(number) if number is not None else None
            if number is None or entry is None:
                self._judge_absent(number, message, asked_s)
                return None
            wrong = differences(message, self.content_of(number))
            if wrong:
                self.accuse("altered", f"{self._shown(number)} came with another {wrong}")
            self._identify(number, entry, message["MessageId"])
            if entry.hidden_from_s <= answered_s < entry.hidden_until_s - EARLY_S_MAX:
                left_s = entry.hidden_until_s - answered_s
                self.accuse("early", f"{self._shown(number)} came {left_s:.3f} s too early")
            # Of two deliveries the older one may be noted last.
            known_s = entry.due_s if entry.counts else 0.0
            entry.due_s = max(known_s, answered_s + visibility_s)
            if asked_s > entry.hidden_from_s:
                entry.hidden_from_s, entry.hidden_until_s = asked_s, asked_s + visibility_s
            self._judge_count(number, entry, message, auditing=auditing)
            if auditing:
                entry.audit = self._audits
                entry.deleting = False
            self.note("deliveries")
        return number

    def receive_failed(self, count: int, visibility_s: float, now_s: float) -> None:
        """Note that messages may have been leased without anybody knowing which."""
        with self.changed:
            self.unanswered.append(Unanswered(now_s + visibility_s, count))

    # Deleting and changing

    def delete_asked(self, number: int) -> None:
        """Note that a message is going to be deleted."""
        with self.changed:
            if number in self.entries:
                self.entries[number].deleting = True

    def delete_answered(self, number: int, now_s: float) -> None:
        """Note that a delete was acknowledged."""
        with self.changed:
            self.entries.pop(number, None)
            self.gone.setdefault(number, now_s)
            self.note("deletes")

    def change_asked(self, number: int, visibility_s: float, now_s: float) -> None:
        """Note that a message's visibility is going to be changed."""
        with self.changed:
            entry = self.entries.get(number)
            if entry is not None:
                entry.changeable_until_s = entry.hidden_until_s
                entry.hidden_until_s = min(entry.hidden_until_s, now_s + visibility_s)

    def change_answered(
        self, number: int, visibility_s: float, asked_s: float, answered_s: float
    ) -> None:
        """Note that a change of visibility was acknowledged.

        Where the visibility may have ended before, it may have had no effect.
        """
        with self.changed:
            entry = self.entries.get(number)
            if entry is not None and answered_s < entry.changeable_until_s - EARLY_S_MAX:
                entry.hidden_from_s, entry.hidden_until_s = asked_s, asked_s + visibility_s
                entry.due_s = answered_s + visibility_s
            elif entry is not None:
                entry.hidden_until_s = min(entry.hidden_until_s, asked_s + visibility_s)
                entry.due_s = max(entry.due_s, answered_s + visibility_s)
            self.note("changes")

    def change_failed(self, number: int, visibility_s: float, now_s: float) -> None:
        """Note that nobody knows which visibility a message has."""
        with self.changed:
            entry = self.entries.get(number)
            if entry is not None:
                entry.due_s = max(entry.due_s, now_s + visibility_s)

    def change_refused(self, number: int, answer: str, now_s: float) -> bool:
        """Whether it may be that a message was not in flight; then it can be received now."""
        with self.changed:
            entry = self.entries.get(number)
            if entry is not None and entry.stored and "MessageNotInflight" not in answer:
                return False
            if entry is not None:
                entry.due_s = now_s
            return True

    # Auditing

    def begin_audit(self) -> None:
        """From now on every delivery is one of the audit's own."""
        with self.changed:
            self._audits += 1

    def missing(self, began_s: float) -> list[int]:
        """What this audit, which began then, should have found, and nothing excuses."""
        with self.changed:
            missing = [number for number in self._absent(began_s) if self.entries[number].stored]
            return missing if len(missing) > self._hidden_max(began_s) else []

    def end_audit(self, began_s: float) -> None:
        """Everything visible was received since `began_s`: judge what was not."""
        with self.changed:
            hidden_max = self._hidden_max(began_s)
            missing = self.missing(began_s)
            for number in missing:
                self.accuse("lost", f"{self._shown(number)} ({hidden_max} may be leased)")
            if missing or hidden_max == 0:
                # Either lost, or it was never stored, or its delete took effect.
                for number in self._absent(began_s):
                    del self.entries[number]
                    self.gone[number] = began_s

    def _hidden_max(self, began_s: float) -> int:
        """How many messages receives may have leased whose answers were lost."""
        self.unanswered = [
            lease for lease in self.unanswered if lease.until_s + LATE_S_MAX > began_s
        ]
        return sum(lease.count for lease in self.unanswered)

    def _absent(self, began_s: float) -> list[int]:
        return [
            number
            for number, entry in self.entries.items()
            if entry.due_s + LATE_S_MAX <= began_s and entry.audit != self._audits
        ]

    def queue_lost(self) -> None:
        """The queue is not there any more."""
        with self.changed:
            for number, entry in self.entries.items():
                if entry.stored:
                    self.accuse("lost", f"{self._shown(number)}, with its queue")
            self.entries.clear()

    def stored_count(self) -> int:
        """How many messages are known to be stored."""
        with self.changed:
            return sum(entry.stored for entry in self.entries.values())

    def settled_s(self) -> float:
        """From when on an audit finds everything."""
        with self.changed:
            due_s = [entry.due_s for entry in self.entries.values()]
            return max([0.0, *due_s, *(lease.until_s for lease in self.unanswered)]) + LATE_S_MAX

    def _identify(self, number: int, entry: Entry, message_id: str) -> None:
        if entry.message_id and entry.message_id != message_id:
            self.accuse("duplicate", f"{self._shown(number)} has another id, too: {message_id}")
        entry.message_id = message_id

    def _judge_absent(self, number: int | None, message: Mapping[str, Any], asked_s: float) -> None:
        gone_s = self.gone.get(number) if number is not None else None
        if gone_s is None:
            start = str(message.get("Body"))[:40]
            self.accuse("altered", f"a message that nobody sent: {start!r}")
        elif asked_s > gone_s:
            text = f"message {number}, id {message['MessageId']}, was gone {asked_s - gone_s:.3f} s"
            self.accuse("resurrected", text)

    def _judge_count(
        self, number: int, entry: Entry, message: Mapping[str, Any], *, auditing: bool
    ) -> None:
        count = int(message["Attributes"]["ApproximateReceiveCount"])
        # Clients may note deliveries in another order than they got them; an audit does not.
        fell_behind = auditing and entry.counts and count <= max(entry.counts)
        if count in entry.counts or fell_behind:
            answered = sorted(entry.counts)
            self.accuse("count", f"{self._shown(number)} came as number {count} after {answered}")
        entry.counts.add(count)

    def _shown(self, number: int) -> str:
        entry = self.entries[number]
        how = "acknowledged" if entry.acknowledged else "not acknowledged"
        return (
            f"message {number}, id {entry.message_id or 'unknown'}, {how} in round {entry.round},"
            f" received {sorted(entry.counts)}"
        )
