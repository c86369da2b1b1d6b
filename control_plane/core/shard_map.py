"""The shards of a stream: how they divide the hash keys, and how that changes.

Shards are split in two, or two that adjoin are merged, so that every record has one line of shards
behind and before it (Kinesis developer guide, "Resharding a stream").
"""

from collections.abc import Iterable, Sequence
from typing import Final

from control_plane.core.stream_definition import Resharding
from data_plane.core.stream import HASH_KEY_MAX, Shard

_US_PER_S: Final = 1_000_000

FORGOTTEN_AFTER_S: Final = 1_800
"""So long after its last record has expired a shard is forgotten, for good: by a clock that may be
wrong by less. Its records, and its end, are stored for an hour longer than they are read."""


def evenly(count: int) -> list[tuple[int, int]]:
    """First and last hash key of so many shards of one size; the last one has what is left over."""
    width = (HASH_KEY_MAX + 1) // count
    firsts = [number * width for number in range(count)]
    return list(zip(firsts, [first - 1 for first in firsts[1:]] + [HASH_KEY_MAX], strict=True))


def first_shards(count: int, made_s: int) -> tuple[Shard, ...]:
    """Those of a new stream."""
    return tuple(
        Shard(number, first, last, made_s) for number, (first, last) in enumerate(evenly(count))
    )


def split(shard: Shard, hash_key: int, number: int) -> Resharding:
    """Let the shard end, and two go on: below this hash key, and from it on."""
    lower = Shard(number, shard.first_hash, hash_key - 1, 0, shard.number)
    upper = Shard(number + 1, hash_key, shard.last_hash, 0, shard.number)
    return Resharding((shard.number,), (lower, upper))


def merge(shard: Shard, adjacent: Shard, number: int) -> Resharding:
    """Let two shards end that adjoin, the lower one first, and one go on."""
    child = Shard(number, shard.first_hash, adjacent.last_hash, 0, shard.number, adjacent.number)
    return Resharding((shard.number, adjacent.number), (child,))


class _Working:
    """Shards that are made on the way to what is wanted; those in between are closed at once."""

    def __init__(self, shards: Sequence[Shard], number: int) -> None:
        self.open = sorted(shards, key=lambda shard: shard.first_hash)
        self.number = number
        self.made: list[Shard] = []
        self.closed: set[int] = set()

    def replace(self, at: int, count: int, children: Sequence[Shard]) -> None:
        self.closed.update(shard.number for shard in self.open[at : at + count])
        self.open[at : at + count] = children
        self.made += children
        self.number += len(children)

    def split(self, at: int, hash_key: int) -> None:
        self.replace(at, 1, split(self.open[at], hash_key, self.number).children)

    def merge(self, at: int) -> None:
        self.replace(at, 2, merge(self.open[at], self.open[at + 1], self.number).children)


def evened_out(shards: Sequence[Shard], count: int, number: int) -> Resharding | None:
    """Let open shards end so that `count` of one size go on; None where they are so already.

    By splits at the bounds of those that are wanted, then by merges of what lies between two of
    them. Shards that are made on the way have a child, and no records.
    """
    wanted = evenly(count)
    work = _Working(shards, number)
    at = 0
    for first, _ in wanted:
        while work.open[at].last_hash < first:
            at += 1
        if work.open[at].first_hash < first:
            work.split(at, first)
            at += 1
    for at, (_, last) in enumerate(wanted):
        while work.open[at].last_hash < last:
            work.merge(at)
    if not work.made:
        return None
    present = {shard.number for shard in shards}
    parents = tuple(sorted(work.closed & present))
    between = work.closed - present
    # They are closed when they are made, which is when their parents have ended.
    children = [one._replace(closed_us=int(one.number in between)) for one in work.made]
    return Resharding(parents, tuple(children))


def carried_out(
    shards: Sequence[Shard], resharding: Resharding, ended_us: dict[int, int]
) -> tuple[Shard, ...]:
    """The shards after the change, whose parents have ended at these stamps.

    Children begin in the second after all of their parents have ended, so that their sequence
    numbers are above those before them (AWS's are).
    """
    after = {shard.number: shard for shard in shards}
    for number in resharding.parents:
        after[number] = after[number]._replace(closed_us=ended_us[number])
    for child in resharding.children:
        parents = [after[number] for number in child.parents]
        made_s = 1 + max(max(one.closed_us // _US_PER_S, one.made_s) for one in parents)
        closed_us = made_s * _US_PER_S if child.closed_us else 0
        after[child.number] = child._replace(made_s=made_s, closed_us=closed_us)
    return tuple(sorted(after.values()))


def forgotten(shards: Sequence[Shard], expired_us: int) -> tuple[Shard, ...]:
    """The shards without those whose records, all up to this stamp, have long expired.

    What a shard that stays says of its parents stays: clients see where it comes from.
    """
    horizon_us = expired_us - FORGOTTEN_AFTER_S * _US_PER_S
    return tuple(one for one in shards if one.is_open or one.closed_us > horizon_us)


def open_at(shards: Iterable[Shard], time_us: int) -> set[int]:
    """The numbers of the shards, of all of a stream, that were open at a time.

    A shard is open from the moment at which the last of its parents has ended. `made_s` is later,
    by some seconds where shards follow each other quickly.
    """
    found = set()
    ended_us: dict[int, int] = {}
    for shard in sorted(shards):
        parents = [ended_us[number] for number in shard.parents if number in ended_us]
        before_us = max(parents, default=shard.made_s * _US_PER_S - 1)
        ended_us[shard.number] = before_us if shard.was_never_open else shard.closed_us
        if before_us < time_us and (shard.is_open or time_us <= ended_us[shard.number]):
            found.add(shard.number)
    return found


def adjoin(shard: Shard, adjacent: Shard) -> bool:
    """Whether the second one's hash keys follow the first one's."""
    return shard.last_hash + 1 == adjacent.first_hash
