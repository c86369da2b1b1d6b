"""What a rescued cell has, counted by queue, from its items (docs/storage.md)."""

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from data_plane.ports import Attributes, Value
from data_plane.replication.placement import INCARNATION_MARK

_RETENTION_S: Final = 345_600
"""SQS's default, where a queue's definition has none."""

_MESSAGES: Final = ("B", "G")
_STATES: Final = ("S", "F")
_OF_QUEUE: Final = (*_MESSAGES, *_STATES, "T")
_RECORDS: Final = "records of streams"
_COUNTED: Final[dict[tuple[str, int], str]] = {
    ("Q", 2): "queue definitions",
    ("A", 0): "accounts",
    ("A", 2): "streams",
    ("I", 1): "users",
    ("N", 1): "access keys",
    ("N", 3): _RECORDS,
}
"""By the kind of a partition, and how many parts the rest of its name has."""
_SECRETS: Final = "M|secrets"
_SENT_AND_KEPT: Final = ord("a")
_COUNTER_SORT_BYTES: Final = 17


@dataclass(slots=True)
class QueueCount:
    """Messages of a queue: whole, in damaged items (segments), and as its own counters have it."""

    name: str
    whole: int = 0
    damaged_segments: int = 0
    damaged_states: int = 0
    counted: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it is known to be missing."""
        return not (self.damaged_segments or self.damaged_states or self.missing)

    @property
    def missing(self) -> int:
        """Messages that its counters have, and that were not found."""
        return max(0, self.counted - self.whole)


@dataclass(slots=True)
class _Stored:
    """Messages of a segment: its block, index, number, stamp (us)."""

    block: tuple[str, bytes]
    first: int
    count: int
    stamp_us: int


@dataclass(slots=True)
class Counts:
    """Told of each item; then it knows what there is. `now_us` decides what has expired.

    One cell of several may have a queue more than once, from when it left a group and joined again:
    the latest of these copies counts alone.
    """

    now_us: int
    kinds: Counter[str] = field(default_factory=Counter)
    damaged: Counter[str] = field(default_factory=Counter)
    secret: Attributes | None = None
    latest_us: int = 0
    _latest: dict[str, int] = field(default_factory=dict)
    _seen: set[tuple[str, str, bytes]] = field(default_factory=set)
    _queues: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    _segments: dict[str, list[_Stored]] = field(default_factory=lambda: defaultdict(list))
    _done: dict[tuple[str, bytes], frozenset[int]] = field(default_factory=dict)
    _counters: dict[str, list[tuple[int, int, int]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _damaged_of: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, stored_key: bytes, item: Attributes | None) -> None:
        """An item; None: it is damaged."""
        partition, _zero, sort = stored_key.partition(b"\0")
        name, _mark, incarnation = partition.decode(errors="replace").partition(INCARNATION_MARK)
        kind, _bar, rest = name.partition("|")
        uid, _bar, lane = rest.partition("|")
        if kind in _OF_QUEUE and not self._is_latest(uid, incarnation):
            return
        told = _COUNTED.get((kind, len([part for part in rest.split("|") if part])), "")
        if item is None:
            self.damaged["slots of streams" if told == _RECORDS else told or "other items"] += 1
            self._damaged_of[uid][kind] += 1
            return
        is_kept = told == _RECORDS or (told and item.get("k") != "d")
        if is_kept and (kind, rest, sort) not in self._seen:
            self._seen.add((kind, rest, sort))
            self.kinds[told] += _number(item.get("n")) if told == _RECORDS else 1
        self.latest_us = max(self.latest_us, _number(item.get("t")))
        if kind == "Q" and item.get("k") != "d":
            self._add_queue(rest, sort, item)
        elif kind in _MESSAGES and item.get("k") == "s":
            block = item.get("b")
            at = block if isinstance(block, bytes) else _number(block).to_bytes(8, "big")
            first, count = _number(item.get("i")), _number(item.get("n"))
            stored = _Stored((f"{uid}|{lane}", at), first, count, _number(item.get("t")))
            self._segments[uid].append(stored)
        elif kind in _STATES and isinstance(done := item.get("d"), frozenset):
            self._done[f"{uid}|{lane}", sort] = done
        elif kind == "T" and len(sort) == _COUNTER_SORT_BYTES and sort[8] == _SENT_AND_KEPT:
            bucket = int.from_bytes(sort[9:], "big")
            purged_us = int.from_bytes(sort[:8], "big")
            self._counters[uid].append((purged_us, bucket, _number(item.get("n"))))
        elif f"{kind}|{rest}" == _SECRETS:
            self.secret = item

    def _is_latest(self, uid: str, incarnation: str) -> bool:
        """Whether an item is of the latest copy of its queue; if so others are forgotten."""
        this = int(incarnation) if incarnation.isdecimal() else 0
        before = self._latest.get(uid, 0)
        if this > before:
            self._latest[uid] = this
            for of_queue in (self._segments, self._counters, self._damaged_of):
                of_queue.pop(uid, None)
            self._done = {at: done for at, done in self._done.items() if at[0].split("|")[0] != uid}
        return this >= before

    @property
    def has_secret(self) -> bool:
        """Whether the registry secret is whole."""
        return self.secret is not None

    def _add_queue(self, place: str, name: bytes, item: Attributes) -> None:
        retention_s = _RETENTION_S
        try:
            attributes = json.loads(str(item.get("a")))
            retention_s = int(attributes.get("MessageRetentionPeriod", retention_s))
        except (ValueError, AttributeError):
            pass  # what cannot be read is refused by whoever serves the queue
        account, _bar, region = place.partition("|")
        told = f"{account}/{region}/{name.decode(errors='replace')}"
        self._queues[str(item.get("u"))] = told, _number(item.get("p")), retention_s * 1_000_000

    def queues(self) -> list[QueueCount]:
        """Every queue that has a definition, messages, or damage; those without a name last."""
        uids = {*self._queues, *self._segments, *self._queue_damage()}
        counted = [self._count(uid) for uid in uids]
        return sorted(counted, key=lambda queue: (queue.name.startswith("uid "), queue.name))

    def _queue_damage(self) -> list[str]:
        kinds = {*_MESSAGES, *_STATES}
        return [uid for uid, damaged in self._damaged_of.items() if kinds & set(damaged)]

    def _count(self, uid: str) -> QueueCount:
        name, purged_us, kept_us = self._queues.get(uid, ("", 0, self.now_us))
        queue = QueueCount(name or f"uid {uid}, whose definition is missing")
        oldest_us = max(purged_us, self.now_us - kept_us)
        for segment in self._segments.get(uid, ()):
            if segment.stamp_us > oldest_us:
                done = self._done.get(segment.block, frozenset())
                own = range(segment.first, segment.first + segment.count)
                queue.whole += segment.count - sum(index in done for index in own)
        for at_us, minute, number in self._counters.get(uid, ()):
            if at_us == purged_us and (minute + 1) * 60_000_000 > oldest_us:
                queue.counted += number
        damaged = self._damaged_of.get(uid, Counter())
        queue.damaged_segments = sum(damaged[kind] for kind in _MESSAGES)
        queue.damaged_states = sum(damaged[kind] for kind in _STATES)
        return queue


def _number(value: Value | None) -> int:
    return value if isinstance(value, int) else 0
