"""Alterations of what a service has stored: an audit has to find each, and to name it."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final, NamedTuple

from data_plane.ports import Attributes, Item, Key, Value
from tests.audits.service import ACCOUNT, REGION, ServiceInTime

ELSEWHERE: Final = ("elsewhere", "elsewhere.fifo")
"""Where messages are moved to that nobody sends there."""

_URL: Final = f"http://sqs.example/{ACCOUNT}"
_MINUTE_US: Final = 60_000_000
_OF_COPIES: Final = ("R", "E")
"""Attributes that are a copy's own business."""


class Expected(NamedTuple):
    """A finding that there has to be; `message` is a part of its own, "" where nobody knows it."""

    kind: str
    queue: str
    sent: str
    message: str

    def is_in(self, findings: Iterable[dict[str, Any]]) -> bool:
        """Whether it is among those of a report."""
        return any(
            (its["kind"], its["queue"]) == (self.kind, self.queue)
            and (its["sent"] or "").startswith(self.sent)
            and self.message in (its["message"] or "")
            for its in findings
        )


def queues(count: int) -> list[str]:
    """Names of so many queues, every fourth a FIFO queue."""
    return [f"q{number}" + (".fifo" if number % 4 == 3 else "") for number in range(count)]


async def fill(
    service: ServiceInTime, names: Collection[str], exported: set[Key], settled_s: int = 0
) -> None:
    """Messages in all of them, before an export and after it; then the server is killed.

    So there are rows of the ledger that are no records yet. `exported` gets the keys of what the
    export has. For `settled_s` nothing is sent before the end: copies have everything then.
    """

    def note(items: list[Item]) -> list[Item]:
        exported.update(item.key for item in items)
        return items

    await service.start()
    for name in (*names, *ELSEWHERE):
        attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
        await service.ask("CreateQueue", QueueName=name, Attributes=attributes)
    for number in range(2):
        await _send(service, names, f"{number}")
        await service.pass_time(45)
    await service.stop()
    await service.export(note)
    await service.start()
    await service.pass_time(60)
    await _send(service, names, "after")
    await service.pass_time(settled_s)
    await service.kill()


async def _send(service: ServiceInTime, names: Iterable[str], call: str) -> None:
    for name in names:
        fifo = {"MessageGroupId": "g"} if name.endswith(".fifo") else {}
        entries = [
            {
                "Id": f"{number}",
                "MessageBody": f"{call} {number}",
                **fifo,
                **({"MessageDeduplicationId": f"{call}-{number}"} if fifo else {}),
            }
            for number in range(3)
        ]
        await service.ask("SendMessageBatch", QueueUrl=f"{_URL}/{name}", Entries=entries)
        await service.pass_time(0.1)


