"""Data files with damage at a random place, and what may become of them.

What is on which page is read from the whole file; what is stored, through LMDB. So what is to be
rescued, and what must not come back, is known without the program that rescues it.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from control_plane.rescue import RescueError, rescue
from data_plane.embedded.bodies import read_head
from data_plane.embedded.pages import SUBTREE, Meta, Pages, Tree, Walk
from data_plane.embedded.store import DATA_FILE, CellOpenError, Store, StoreSizes
from data_plane.ports import DamagedItemError

KINDS: Final = ("zeroed page", "flipped bit", "garbage", "cut end", "root page", "free pages")
_NOW_US: Final = 1 << 50
_GARBAGE_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Whole:
    """A store before it is damaged: items, the pages that each lies on, and those in use."""

    folder: Path
    items: dict[bytes, bytes]
    pages_of: dict[bytes, set[int]]
    used: list[int]
    meta: Meta
    page_bytes: int

    @classmethod
    def of(cls, folder: Path) -> "Whole":
        """The store in a directory that nobody has open."""
        fd = os.open(folder / DATA_FILE, os.O_RDONLY)
        try:
            pages = Pages(fd)
            walk = Walk(pages, pages.metas[0].last_page, stops=True)
            pages_of = _pages_of(walk, pages.metas[0])
            used = [number for number, is_used in enumerate(walk.seen) if is_used]
        finally:
            os.close(fd)
        items = dict(_items(folder))
        if set(items) != set(pages_of):
            raise AssertionError("the file as it is read here is not the file that LMDB reads")
        return cls(folder, items, pages_of, used, pages.metas[0], pages.page_bytes)


def _items(folder: Path) -> Iterator[tuple[bytes, bytes]]:
    store = Store(folder, StoreSizes())
    try:
        for key, stored in store.scan(b""):
            yield key, bytes(store.bodies.join(store.snapshot, key, bytes(stored)))
    finally:
        store.close()


def _pages_of(walk: Walk, meta: Meta) -> dict[bytes, set[int]]:
    pages_of: dict[bytes, set[int]] = {}
    heads, pieces = {}, dict[int, tuple[int, int]]()
    for leaf in walk.leaves(meta.main):
        for node in leaf.nodes:
            if node.flags & SUBTREE:
                for page, found, *_ in walk.leaves(Tree.read(node.value)):
                    pieces |= {int.from_bytes(n.key, "big"): (page, len(n.value)) for n in found}
            elif node.key.find(b"\0") > 0:
                pages_of[node.key] = {leaf.number}
                heads[node.key] = read_head(node.key, node.value)
    for key, head in heads.items():
        number, left = (head.first, head.size_bytes) if head else (0, 0)
        while left > 0:
            pages_of[key].add(pieces[number][0])
            left -= pieces[number][1]
            number += 1
    return pages_of


@dataclass(frozen=True, slots=True)
class Damage:
    """One kind of damage at one place; `pages` are hit."""

    kind: str
    offset: int
    pages: frozenset[int]

    def __str__(self) -> str:
        return f"{self.kind} at byte {self.offset}"


def do_damage(whole: Whole, folder: Path, random: Random, kind: str = "") -> Damage:
    """Damage the copy of a store in this directory."""
    path = folder / DATA_FILE
    kind = kind or random.choice(KINDS)
    page_bytes, end = whole.page_bytes, whole.meta.last_page + 1
    if kind == "cut end":
        offset = random.randrange(1, end * page_bytes)
        os.truncate(path, offset)
        return Damage(kind, offset, frozenset(range(offset // page_bytes, end)))
    page = {"root page": random.randrange(2), "free pages": whole.meta.free.root}.get(
        kind, random.choice(whole.used)
    )
    offset, octets = page * page_bytes, bytes(page_bytes)
    with path.open("r+b") as file:
        if kind == "flipped bit":
            # Headers and offsets are where a flip does most.
            offset += random.choice((random.randrange(page_bytes), random.randrange(64)))
            file.seek(offset)
            octets = bytes((file.read(1)[0] ^ 1 << random.randrange(8),))
        elif kind == "garbage":
            offset += random.randrange(page_bytes - _GARBAGE_BYTES)
            octets = random.randbytes(_GARBAGE_BYTES)
        file.seek(offset)
        file.write(octets)
    return Damage(kind, offset, frozenset({page}))


@dataclass(slots=True)
class Outcome:
    """What became of a damaged store. `wrong` are broken promises, a line each."""

    damage: Damage
    served: bool = True
    wrong: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    lost: int = 0


def try_damage(whole: Whole, work: Path, random: Random, kind: str = "") -> Outcome:
    """Damage a copy in `work`, open it, rescue it to `work / "rescued"`, and compare."""
    damaged, rescued = work / "damaged", work / "rescued"
    for folder in (damaged, rescued):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole.folder, damaged)
    outcome = Outcome(do_damage(whole, damaged, random, kind))
    try:
        store = Store(damaged, StoreSizes())
    except CellOpenError as error:
        outcome.served = False
        if "\n" in str(error) or "tidegate rescue" not in str(error):
            outcome.wrong.append(f"the refusal is {error}")
    else:
        try:
            outcome.wrong += _misread(whole, store)
        finally:
            store.close()
    return _rescue(whole, damaged, rescued, outcome)


def _misread(whole: Whole, store: Store) -> Iterator[str]:
    """Items that an opened store answers wrongly: with other bytes, or as absent."""
    for key, value in whole.items.items():
        stored = store.snapshot.get(key)
        try:
            if stored is None:
                if not store.damaged.may_have(key):
                    yield f"{key!r} is absent without a word"
            elif bytes(store.bodies.join(store.snapshot, key, stored)) != value:
                yield f"{key!r} is another"
        except DamagedItemError:
            continue


def _rescue(whole: Whole, damaged: Path, rescued: Path, outcome: Outcome) -> Outcome:
    hit = outcome.damage.pages
    try:
        told = rescue(damaged, rescued, _NOW_US, outcome.lines.append)
    except RescueError as error:
        if any(not pages & hit for pages in whole.pages_of.values()):
            outcome.wrong.append(f"rescue says {error}")
        outcome.lost = len(whole.items)
        return outcome
    found = dict(_items(rescued))
    missing = [
        key
        for key, value in whole.items.items()
        if key not in found and not whole.pages_of[key] & hit and value
    ]
    other = [key for key in found if key in whole.items and found[key] != whole.items[key]]
    back = set(found) - set(whole.items)
    said_so = any("may be" in line for line in outcome.lines)
    last_is_lost = any("as it was before" in line for line in outcome.lines)
    outcome.lost = len(whole.items) - len(found)
    if missing and not last_is_lost:
        outcome.wrong.append(f"{len(missing)} items on undamaged pages are missing")
    if other and not last_is_lost:
        outcome.wrong.append(f"{len(other)} items are others")
    if back and not said_so:
        outcome.wrong.append(f"{len(back)} deleted items are back without a word")
    if outcome.lost > 0 and told.is_whole:
        outcome.wrong.append("it says that everything is whole")
    return outcome


def summary(outcomes: list[Outcome]) -> str:
    """How many there were of each kind, and how many of those were served nevertheless."""
    kinds = Counter(outcome.damage.kind for outcome in outcomes)
    served = Counter(outcome.damage.kind for outcome in outcomes if outcome.served)
    return ", ".join(f"{kind} {count} ({served[kind]} served)" for kind, count in kinds.items())
