"""Faults of copies in several cells: each lets a service lose or repeat what it must not."""

from collections.abc import Sequence
from typing import Any, Final

from control_plane.cluster import acting
from control_plane.cluster.actions import TakeOut
from control_plane.cluster.cluster import Cluster
from control_plane.core import fifo_generations
from control_plane.places import starting
from control_plane.places.changes import without
from control_plane.places.items import StoredPlacement, encode_placement, placement_key
from data_plane.core.queue import Generation
from data_plane.ports import ALWAYS, Absent, Append, Appended, Key, Tallies
from data_plane.replication import chain, fanout, member_cell
from data_plane.replication.placement import Member
from data_plane.stored.keys import is_of_shard

_HELD_UP_US: Final = {"two": 1_000_000, "three": 4_000_000}
"""Between a manager's look and its act, by the cell that it gives up: one is the later."""


def believe_the_first_copy() -> None:
    """Acknowledge a send that one cell has, and tell no other."""

    async def append(self: fanout.Fanout, record: Append) -> Appended:
        _at, first = self._decider()
        stamp_us = record.proposed_us
        sort = (stamp_us + record.delay_us).to_bytes(8, "big") + record.suffix
        key, item = Key(record.partition, sort), {**record.attributes, "t": stamp_us}
        counted: Tallies = lambda before: (  # noqa: E731
            record.tallies(stamp_us) if before is None else ()
        )
        written = await first.put(key, item, ALWAYS, counted)
        return Appended(key, stamp_us, written.time_ms)

    fanout.Fanout.append = append  # type: ignore[method-assign]


def believe_the_head() -> None:
    """Acknowledge records that the first cell of a chain has, tell no other, and read there."""
    hand_down, readers = chain._hand_down, chain.Chain._readers

    async def hand_down_no_records(at: Any, others: Any, key: Key, *of: Any) -> int:
        return 0 if is_of_shard(key.partition) else await hand_down(at, others, key, *of)

    def read_the_first(self: chain.Chain, *partitions: str) -> Any:
        at, tail, joining = readers(self, *partitions)
        if not is_of_shard(partitions[0]):
            return at, tail, joining
        return at, member_cell.members_of(at, self._cells)[0], []

    chain._hand_down = hand_down_no_records  # type: ignore[assignment]
    chain.Chain._readers = read_the_first  # type: ignore[method-assign]


def take_up_old_copies() -> None:
    """Let a cell that comes back go on with what it had, as if it had all that came since."""

    def key_space(_member: Member, partition: str) -> str:
        return partition

    async def nothing_is_left(*_: Any) -> None:
        """Copy nothing."""

    member_cell.partition_of = key_space  # type: ignore[attr-defined, assignment]
    acting.copy_on = nothing_is_left  # type: ignore[attr-defined, assignment]


def begin_anew_unasked() -> None:
    """Begin with an empty store where no cell is left, without a word."""
    starting._without_any = lambda *_, **__: starting.Plan(None)


def act_unchecked() -> None:
    """Let a manager that was held up do what it planned, whatever was done meanwhile.

    It asks for neither the register of removals nor the epoch.
    """

    async def take_out(cluster: Cluster, action: TakeOut) -> dict[str, Any]:
        held = [await cluster.places.read(group) for group in action.groups]
        now_us = cluster.clock.now_us()
        await cluster.waits.sleep_until(now_us + _HELD_UP_US[action.cell])
        for one in held:
            left = without(one.placement, action.cell, one.factor, now_us)
            stored = StoredPlacement(left, one.factor, one.nonce[::-1])
            key = placement_key(left.group)
            await cluster.places._cell.put(key, encode_placement(stored))
            cluster.places._noted(stored)
        return {"outcome": "done", "groups": len(held), "more": False}

    acting._take_out = take_out


def ignore_epochs() -> None:
    """Let writes by an old map pass, wherever they arrive."""

    def check_epoch(*_: Any) -> None:
        """Find every epoch right."""

    def not_later(_epoch: int) -> Sequence[Any]:
        return (Absent("never"),)

    chain._check_epoch = check_epoch  # type: ignore[assignment]
    chain._not_later = not_later  # type: ignore[assignment]


def forget_earlier_partitions() -> None:
    """Split a queue without another thought for what lies in the partitions that it has."""

    def split(generations: tuple[Generation, ...], now_s: int) -> tuple[Generation, ...]:
        return fifo_generations.split(generations, now_s)[-1:]

    acting.split = split  # type: ignore[attr-defined]