@dataclass
class Forger:
    """Alters the items of an export, one queue after another; `expected` is what it planted.

    `before` has the keys of what an earlier export has seen. With `has_copies` the items are those
    of one cell, and others have them, too.
    """

    items: dict[Key, Attributes]
    before: Collection[Key]
    random: Random
    has_copies: bool = False

    def __post_init__(self) -> None:
        self.expected: list[tuple[str, list[Expected]]] = []
        self._uids = {
            key.sort.decode(): str(its["u"])
            for key, its in self.items.items()
            if key.partition.partition("@")[0] == f"Q|{ACCOUNT}|{REGION}" and its.get("k") == "q"
        }

    def plant(self, names: Iterable[str]) -> list[Item]:
        """One alteration in each of these queues: the items."""
        kinds = (self.remove, self.duplicate, self.flip, self.move, self.count)
        for number, name in enumerate(names):
            alter = kinds[number % len(kinds)]
            self.expected.append((alter.__name__, alter(name)))
        return [Item(*each) for each in sorted(self.items.items())]

    def remove(self, name: str) -> list[Expected]:
        """Messages vanish."""
        key = self._any(name)
        return self._gone(name, key, self.items.pop(key))

    def duplicate(self, name: str) -> list[Expected]:
        """Messages lie in a second item, too."""
        key = self._any(name)
        self._put(key.partition, key.sort, self.items[key])
        if self.has_copies:
            return _named("copy_lacks", name, self.items[key])[:1]
        return _named("stored_twice", name, self.items[key])

    def flip(self, name: str) -> list[Expected]:
        """One bit of an item is another one, anywhere in it."""
        key = self._any(name, seen=True)
        its = dict(self.items[key])
        numbers = sorted(its.keys() - {"k", *_OF_COPIES})
        what = self.random.choice([*numbers, "z", "x"])
        expected = _named("changed", name, its)[:1]
        its[what] = self._flipped(its[what])
        self.items[key] = its
        return expected

    def move(self, name: str) -> list[Expected]:
        """Messages lie in another queue than before."""
        key = self._any(name)
        target = ELSEWHERE[name.endswith(".fifo")]
        its = self.items.pop(key)
        partition = key.partition.replace(self._uids[name], self._uids[target])
        self._put(partition, key.sort, its)
        if self.has_copies:
            return [*self._gone(name, key, its), *_named("copy_lacks", target, its)[:1]]
        return [*self._gone(name, key, its), *_named("not_sent_candidate", target, its)]

    def count(self, name: str) -> list[Expected]:
        """A segment says another number of messages, or the ledger does."""
        step = self.random.choice((-1, 1))
        if self.has_copies or self.random.random() < 0.5:
            key = self._any(name, seen=True)
            its = self.items[key]
            self.items[key] = {**its, "n": _int(its["n"]) + step}
            return _named("changed", name, its)[:1]
        (key,) = (
            key
            for key in self.items
            if key.partition == "L|" and key.sort.endswith(self._uids[name].encode())
        )
        row = self.items[key]
        of = self.random.choice("rumy")
        self.items[key] = {**row, of: _int(row[of]) + step}
        kind = "ledger_differs"
        if of == "m":
            kind = "sent_and_not_seen" if step > 0 else "not_sent"
        minute = int.from_bytes(key.sort[:8], "big")
        return [Expected(kind, name, _time(minute * _MINUTE_US), "")]

    def _any(self, name: str, *, seen: bool = False) -> Key:
        """A segment or slot of the queue; with `seen` one that an earlier export has."""
        letter = "G" if name.endswith(".fifo") else "B"
        return self.random.choice(
            [
                key
                for key, its in sorted(self.items.items())
                if key.partition.startswith(f"{letter}|{self._uids[name]}|")
                and its.get("k") == "s"
                and (key in self.before or not seen)
            ]
        )

    def _gone(self, name: str, key: Key, its: Attributes) -> list[Expected]:
        """Who they were an export has to have seen; else it is known how many there were.

        What a copy lacks is named by the first of them.
        """
        if self.has_copies:
            return _named("copy_lacks", name, its)[:1]
        if key in self.before:
            return _named("lost", name, its)
        minute_us = _int(its["t"]) // _MINUTE_US * _MINUTE_US
        return [Expected("sent_and_not_seen", name, _time(minute_us), "")]

    def _put(self, partition: str, sort: bytes, its: Attributes) -> None:
        """Under the next key that nothing has."""
        at = int.from_bytes(sort[:8], "big")
        while (key := Key(partition, at.to_bytes(8, "big") + sort[8:])) in self.items:
            at += 1
        self.items[key] = its

    def _flipped(self, value: Value) -> Value:
        if isinstance(value, int):
            return value ^ 1 << self.random.randrange(value.bit_length() + 1)
        assert isinstance(value, bytes)
        at, bit = self.random.randrange(len(value)), self.random.randrange(8)
        return value[:at] + bytes((value[at] ^ 1 << bit,)) + value[at + 1 :]


def _named(kind: str, name: str, its: Attributes) -> list[Expected]:
    """A finding of this kind for each message of a segment or slot."""
    block = its["b"]
    named = block if isinstance(block, bytes) else _int(block).to_bytes(8, "big")
    first, sent = _int(its["i"]), _time(_int(its["t"]))
    return [
        Expected(kind, name, sent, f"block {named.hex()} index {index}")
        for index in range(first, first + _int(its["n"]))
    ]


def _time(time_us: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
