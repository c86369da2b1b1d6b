"""Differences planted in what a server of several cells stored: in some copies, or in all."""

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from control_plane.export.layout import ExportedCell, write_export
from control_plane.export.source import copied_cell, folders_of
from data_plane.ports import Attributes, Item, Key
from tests.rehearsal.forged import Finding
from tests.rehearsal.stored_items import Directory

_ID_BYTES = 16
_SLOT_ENTRY_BYTES = 48
"""In a slot's `u`: the key of deduplication, the id, and more."""

AHEAD_US = 120_000_000
"""Copies may differ by what is younger than a minute: a server that stopped is exported later."""


def export_all(data: Path, out: Path) -> None:
    """Export all cells as `tidegate export` will when the last writes are older than the lag."""
    at_us = time.time_ns() // 1000 + AHEAD_US
    out.mkdir(parents=True, exist_ok=True)
    for folder in folders_of(data):
        with copied_cell(folder, out, at_us) as copied:
            of = ExportedCell(copied.name, copied.as_of_us, tuple(sorted(copied.paths)))
            write_export(out, of, copied.items, at_us // 1000)


@dataclass
class CopiesForger:
    """Plants in the cells below `data`, and keeps what an audit has to find, and nothing else."""

    data: Path
    expected: Counter[Finding] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.cells = {folder.name: Directory(folder) for folder in folders_of(self.data)}
        self.items = {name: dict(cell.read()) for name, cell in self.cells.items()}
        its = next(iter(self.items.values()))
        self.uids = {
            key.sort.decode(): str(item["u"])
            for key, item in its.items()
            if key.partition[0] == "Q"
        }
        placed = {key.sort.decode(): item for key, item in its.items() if key.partition == "P|"}
        self.members = {
            key.sort.decode(): [
                member[0]
                for member in json.loads(str(placed[str(item["c"]).partition("/")[0]]["m"]))
            ]
            for key, item in its.items()
            if key.partition[0] == "Q"
        }

    def lose(self, queue: str, places: Sequence[int]) -> None:
        """A segment or slot vanishes from copies: of the first member, 0, to the last, -1."""
        key, its = self._undeleted(queue)
        members = self.members[queue]
        for place in places:
            self.cells[members[place]].remove(key)
        count = _int(its["n"])
        if len(places) < len(members):
            self._expect("copy_lacks", queue, _message(its, _int(its["i"])), count * len(places))
            return
        for index in range(_int(its["i"]), _int(its["i"]) + count):
            self._expect("lost", queue, _message(its, index))

    def change(self, queue: str, place: int) -> None:
        """One byte of the messages of a segment or slot is another one in one copy."""
        key, its = self._undeleted(queue)
        content = bytearray(_bytes(its["z"]))
        content[-1] ^= 1
        self._put(queue, place, key, {**its, "z": bytes(content)})
        message = _message(its, _int(its["i"]))
        self._expect("copies_differ", queue, message)
        # Which of the copies it is that was changed.
        self._expect("changed", queue, message)

    def forget_a_delete(self, queue: str, place: int) -> None:
        """A message that was deleted is there again in one copy."""
        key, its, done = self._state(queue)
        self._put(queue, place, key, {**its, "d": done - {max(done)}})
        message = f"block {key.sort.hex()} index {max(done)}"
        self._expect("deletion_forgotten", queue, message)

    def delete_more(self, queue: str, place: int) -> None:
        """One copy's state, of the same revision, says that another message is deleted, too."""
        key, its, done = self._state(queue)
        self._put(queue, place, key, {**its, "d": done | {max(done) + 1}})
        self._expect("copies_differ", queue)

    def _expect(self, kind: str, queue: str, message: str = "", count: int = 1) -> None:
        self.expected[kind, queue, message, count] += 1

    def _put(self, queue: str, place: int, key: Key, attributes: Attributes) -> None:
        self.cells[self.members[queue][place]].put(key, attributes)

    def _of(self, queue: str, letters: str, wanted: Callable[[Attributes], bool]) -> list[Item]:
        its = self.items[self.members[queue][0]]
        return [
            Item(key, item)
            for key, item in sorted(its.items())
            if key.partition[0] in letters
            and key.partition.split("|")[1] == self.uids[queue]
            and wanted(item)
        ]

    def _undeleted(self, queue: str) -> Item:
        """The last segment or slot of which no message is done."""
        found = self._of(queue, "BG", lambda its: its.get("k") == "s")
        return next(item for item in reversed(found) if not self._is_done(queue, item.attributes))

    def _is_done(self, queue: str, its: Attributes) -> bool:
        sort = _block(its)
        states = self._of(queue, "SF", lambda _its: True)
        done = next((_done(state) for at, state in states if at.sort == sort), frozenset())
        return any(_int(its["i"]) <= index < _int(its["i"]) + _int(its["n"]) for index in done)

    def _state(self, queue: str) -> tuple[Key, Attributes, frozenset[int]]:
        key, its = self._of(queue, "SF", lambda its: bool(its.get("d")))[0]
        return key, its, _done(its)


def _done(state: Attributes) -> frozenset[int]:
    done = state.get("d", frozenset())
    assert isinstance(done, frozenset | set)
    return frozenset(done)


def _message(its: Attributes, index: int) -> str:
    """The place of a message, and of one in a slot its id, which is in clear there."""
    place = f"block {_block(its).hex()} index {index}"
    if isinstance(its["b"], bytes):
        return place
    at = (index - _int(its["i"])) * _SLOT_ENTRY_BYTES + _ID_BYTES
    return f"{place} id {_bytes(its['u'])[at : at + _ID_BYTES].hex()}"


def _block(its: Attributes) -> bytes:
    """The name of the block, which is the sort key of its state."""
    block = its["b"]
    return block if isinstance(block, bytes) else _int(block).to_bytes(8, "big")


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value
