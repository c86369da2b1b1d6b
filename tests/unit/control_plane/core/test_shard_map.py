"""Shards cover all hash keys once, before and after every change, and know where they come from."""

from itertools import pairwise

from control_plane.core import shard_map
from control_plane.core.stream_definition import Resharding
from data_plane.core.stream import HASH_KEY_MAX, Shard

NOW_S = 1_790_000_000


def apply(shards: tuple[Shard, ...], change: Resharding, at_s: int) -> tuple[Shard, ...]:
    ended_us = dict.fromkeys(change.parents, at_s * 1_000_000)
    return shard_map.carried_out(shards, change, ended_us)


def open_shards(shards: tuple[Shard, ...]) -> list[Shard]:
    return sorted((one for one in shards if one.is_open), key=lambda one: one.first_hash)


def check(shards: tuple[Shard, ...]) -> None:
    """Open shards have all hash keys; each child has hash keys of its parents, and came later."""
    ranges = [(one.first_hash, one.last_hash) for one in open_shards(shards)]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == HASH_KEY_MAX
    assert all(last + 1 == first for (_, last), (first, _) in pairwise(ranges))
    known = {one.number: one for one in shards}
    assert len(known) == len(shards)
    for one in shards:
        for parent in (known[number] for number in one.parents if number in known):
            assert not parent.is_open
            assert one.made_s > parent.closed_us // 1_000_000
            assert parent.first_hash <= one.last_hash
            assert one.first_hash <= parent.last_hash


def test_shards_of_a_new_stream_are_those_of_aws() -> None:
    assert [last for _, last in shard_map.evenly(3)] == [
        113427455640312821154458202477256070484,
        226854911280625642308916404954512140969,
        HASH_KEY_MAX,
    ]


def test_the_lower_half_of_a_split_comes_first() -> None:
    shards = shard_map.first_shards(1, NOW_S)
    after = apply(shards, shard_map.split(shards[0], 1_000, 1), NOW_S + 5)
    check(after)
    assert [(one.number, one.first_hash, one.parent) for one in open_shards(after)] == [
        (1, 0, 0),
        (2, 1_000, 0),
    ]
    assert after[0].closed_us == (NOW_S + 5) * 1_000_000
    assert after[1].made_s == NOW_S + 6


def test_a_merge_names_both_parents() -> None:
    shards = shard_map.first_shards(2, NOW_S)
    after = apply(shards, shard_map.merge(shards[0], shards[1], 2), NOW_S)
    check(after)
    assert after[2].parents == (0, 1)


def test_nothing_changes_where_shards_are_even() -> None:
    assert shard_map.evened_out(shard_map.first_shards(4, NOW_S), 4, 4) is None


def test_twice_as_many_takes_a_split_of_each() -> None:
    change = shard_map.evened_out(shard_map.first_shards(4, NOW_S), 8, 4)
    assert change is not None
    assert change.parents == (0, 1, 2, 3)
    assert len(change.children) == 8
