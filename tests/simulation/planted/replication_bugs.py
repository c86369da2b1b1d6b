"""Planted bugs of replicated cells; see bugs.py. They show in universes of such cells."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from msgspec import structs

from control_plane.cluster import acting, copies, internal
from control_plane.places import changes
from control_plane.places.takeover import WaitingCell
from data_plane.ports import (
    ALWAYS,
    Absent,
    AnyOf,
    Append,
    Appended,
    Attributes,
    CellUnavailableError,
    Condition,
    Item,
    Key,
    LessThan,
    Tallies,
    Update,
    Written,
    no_tallies,
)
from data_plane.replication import chain, copying, fanout, replaying, unneeded
from data_plane.replication.chain import EPOCH, Chain
from data_plane.replication.fanout import Fanout, Play
from data_plane.replication.giving import IsNeeded
from data_plane.replication.member_cell import MemberCell, members_of
from data_plane.replication.mending import Lacking
from data_plane.replication.placement import Member, Placement
from data_plane.replication.unneeded import Unneeded
from tests.simulation.planted import PlantedBug
from tests.simulation.replicated import managing, plan
from tests.simulation.replicated.directed import ALONE, LATE_COPIES, MISSED, TWO_HEADS
from tests.simulation.replicated.plan import OPTIONS
from tests.simulation.replicated.promised import ACKNOWLEDGED, SHOWN
from tests.simulation.replicated.records import STAYS_AWAY
from tests.simulation.replicated.universe import run

_update = Fanout.update
_hand_down = chain._hand_down
_without = changes.without


def _bug(  # noqa: PLR0913 - what a bug is, and which universes show it
    name: str,
    invariants: frozenset[str],
    patches: tuple[tuple[Any, str, Any], ...],
    first: int,
    *,
    fifo: bool = True,
    directed: str = "",
) -> PlantedBug:
    """In universes of `fifo` queues or others, that are `directed` towards it."""
    how = partial(run, fifo=fifo, directed=directed)
    return PlantedBug(name, invariants, patches, first, run=how)


# Chains


def _read_the_head(
    self: Chain, *_partitions: str
) -> tuple[Placement, MemberCell, list[MemberCell]]:
    at = self._placement()
    return at, members_of(at, self._cells)[0], []


async def _leave_it_half_way(
    _at: Placement, _others: Sequence[MemberCell], _key: Key, written: Written
) -> Written:
    return Written(applied=False, before=chain._bare(written.before), time_ms=written.time_ms)


def _any_epoch(_epoch: int) -> AnyOf:
    return (Absent(EPOCH), LessThan(EPOCH, 1 << 60))


def _never_stale(_at: Placement, _occupant: Attributes | None) -> None:
    return None


async def _without_the_last(
    at: Placement,
    others: Sequence[MemberCell],
    key: Key,
    image: Attributes,
    tallies: Tallies = no_tallies,
) -> int:
    """The last member has it soon, or never."""
    if not others:
        return 0
    latest_ms = await _hand_down(at, others[:-1], key, image, tallies)
    try:
        return max(latest_ms, await _hand_down(at, others[-1:], key, image, tallies))
    except CellUnavailableError:
        return latest_ms


async def _let_have_nothing(_waits: object, _joining: object, _found: object) -> None:
    return None


def _nobody_joined(_used: Placement, _present: Placement) -> None:
    return None


def _in_the_group_of_before(self: WaitingCell, _uid: str) -> WaitingCell:
    """A queue that has left its group is asked for there, as if nothing had happened."""
    return self


def _whoever_has_left(_group: str, _partitions: object, _alone: object) -> None:
    return None


# Placements and copies


async def _overwrite(
    _source: MemberCell, target: MemberCell, item: Item, _lacking: Lacking
) -> None:
    await target.put(item.key, item.attributes, ALWAYS)


def _unchecked(_before: Placement, _after: Placement) -> None:
    return None


def _same_incarnation(placement: Placement, cell: str, now_us: int) -> Placement:
    if any(member.cell == cell for member in placement.members):
        return placement
    joining = Member(cell, incarnation=0, full=False)
    return changes._next(placement, (*placement.members, joining), now_us)


def _behind_the_others(
    placement: Placement, cell: str, factor: int, now_us: int, **options: Any
) -> Placement:
    """The first member is not dropped, and becomes the last one."""
    first, *others = placement.members
    if first.cell != cell or not all(member.full for member in others) or not others:
        return _without(placement, cell, factor, now_us, **options)
    return changes._next(placement, (*others, first), now_us)


_NO_GRACE: Final = structs.replace(OPTIONS, grace_us=0)


async def _compare_nothing(*_call: object) -> tuple[None, int]:
    return None, 0


def _never(*_call: object) -> tuple[()]:
    return ()


def _expire_at_once(self: Unneeded, keys: Sequence[Key]) -> None:
    for member in members_of(self._placement(), self._cells):
        member.expire(keys)


# Independent cells


async def _acknowledge_any(self: Fanout, record: Append) -> Appended:
    """One member that has it is enough."""
    at = self._placement()
    key = Key(
        record.partition,
        (record.proposed_us + record.delay_us).to_bytes(8, "big") + record.suffix,
    )
    item = {**record.attributes, "t": record.proposed_us}
    outcomes = await self._waits.all_of(
        [member.put(key, item) for member in members_of(at, self._cells)]
    )
    done = [outcome for outcome in outcomes if not isinstance(outcome, Exception)]
    if not done:
        raise CellUnavailableError("no member has it")
    return Appended(key, record.proposed_us, max(written.time_ms for written in done))


async def _forget_deletes(
    self: Fanout,
    key: Key,
    change: Update,
    condition: Condition = ALWAYS,
    tallies: Tallies = no_tallies,
) -> Written:
    if "d" in change.add:
        return await self._decider()[1].update(key, change, condition, tallies)
    return await _update(self, key, change, condition, tallies)


async def _forget_leases(
    self: Fanout,
    key: Key,
    change: Update,
    condition: Condition = ALWAYS,
    tallies: Tallies = no_tallies,
) -> Written:
    if any(name[0] == "m" for name in change.assign):
        return await self._decider()[1].update(key, change, condition, tallies)
    return await _update(self, key, change, condition, tallies)


async def _play_whatever_is_known(
    _first: MemberCell,
    member: MemberCell,
    key: Key,
    change: Update,
    condition: Condition,
    tallies: Tallies,
    _lacking: Lacking,
) -> Written:
    everywhere = replaying._holding_everywhere(condition)
    return await member.update(key, change, everywhere, tallies)


def _tell_by_the_new_map(self: Fanout, at: Placement, key: Key, play: Play) -> None:
    change = fanout._Change(key, play, self.now_us(), at.members[0])
    for member in self._placement().members[1:]:
        self._remember(member._replace(full=True), change)


async def _complete_nothing(_self: Fanout, _key: Key, _state: Key, _needed: IsNeeded) -> bool:
    return True


async def _share_nothing(self: Fanout, key: Key) -> Attributes | None:
    return await self.get(key)


_STAYING: Final = (
    (WaitingCell, "of_queue", _in_the_group_of_before),
    (chain, "check_in_group", _whoever_has_left),
    (fanout, "check_in_group", _whoever_has_left),
)
_LONG_US: Final = 3600 * 1_000_000
_COPY_LATE: Final = (*plan._PLACES, (copies, {"COPY_US_MAX": _LONG_US}))
_COLLECT_EARLY: Final = (*_COPY_LATE, (unneeded, {"FULL_US_MIN": 0}))

DELIVERED = frozenset({"acknowledged is delivered", ACKNOWLEDGED})
DELETED = frozenset({"deletes last", "deletes are kept"})
ORDER = frozenset({"revisions never rise along the chain"})
ONCE = frozenset({"slots are written once", "duplicates are stored once"})
FALL = frozenset({"revisions never fall"})
GOOD = frozenset({"good handles are accepted"})
FIFO_ANY = (
    FALL
    | {SHOWN}
    | (
        DELIVERED
        | DELETED
        | ORDER
        | ONCE
        | frozenset(
            {
                "a group is held",
                "members agree",
                "visibility is respected",
                "receive counts grow",
                "groups stay in order",
                "messages are intact",
            }
        )
    )
)

CHAIN_BUGS: Final = (
    _bug("the head is read", FIFO_ANY, ((Chain, "_readers", _read_the_head),), 0),
    _bug(
        "occupants stay half way",
        FIFO_ANY | {"nothing breaks"},
        ((chain, "_refused", _leave_it_half_way),),
        60,
    ),
    _bug("copies go over what is newer", FIFO_ANY, ((copying, "copy_item", _overwrite),), 208),
    _bug(
        "any epoch will do",
        FIFO_ANY,
        ((chain, "_not_later", _any_epoch), (chain, "_check_epoch", _never_stale)),
        5,
        directed=TWO_HEADS,
    ),
    _bug(
        "acknowledged before the last member has it",
        FIFO_ANY,
        ((chain, "_hand_down", _without_the_last),),
        8,
    ),
    _bug("no grace for who joins", FIFO_ANY, ((managing, "OPTIONS", _NO_GRACE),), 56),
    _bug(
        "who comes back has its old incarnation",
        FIFO_ANY,
        ((changes, "with_joining", _same_incarnation), (changes, "check_change", _unchecked)),
        10,
    ),
    _bug(
        "the head goes behind the others",
        FIFO_ANY,
        ((changes, "without", _behind_the_others), (changes, "check_change", _unchecked)),
        4,
    ),
    _bug(
        "who joins does not get what is read",
        FIFO_ANY,
        ((chain, "_let_have", _let_have_nothing),),
        4,
    ),
    _bug(
        "a write counts that a member missed",
        FIFO_ANY,
        ((chain, "check_joined", _nobody_joined),),
        2,
        directed=MISSED,
    ),
    _bug(
        "handles are refused by an old map", GOOD, ((WaitingCell, "get_now", WaitingCell.get),), 67
    ),
    _bug(
        "a queue alone is looked for where it was",
        FIFO_ANY,
        _STAYING,
        0,
        directed=ALONE,
    ),
)

FANOUT_BUGS: Final = (
    _bug(
        "acknowledged before the last member has it",
        DELIVERED,
        ((Fanout, "append", _acknowledge_any),),
        3,
        fifo=False,
    ),
    _bug(
        "nobody is told of deletes", DELETED, ((Fanout, "update", _forget_deletes),), 0, fifo=False
    ),
    _bug(
        "nobody is told of leases",
        frozenset({"leases are told"}),
        ((Fanout, "update", _forget_leases),),
        49,
        fifo=False,
    ),
    _bug(
        "what comes late goes over what came after",
        frozenset({"receive counts grow"}),
        ((fanout, "replay", _play_whatever_is_known),),
        985,
        fifo=False,
    ),
    _bug(
        "who serves next is not told",
        DELETED,
        ((Fanout, "_tell", _tell_by_the_new_map),),
        787,
        fifo=False,
    ),
    _bug(
        "nobody tells for who is gone",
        frozenset({"nothing breaks"}),
        ((internal, "reconcile", _never),),
        3,
        fifo=False,
    ),
    _bug(
        "who is gone is forgotten, and nothing compared",
        DELETED,
        ((acting, "tell_on", _compare_nothing),),
        5,
        fifo=False,
    ),
    _bug(
        "collected while a member joins",
        frozenset({STAYS_AWAY, "deletes last"}),
        ((Unneeded, "expire", _expire_at_once), (plan, "_PLACES", _COPY_LATE)),
        20,
        fifo=False,
        directed=LATE_COPIES,
    ),
    _bug(
        "collected as soon as all are full",
        frozenset({STAYS_AWAY, "deletes last"}),
        ((plan, "_PLACES", _COLLECT_EARLY),),
        10,
        fifo=False,
        directed=LATE_COPIES,
    ),
    _bug(
        "an earlier attempt counts where one member has it",
        DELIVERED,
        ((Fanout, "complete", _complete_nothing),),
        149,
        fifo=False,
    ),
    _bug(
        "low-water mark past leases that nobody was told of",
        DELIVERED,
        ((Fanout, "share", _share_nothing),),
        279,
        fifo=False,
    ),
    _bug(
        "copies go over what is newer",
        DELETED,
        ((copying, "copy_item", _overwrite), (plan, "_PLACES", _COPY_LATE)),
        1,
        fifo=False,
        directed=LATE_COPIES,
    ),
    _bug(
        "no grace for who joins",
        DELIVERED | DELETED,
        ((managing, "OPTIONS", _NO_GRACE),),
        144,
        fifo=False,
    ),
    _bug(
        "a queue alone is looked for where it was",
        DELIVERED | DELETED,
        _STAYING,
        14,
        fifo=False,
        directed=ALONE,
    ),
)
