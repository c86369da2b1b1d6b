"""Which tables are the cells of a service: an item in each of them says so.

That of the first table, which has the registry, stands for the manifest. Several servers may start
at once, so what is stored only grows (docs/storage.md, "The registry's own placement").
"""

import json
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from control_plane.core.identity import Found, Knowledge, Said, Verdict, judge
from control_plane.core.item_field import (
    check_format,
    integer,
    octets,
    text,
)
from control_plane.places.placing import GroupPlacing
from control_plane.places.stored import Places
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    Cell,
    CellUnavailableError,
    Clock,
    Condition,
    Entropy,
    Equals,
    Key,
    Waits,
)

IDENTITY: Final = Key("M|cell", b"\0")
FORMAT: Final = 1

_SERVICE_BYTES: Final = 8
_NONCE_BYTES: Final = 8
_ATTEMPTS_MAX: Final = 8


class TableIdentity(NamedTuple):
    """What a table says: which cell of which service, and incarnations that cells have at least."""

    service: str
    name: str
    incarnation: int
    known: Mapping[str, int]
    nonce: bytes = b""

    @property
    def latest(self) -> int:
        """The highest incarnation that it knows of, microseconds; 0: none."""
        return max(self.known.values(), default=0)

    def said(self, names: Collection[str]) -> Said:
        """As it is judged by, where the service has cells of these names."""
        return Said(self.name, self.incarnation, self.knowledge(names))

    def knowledge(self, names: Collection[str]) -> Knowledge:
        """What the first table knows; of tables the names say where they are."""
        return Knowledge(self.service, {name: name for name in names}, self.known, (0, 0))


class TablesRefusedError(Exception):
    """These are not the tables of one service at one time; the message is one line."""


class Tables:
    """The tables of one start. All methods raise CellUnavailableError, UnknownItemFormatError."""

    def __init__(
        self, first: str, registry: Cell, clock: Clock, entropy: Entropy, waits: Waits
    ) -> None:
        self._first = first
        self._registry = registry
        self._clock = clock
        self._entropy = entropy
        self._waits = waits
        self.known = TableIdentity("", first, 0, {})

    async def judge(self, further: Mapping[str, Cell]) -> Verdict:
        """What the further tables are; one that does not answer fails. Raises TablesRefusedError.

        One that nobody has seen yet is current, whatever it has, and so are all where there is no
        item yet; but none of another service.
        """
        made = self._entropy.random_bytes(_SERVICE_BYTES).hex()
        self.known = await self._grow(self._registry, TableIdentity(made, self._first, 0, {}))
        # After the registry: what they have never falls behind what that knew.
        read = await self._waits.all_of([read_identity(cell) for cell in further.values()])
        found: list[Found] = []
        for name, own in zip(further, read, strict=True):
            if isinstance(own, CellUnavailableError):
                found.append(Found(name, reason=str(own)))
                continue
            if isinstance(own, Exception):
                raise own
            if own is None and not self.known.known.get(name):
                said = self.known._replace(name=name, incarnation=0, known={}).said(further)
                found.append(Found(name, said))
                continue
            if own is not None:
                self._check(name, own)
            found.append(Found(name, own.said(further) if own is not None else None))
        return judge(self.known.knowledge(further), found)

    def _check(self, name: str, own: TableIdentity) -> None:
        if own.service != self.known.service:
            raise TablesRefusedError(
                f"{name} is foreign: {own.name} of another service; name another table"
            )
        if any(one > self.known.known.get(cell, 0) for cell, one in own.known.items()):
            raise TablesRefusedError(
                f"the registry in {self._first} is older than {name} knows it: put back"
                f" {self._first} as it was last, or all tables as they were at one time"
            )

    async def advance(self, cells: Mapping[str, Cell]) -> None:
        """Let these tables have a new incarnation, which all know of; who fails keeps its own."""
        incarnation = max(self.known.latest + 1, self._clock.now_us())
        have: dict[str, int] = {}
        for name, cell in cells.items():
            own = TableIdentity(self.known.service, name, incarnation, {})
            try:
                have[name] = (await self._grow(cell, own)).incarnation
            except CellUnavailableError:
                continue
        known = self.known._replace(known=have)
        self.known = await self._grow(self._registry, known)
        for name in have:
            try:
                await self._grow(cells[name], self.known._replace(name=name, incarnation=0))
            except CellUnavailableError:
                continue  # It knows less, which is true all the same.

    async def _grow(self, cell: Cell, wanted: TableIdentity) -> TableIdentity:
        """Store what is more than there is; what is there then."""
        item = await cell.get(IDENTITY)
        nonce = self._entropy.random_bytes(_NONCE_BYTES)
        for _ in range(_ATTEMPTS_MAX):
            held = _decode(item) if item is not None else None
            if held is not None and held.nonce == nonce:
                return held
            grown = _united(held, wanted)._replace(nonce=nonce)
            if held is not None and grown == held._replace(nonce=nonce):
                return held
            condition: Condition = ITEM_ABSENT
            if held is not None:
                condition = ((Equals("w", held.nonce),),)
            written = await cell.put(IDENTITY, _encode(grown), condition)
            if written.applied:
                return grown
            item = written.before
        raise CellUnavailableError(f"others change {wanted.name} all the time")


