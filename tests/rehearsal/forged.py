"""Differences planted in what a server stored: in its cell, and in its usage place."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
from pyarrow import parquet

from data_plane.ports import Attributes, Item, Key
from data_plane.usage.place import objects_of
from data_plane.usage.record import AccessRecord, UsageRecord
from tests.rehearsal.stored_items import StoredItems

FORGED_BLOCK = b"forged0001"
SENT_AND_LOST = 3
Finding = tuple[str, str, str, int]
"""Kind, queue, message and count, as a report has them."""


@dataclass
class Forger:
    """Plants, and keeps what an audit has to find: `expected`, and nothing else."""

    store: StoredItems
    usage: Path
    expected: Counter[Finding] = field(default_factory=Counter)
    changed: list[str] = field(default_factory=list)
    """Objects of the usage place that were changed, as a digest names them."""
    added: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.items = dict(self.store.read())
        self.queues = {
            str(its["u"]): key.sort.decode()
            for key, its in self.items.items()
            if key.partition.startswith("Q|") and its.get("k") == "q"
        }

    def expect(self, kind: str, queue: str = "", message: str = "", count: int = 1) -> None:
        """An audit has to say so."""
        self.expected[kind, queue, message, count] += 1

    def segments(self, queue: str, wanted: Callable[[Attributes], bool]) -> list[Item]:
        """Segments of a standard queue in order of their keys."""
        return [
            Item(key, its)
            for key, its in sorted(self.items.items())
            if its.get("k") == "s" and self.queue_of(key, "B") == queue and wanted(its)
        ]

    def queue_of(self, key: Key, letter: str) -> str:
        """The queue of an item of this letter, or ""."""
        first, _, rest = key.partition.partition("|")
        return self.queues.get(rest.partition("|")[0], "") if first == letter else ""

    def done(self, key: Key, its: Attributes) -> frozenset[int]:
        """The indexes of a segment's block that are done."""
        state = self.items.get(Key("S" + key.partition[1:], _bytes(its["b"])), {})
        return frozenset(_ints(state.get("d", frozenset())))

    def remove_a_segment(self, queue: str) -> None:
        """Messages vanish that an export has seen."""
        key, its = self.first_of_nobody(queue)
        self.store.remove(key)
        del self.items[key]
        for index in range(_int(its["i"]), _int(its["i"]) + _int(its["n"])):
            self.expect("lost", queue, _message(its, index))

    def first_of_nobody(self, queue: str) -> Item:
        """A segment of which no message is done."""
        return next(
            item
            for item in self.segments(queue, lambda _its: True)
            if not self.done(*item)
            & set(range(_int(item.attributes["i"]), _int(item.attributes["i"]) + 10))
        )

    def add_a_segment(self, queue: str) -> None:
        """Messages appear that nobody sent, in the minute of others."""
        key, its = self.segments(queue, lambda _its: True)[-1]
        slice_us = int.from_bytes(key.sort[:8], "big") + 1
        sort = slice_us.to_bytes(8, "big") + FORGED_BLOCK + key.sort[-1:]
        forged = {**its, "b": FORGED_BLOCK, "t": _int(its["t"]) + 1}
        self.store.put(Key(key.partition, sort), forged)
        self.expect("not_sent", queue, count=_int(its["n"]))

    def shrink_a_segment(self, queue: str, *, has_ledger: bool) -> None:
        """A segment says of its count what it did not say before."""
        key, its = self.segments(queue, lambda its: _int(its["n"]) > 1)[-1]
        self.store.put(key, {**its, "n": _int(its["n"]) - 1})
        self.expect("changed", queue, _message(its, _int(its["i"])))
        self.expect("sent_and_not_seen" if has_ledger else "sends_without_message", queue)

    def forget_a_delete(self, queue: str) -> None:
        """A message that was deleted is there again."""
        for key, its in sorted(self.items.items()):
            if self.queue_of(key, "S") == queue and len(_ints(its.get("d", frozenset()))) > 1:
                index = max(_ints(its["d"]))
                self.store.put(key, {**its, "d": frozenset(_ints(its["d"])) - {index}})
                self.expect("deletion_forgotten", queue, f"block {key.sort.hex()} index {index}")
                return
        raise AssertionError(f"nothing of {queue} is deleted and still there")

    def add_to_the_ledger(self, queue: str) -> None:
        """A row of the ledger has messages that no export has."""
        (mark,) = (its for key, its in self.items.items() if key.partition == "M|ledger")
        uid = next(uid for uid, name in self.queues.items() if name == queue)
        last = _bytes(mark["p"])
        (definition,) = (
            key
            for key in self.items
            if key.partition.startswith("Q|") and key.sort == queue.encode()
        )
        what = f"{definition.partition.removeprefix('Q|')}|{queue}|{uid}".encode()
        sort = last[:8] + (int.from_bytes(last[8:16], "big") + 1).to_bytes(8, "big") + b"s" + what
        row = {"v": 1, "r": 1, "u": 1, "m": SENT_AND_LOST, "y": SENT_AND_LOST}
        self.store.put(Key("L|", sort), row)
        self.expect("sent_and_not_seen", queue, count=SENT_AND_LOST)

    def drop_an_access_record(self) -> None:
        """An object of access records is made anew without one of them."""
        path = max((self.usage / "access").rglob("*.parquet"), key=lambda its: its.stat().st_size)
        rows = _rows_of(path)
        del rows[len(rows) // 2]
        self._make_anew(path, [msgspec.convert(row, AccessRecord) for row in rows])
        self.expect("access_gap")

    def drop_a_usage_record(self) -> None:
        """An object of usage records is made anew without one that says nothing of messages."""
        for path in sorted((self.usage / "records").rglob("*.parquet")):
            rows = _rows_of(path)
            for row in rows:
                if row["operation"] == "CreateQueue":
                    rows.remove(row)
                    self._make_anew(path, [msgspec.convert(each, UsageRecord) for each in rows])
                    self.expect("usage_gap")
                    return
        raise AssertionError("nobody has made a queue")

    def _make_anew(
        self, path: Path, records: Sequence[AccessRecord] | Sequence[UsageRecord]
    ) -> None:
        path.unlink()
        for name, content in objects_of(records):
            (self.usage / name).write_bytes(content)
            self.added.append(name)
        self.changed.append(str(path.relative_to(self.usage)))

    def flip_a_byte(self) -> None:
        """One byte of an hourly object of usage records is another one."""
        for path in sorted((self.usage / "records").rglob("*.parquet")):
            rows = _rows_of(path)
            if not any(_sends_or_deletes(row) for row in rows):
                break
        else:
            raise AssertionError("each object has sends or deletes")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        self.changed.append(str(path.relative_to(self.usage)))
        self.expect("not_read")
        self.expect("usage_gap", count=len(rows))


def _rows_of(path: Path) -> list[dict[str, Any]]:
    # From its bytes: a path that names folders with `=` would become columns.
    rows: list[dict[str, Any]] = parquet.read_table(BytesIO(path.read_bytes())).to_pylist()
    return rows


def _sends_or_deletes(row: Mapping[str, Any]) -> bool:
    return str(row["operation"]).startswith(("SendMessage", "DeleteMessage"))


def _message(its: Attributes, index: int) -> str:
    return f"block {_bytes(its['b']).hex()} index {index}"


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def _ints(value: object) -> frozenset[int]:
    assert isinstance(value, frozenset | set)
    return frozenset(value)
