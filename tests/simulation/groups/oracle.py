"""The invariants of consumer groups. Each looks once at all that members were told and did."""

from collections.abc import Callable, Iterator
from typing import Final

from tests.simulation.groups.members import Ledger
from tests.simulation.groups.world import GroupWorld
from tests.simulation.oracle import Violation

Invariant = Callable[[GroupWorld, Ledger], Iterator[Violation]]


def nothing_breaks(world: GroupWorld, _ledger: Ledger) -> Iterator[Violation]:
    """No fault makes a front end fail internally, and everything comes to an end."""
    for text in world.history.broken:
        yield Violation("nothing breaks", text, [])


def commits_are_handed_on(_world: GroupWorld, ledger: Ledger) -> Iterator[Violation]:
    """Whoever takes a shard over begins behind all that was acknowledged to owners before."""
    for told in ledger.told:
        for committed in ledger.committed:
            if (
                committed.shard == told.shard
                and committed.epoch < told.epoch
                and committed.offset > told.offset
            ):
                yield Violation(
                    "commits are handed on",
                    f"shard {told.shard} is told from {told.offset} on under {told.epoch}, and"
                    f" {committed.offset} was committed under {committed.epoch}",
                    [told.member, committed.member, f"shard {told.shard}:"],
                )
                return


def commits_never_go_back(world: GroupWorld, _ledger: Ledger) -> Iterator[Violation]:
    """What the cell has of a shard only grows, and so does the epoch of its owner."""
    for text in world.witness.back:
        yield Violation("commits never go back", text, [text.split(" went")[0] + ":"])


def a_shard_has_one_owner(world: GroupWorld, ledger: Ledger) -> Iterator[Violation]:
    """An assignment epoch of a shard is one member's alone, as stored and as told."""
    given = [*ledger.assigned.items(), *world.witness.owners.items()]
    for (shard, epoch), members in given:
        if len(members) > 1:
            yield Violation(
                "a shard has one owner",
                f"shard {shard} was given under {epoch} to {sorted(members)}",
                sorted(members),
            )


def parents_come_first(_world: GroupWorld, ledger: Ledger) -> Iterator[Violation]:
    """Nobody reads a shard before its parents are committed to their ends."""
    for told in ledger.told:
        if not told.parents_ended:
            yield Violation(
                "parents come first",
                f"shard {told.shard} was told to {told.member} before its parents had ended",
                [told.member, f"shard {told.shard}:"],
            )
            return


def all_is_read(world: GroupWorld, ledger: Ledger) -> Iterator[Violation]:
    """Every record is read by some member, and every shard is committed to its end."""
    for number, records in world.shards.records.items():
        missed = set(range(1, len(records) + 1)) - ledger.read.get(number, set())
        if missed:
            yield Violation(
                "all is read",
                f"of shard {number} nobody has read {sorted(missed)[:5]}",
                [f"shard {number}:", f"shardId-{number:012}"],
            )


def shards_are_taken_over_in_time(world: GroupWorld, _ledger: Ledger) -> Iterator[Violation]:
    """Where nothing fails, a dead member's shards are read again a second after its session."""
    for text in world.probed:
        yield Violation("shards are taken over in time", text, [])


INVARIANTS: Final[tuple[Invariant, ...]] = (
    nothing_breaks,
    commits_are_handed_on,
    commits_never_go_back,
    a_shard_has_one_owner,
    parents_come_first,
    all_is_read,
    shards_are_taken_over_in_time,
)