async def read_identity(cell: Cell) -> TableIdentity | None:
    """What a table says; None: nothing. Raises CellUnavailableError, UnknownItemFormatError."""
    item = await cell.get(IDENTITY)
    return None if item is None else _decode(item)


async def why_no_registry(cell: Cell, table: str) -> str:
    """Why this table can have no registry, in words; "": it can. A further cell's has none.

    Only these have an incarnation. Raises CellUnavailableError, UnknownItemFormatError.
    """
    own = await read_identity(cell)
    if own is None or not own.incarnation:
        return ""
    return (
        f"{table} is foreign: {own.name} of a service that has its registry in another table; name"
        " that, or a new one"
    )


async def check_told(registry: Cell, told: Collection[str], clock: Clock, entropy: Entropy) -> None:
    """Raise TablesRefusedError where queues have copies in cells that a front end is not told of.

    One that has none may be left out, also before it is removed: it was drained, given up, or never
    used. Raises CellUnavailableError, UnknownItemFormatError, too.
    """
    known = await Places(registry, clock, entropy).read_all()
    placing = GroupPlacing(registry, lambda: len(known.cells))
    used: set[str] = set()
    for group, held in known.placements.items():
        untold = {member.cell for member in held.placement.members}.difference(told, used)
        if untold and await placing.queues_of(group, held.alone):
            used |= untold
    if used:
        tables = [
            f"{name} (the table {known.cells[name].address.get('table')} in"
            f" {known.cells[name].address.get('region')})"
            for name in sorted(used)
        ]
        raise TablesRefusedError(f"queues have copies in {', '.join(tables)}, too: name all cells")


def _united(held: TableIdentity | None, wanted: TableIdentity) -> TableIdentity:
    """Both, as far as they can be: of the first the service, of each incarnation the greater."""
    if held is None:
        return wanted
    names = held.known.keys() | wanted.known.keys()
    known = {name: max(held.known.get(name, 0), wanted.known.get(name, 0)) for name in names}
    incarnation = max(held.incarnation, wanted.incarnation)
    return held._replace(incarnation=incarnation, known=known)


def _encode(own: TableIdentity) -> Attributes:
    known = json.dumps(dict(own.known), separators=(",", ":"), sort_keys=True)
    return {
        "v": FORMAT,
        "w": own.nonce,
        "u": own.service,
        "n": own.name,
        "i": own.incarnation,
        "k": known,
    }


def _decode(item: Attributes) -> TableIdentity:
    check_format("a table's identity", item, FORMAT)
    known = json.loads(text(item, "k"))
    return TableIdentity(
        text(item, "u"), text(item, "n"), integer(item, "i"), known, octets(item, "w")
    )
