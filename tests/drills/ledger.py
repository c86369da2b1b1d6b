"""What the clients of one server were told, and what follows from it for what they are told later.

Times are seconds of the clock that the server has, too. Clients note what they ask before they ask,
so that whatever was not answered is known to be in doubt. An *audit* is a time without other
clients, in which everything visible is received: what should have been seen then and was not, is
*lost*, unless it is seen later: then it was *hidden*. What comes after its delete was acknowledged
is *resurrected*.
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
LATE: Final = ("MessageNotInflight", "The receipt handle has expired")
"""What a change of visibility is told that comes after its end, by the kind of queue."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken, and what shows it. `kind` is one of KINDS."""

    kind: str
    text: str


KINDS: Final = (
    *("lost", "hidden", "resurrected", "early", "altered", "duplicate", "order", "count", "answer"),
)


@dataclass(slots=True)
class Entry:
    """A message that may be stored.

    It may not be delivered from `hidden_from_s` to `hidden_until_s`, and audits must find it from
    `due_s` on. `counts` are the receive counts that were answered with it, and `noted` says how
    many deliveries and changes of its visibility were noted.
    """

    round: int
    acknowledged: bool = False
    message_id: str = ""
    hidden_from_s: float = 0.0
    hidden_until_s: float = 0.0
    due_s: float = NEVER_S
    counts: set[int] = field(default_factory=set)
    noted: int = 0
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


@dataclass(frozen=True, slots=True)
class Change:
    """A change of visibility that is asked for. If it is answered before `sure_until_s` it is made.

    `noted` is what the message's entry said then: if it says more when the answer is noted, others
    may have changed the visibility later, for answers are not noted in their order.
    """

    number: int
    visibility_s: float
    asked_s: float
    sure_until_s: float = 0.0
    noted: int = 0


@dataclass(frozen=True, slots=True)
class Missed:
    """What an audit of this round, which began at `since_s`, did not find.

    `accused` is the place of the violation that says so; None: it need not have been there.
    """

    entry: Entry
    round: int
    since_s: float
    accused: int | None


