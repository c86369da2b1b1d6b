"""What producers of a stream were told, and what readers have to find.

Each key has one producer, whose records are numbered: so their order is known. Of what was not
acknowledged nobody knows more than that it is there once, or not at all: it is not put again.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.drills.books import Book
from tests.simulation.streams.reading import Place, Reading, seen


class StreamBook(Book):
    """The book of a stream: records are `key:number`."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.asked: Counter[str] = Counter()
        self.acknowledged: dict[str, Place] = {}

    def put_asked(self, key: str, count: int) -> list[str]:
        """So many records that are going to be put."""
        with self.changed:
            first = self.asked[key]
            self.asked[key] += count
            return [f"{key}:{number}" for number in range(first, first + count)]

    def put_answered(self, records: Sequence[str], answers: Sequence[Mapping[str, Any]]) -> None:
        """Where they are, of those that are stored."""
        with self.changed:
            for record, answer in zip(records, answers, strict=True):
                if "SequenceNumber" in answer:
                    self.acknowledged[record] = seen(answer, record).place
                    self.note("sends")

    def left(self) -> Sequence[object]:
        """Nothing: records stay."""
        return ()

    def known(self) -> Mapping[str, Place]:
        """What was acknowledged by now."""
        with self.changed:
            return dict(self.acknowledged)

    def check(self, reading: Reading, known: Mapping[str, Place]) -> None:
        """A reading to the end has what was known before, once, in order, where it was told."""
        places: dict[str, set[Place]] = defaultdict(set)
        for one in reading.seen:
            places[one.data].add(one.place)
        for record, place in known.items():
            if record not in places:
                self.accuse("lost", f"{record}, which was put at {place}")
            elif place not in places[record]:
                self.accuse("altered", f"{record} is at {places[record]}, and was put at {place}")
        for record, times in Counter(one.data for one in reading.seen).items():
            if times > 1:
                self.accuse("duplicate", f"{record} was read {times} times")
        self._check_order(reading)

    def _check_order(self, reading: Reading) -> None:
        numbers: dict[str, list[int]] = defaultdict(list)
        offsets: dict[int, list[int]] = defaultdict(list)
        for one in reading.seen:
            key, _, number = one.data.rpartition(":")
            numbers[key].append(int(number))
            offsets[one.place.shard].append(one.place.offset)
        for key, met in numbers.items():
            for before, after in pairwise(met):
                if after < before:
                    self.accuse("order", f"{key}:{after} was read behind {key}:{before}")
        for shard, met in offsets.items():
            if met != list(range(1, len(met) + 1)):
                self.accuse("count", f"shard {shard} has gaps: {met[:3]} to {met[-1]}")
