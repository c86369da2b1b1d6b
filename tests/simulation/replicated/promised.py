"""What was answered on the strength of an item has to be in every full member from then on.

Seen where chains and fan-outs answer: a write that they call stored, an item that they show. So a
copy that lacks it is found when it begins to serve, and not only when it alone is left.

Whoever shows an item gives it to those that join by its map. An old map shows what is old: of those
that join by it, and may have left, no more is asked than what was shown.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from data_plane.ports import (
    Append,
    Appended,
    Attributes,
    Item,
    Key,
    Tallies,
    Written,
    no_tallies,
)
from data_plane.replication import chain, copying, giving
from data_plane.replication.chain import REVISION, Chain
from data_plane.replication.fanout import Fanout
from data_plane.replication.member_cell import MemberCell
from data_plane.replication.mending import Lacking
from data_plane.replication.placement import Placement
from data_plane.stored import keys
from data_plane.stored.segment import number
from tests.simulation.faulty_cell import FaultyCell

if TYPE_CHECKING:
    from tests.simulation.replicated.records import Records

ACKNOWLEDGED: Final = "what is acknowledged all members have"
SHOWN: Final = "what is shown all members have"

COUNTERS: Final = keys.counters("")
LATE_US: Final = 10_000_000

_HANDED_DOWN: ContextVar[Attributes | None] = ContextVar("handed_down", default=None)
_BEGAN_US: ContextVar[int] = ContextVar("began_us", default=0)
"""When the read under way began."""


class Promised:
    """The highest revisions that answers rested on, by key; 0 for items that have none.

    `stalls`: for how long a process stands still the next time it is half way down a chain.
    `look_again` lets a front end read the map, or not. For how long does a process stand still,
    half way with a write by this map (`misses`), or between the read of a copy and its write
    (`delays`)?
    """

    def __init__(self) -> None:
        self.records: Records
        self.stalls: dict[str, int] = {}
        self.look_again: Callable[[Fanout], None]
        self.misses: Callable[[Placement], int] = lambda _at: 0
        self.delays: Callable[[Key], int] = lambda _key: 0
        self._revisions: dict[Key, int] = {}
        self._expire_s: dict[Key, int] = {}
        self._removed_us: dict[Key, int] = {}
        self._images: dict[Key, Attributes | None] = {}
        self._left: dict[Key, Attributes | None] = {}

    def answered(
        self,
        why: str,
        key: Key,
        image: Attributes | None,
        began_us: int,
        joining: Sequence[MemberCell] = (),
    ) -> None:
        """All full members have to have the latest that was told, and these at least this.

        Not what a cell has removed since the call began, as nobody needs it any more; nor what a
        cell still has of it that was told to remove it, too, and did not; nor counters, which each
        has of its own.
        """
        if not self.records.group_of(key.partition) or self._was_removed(key, began_us):
            return
        if key.partition.startswith(COUNTERS):
            return
        if image is not None and image == self._left.get(key):
            return
        revision = 0 if image is None or REVISION not in image else number(image, REVISION)
        latest = self._revisions[key] = max(revision, self._revisions.get(key, 0))
        if revision == latest:
            self._images[key] = image
        expires_s = None if image is None else image.get("x")
        if isinstance(expires_s, int) and revision == latest:
            self._expire_s[key] = expires_s
        at = self.records.present[self.records.group_of(key.partition)]
        wanted = [(member, latest) for member in at.members if member.full]
        wanted += [(one.member, revision) for one in joining]
        for member, least in wanted:
            self._check(why, key, (member.cell, member.incarnation), least)
            if why == ACKNOWLEDGED and revision:
                self._check_same(key, (member.cell, member.incarnation), revision, image)

    def begins_to_serve(self, group: str, at: tuple[str, int]) -> None:
        """A member that joined has to have all that answers rested on."""
        for key, latest in self._revisions.items():
            if self.records.group_of(key.partition) == group:
                self._check(ACKNOWLEDGED, key, at, latest)

    def removed(self, key: Key) -> None:
        """Nobody needs the item any more; what comes after it begins anew."""
        self._revisions.pop(key, None)
        self._left[key] = self._images.pop(key, None) or self._left.get(key)
        self._removed_us[key] = self.records.now_us

    def _was_removed(self, key: Key, since_us: int) -> bool:
        return self._removed_us.get(key, since_us - 1) >= since_us

    async def stand_still(self, at: Placement, before: MemberCell) -> None:
        """The front end freezes. When it goes on, it learns much before this write does."""
        way = before.plain
        assert isinstance(way, FaultyCell)
        held_us = self.stalls.pop(way._process.name, 0) or self.misses(at)
        if held_us:
            way._process.freeze(held_us)
            await way._scheduler.pause(held_us + LATE_US)

    async def be_late(self, target: MemberCell, key: Key) -> None:
        """Whoever copies freezes, with what it has read."""
        held_us, way = self.delays(key), target.plain
        if held_us:
            assert isinstance(way, FaultyCell)
            way._process.freeze(held_us)
            await way._scheduler.pause(held_us)

    def _check(self, why: str, key: Key, at: tuple[str, int], wanted: int) -> None:
        if self._may_be_gone(key):
            return
        revision = self.records.revision(key, at)
        if revision is None or revision < wanted:
            self.records.broken.append((why, f"{key} is {revision} at {at}, and {wanted} was told"))

    def _check_same(
        self, key: Key, at: tuple[str, int], revision: int, image: Attributes | None
    ) -> None:
        """Where a member took another item of this revision the acknowledged one is nowhere."""
        taken = self.records.taken(key, at, revision)
        if taken and image not in taken:
            text = f"{key} is another one at {at} than was told, of revision {revision}"
            self.records.broken.append((ACKNOWLEDGED, text))

    def _may_be_gone(self, key: Key) -> bool:
        expires_s = self._expire_s.get(key)
        return expires_s is not None and expires_s <= self.records.latest_s


@contextmanager
def watched() -> Iterator[Promised]:
    """Chains and fan-outs tell what they answer; those with planted bugs, too."""
    promised = Promised()
    patches: list[tuple[Any, str, Any]] = [
        (chain, "_hand_down", _noting_what_is_handed_down(chain._hand_down, promised)),
        (Chain, "_share", _noting_what_is_shown(Chain._share, promised)),
        (copying, "copy_item", _copying_late(copying.copy_item, promised)),
        (giving, "copy_item", _copying_late(copying.copy_item, promised)),
        (Fanout, "append", _noting_appends(Fanout.append, promised)),
        (Fanout, "_tell", _looking_first(Fanout._tell, promised)),
        *(
            (Chain, name, _noting_writes(getattr(Chain, name), promised))
            for name in ("put", "update", "delete")
        ),
        *(
            (Chain, name, _timing_reads(getattr(Chain, name), promised))
            for name in ("get", "get_many", "query")
        ),
    ]
    before = [(where, name, getattr(where, name)) for where, name, _ in patches]
    for where, name, new in patches:
        setattr(where, name, new)
    try:
        yield promised
    finally:
        for where, name, value in before:
            setattr(where, name, value)


def _noting_what_is_handed_down(
    hand_down: Callable[..., Awaitable[int]], promised: Promised
) -> Any:
    async def noting(
        at: Placement,
        others: Sequence[MemberCell],
        key: Key,
        image: Attributes,
        tallies: Tallies = no_tallies,
    ) -> int:
        for other in others[:1]:
            await promised.stand_still(at, other)
        time_ms = await hand_down(at, others, key, image, tallies)
        _HANDED_DOWN.set(image)
        return time_ms

    return noting


def _noting_writes(write: Callable[..., Awaitable[Written]], promised: Promised) -> Any:
    async def noting(self: Chain, key: Key, *call: Any) -> Written:
        _HANDED_DOWN.set(None)
        began_us = promised.records.now_us
        written = await write(self, key, *call)
        image = _HANDED_DOWN.get()
        if written.applied and image is not None:
            promised.answered(ACKNOWLEDGED, key, image, began_us)
        return written

    return noting


def _timing_reads(read: Callable[..., Awaitable[Any]], promised: Promised) -> Any:
    async def timing(self: Chain, *call: Any, **options: Any) -> Any:
        _BEGAN_US.set(promised.records.now_us)
        return await read(self, *call, **options)

    return timing


def _noting_what_is_shown(share: Callable[..., Awaitable[None]], promised: Promised) -> Any:
    async def noting(
        self: Chain,
        at: Placement,
        joining: Sequence[MemberCell],
        found: Mapping[Key, Attributes],
    ) -> None:
        await share(self, at, joining, found)
        for key, image in found.items():
            promised.answered(SHOWN, key, image, _BEGAN_US.get(), joining)

    return noting


def _noting_appends(append: Callable[..., Awaitable[Appended]], promised: Promised) -> Any:
    async def noting(self: Fanout, record: Append) -> Appended:
        began_us = promised.records.now_us
        appended = await append(self, record)
        promised.answered(ACKNOWLEDGED, appended.key, None, began_us)
        return appended

    return noting


def _copying_late(copy: Callable[..., Awaitable[None]], promised: Promised) -> Any:
    async def late(source: MemberCell, target: MemberCell, item: Item, lacking: Lacking) -> None:
        await promised.be_late(target, item.key)
        await copy(source, target, item, lacking)

    return late


def _looking_first(tell: Callable[..., None], promised: Promised) -> Any:
    def looking(self: Fanout, *call: Any) -> None:
        promised.look_again(self)
        tell(self, *call)

    return looking