class Ledger:
    """The books of one server. Its methods may be called from many threads."""

    def __init__(self, cell: str, sizes: Sizes = MIXED) -> None:
        self.cell = cell
        self.content_of = partial(content_of, sizes=sizes)
        self.round = 0
        self.entries: dict[int, Entry] = {}
        self.gone: dict[int, float] = {}
        """Messages whose delete was acknowledged, by number, and when."""
        self.missed: dict[int, Missed] = {}
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

    def accuse(self, kind: str, text: str, instead_of: int | None = None) -> None:
        """Note a violation, maybe in the place of another one."""
        violation = Violation(kind, f"{self.cell}, round {self.round}: {kind}: {text}")
        with self.changed:
            if instead_of is None:
                self.violations.append(violation)
            else:
                self.violations[instead_of] = violation

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
            entry = entry or self._come_back(number, message, asked_s)
            if number is None or entry is None:
                return None
            entry.noted += 1
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

    def change_asked(self, number: int, visibility_s: float, now_s: float) -> Change:
        """Note that a message's visibility is going to be changed."""
        with self.changed:
            entry = self.entries.get(number)
            if entry is None:
                return Change(number, visibility_s, now_s)
            sure_until_s = entry.hidden_until_s
            entry.hidden_until_s = min(entry.hidden_until_s, now_s + visibility_s)
            return Change(number, visibility_s, now_s, sure_until_s, entry.noted)

    def change_answered(self, change: Change, answered_s: float) -> None:
        """Note that a change of visibility was acknowledged.

        Where the visibility may have ended before, it may have had no effect. Where anything else
        of the message was noted meanwhile, that may have come later: somebody may have received it
        as soon as the change let it be seen.
        """
        until_s = change.asked_s + change.visibility_s
        due_s = answered_s + change.visibility_s
        with self.changed:
            entry = self.entries.get(change.number)
            if entry is not None:
                is_latest = entry.noted == change.noted
                if is_latest and answered_s < change.sure_until_s - EARLY_S_MAX:
                    entry.hidden_from_s, entry.hidden_until_s = change.asked_s, until_s
                    entry.due_s = due_s
                else:
                    entry.hidden_until_s = min(entry.hidden_until_s, until_s)
                    entry.due_s = max(entry.due_s, due_s)
                entry.noted += 1
            self.note("changes")

    def change_failed(self, change: Change, now_s: float) -> None:
        """Note that nobody knows which visibility a message has."""
        with self.changed:
            entry = self.entries.get(change.number)
            if entry is not None:
                entry.due_s = max(entry.due_s, now_s + change.visibility_s)
                entry.noted += 1

    def change_refused(self, change: Change, answer: str, now_s: float) -> bool:
        """Whether it may be that a message was not in flight; then it can be received now."""
        with self.changed:
            entry = self.entries.get(change.number)
            is_late = any(told in answer for told in LATE)
            if entry is not None and entry.stored and not is_late:
                return False
            if entry is not None and entry.noted == change.noted:
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
            missing = set(self.missing(began_s))
            # Or it was never stored, or its delete took effect.
            for number in self._absent(began_s) if missing or hidden_max == 0 else ():
                accused = None
                if number in missing:
                    accused = len(self.violations)
                    self.accuse("lost", f"{self._shown(number)} ({hidden_max} may be leased)")
                entry = self.entries.pop(number)
                self.missed[number] = Missed(entry, self.round, began_s, accused)

    def lost(self) -> list[int]:
        """What audits should have found and nobody has seen since."""
        with self.changed:
            return [number for number, one in self.missed.items() if one.accused is not None]

    def end(self, now_s: float) -> None:
        """Nobody looks any more: say for how long what is lost was not seen."""
        with self.changed:
            for number in self.lost():
                one = self.missed[number]
                text = f"{_text(number, one.entry)}, not seen for {now_s - one.since_s:.0f} s, from"
                text = f"{text} the audit of round {one.round} to the end"
                self.accuse("lost", text, one.accused)

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

    def _come_back(
        self, number: int | None, message: Mapping[str, Any], asked_s: float
    ) -> Entry | None:
        """Judge a delivery of what is not there; from then on it is there again.

        None where nobody sent it, and where the receive was under way when its delete was answered.
        """
        count = message["Attributes"]["ApproximateReceiveCount"]
        missed = self.missed.pop(number, None) if number is not None else None
        gone_s = self.gone.get(number) if number is not None else None
        if number is not None and missed is not None:
            entry = missed.entry
            was = "whose delete was not answered, " if entry.deleting else ""
            text = (
                f"{_text(number, entry)}, {was}not found by the audit of round {missed.round}, came"
                f" as number {count}, {asked_s - missed.since_s:.3f} s after it began"
            )
            self.accuse("hidden", text, missed.accused)
            entry.deleting = False
        elif number is not None and gone_s is not None:
            if asked_s <= gone_s:
                return None
            entry = Entry(self.round, message_id=message["MessageId"])
            text = (
                f"message {number}, id {entry.message_id}, came as number {count},"
                f" {asked_s - gone_s:.3f} s after its delete was acknowledged"
            )
            self.accuse("resurrected", text)
            del self.gone[number]
        else:
            start = str(message.get("Body"))[:40]
            self.accuse("altered", f"a message that nobody sent: {start!r}")
            return None
        self.entries[number] = entry
        return entry

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
        return _text(number, self.entries[number])


def _text(number: int, entry: Entry) -> str:
    how = "acknowledged" if entry.acknowledged else "not acknowledged"
    return (
        f"message {number}, id {entry.message_id or 'unknown'}, {how} in round {entry.round},"
        f" received {sorted(entry.counts)}"
    )
