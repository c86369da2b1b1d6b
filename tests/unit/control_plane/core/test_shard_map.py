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


def test_at_each_moment_shards_of_all_hash_keys_are_open() -> None:
    """Also where shards follow each other faster than the seconds at which they begin."""
    shards = shard_map.first_shards(4, NOW_S)
    moments_us = [(NOW_S + 1) * 1_000_000 + 300_000]
    for count in (3, 5, 1, 2):
        change = shard_map.evened_out(open_shards(shards), count, len(shards))
        assert change is not None
        ended_us = dict.fromkeys(change.parents, moments_us[-1])
        shards = shard_map.carried_out(shards, change, ended_us)
        moments_us.append(moments_us[-1] + 100_000)
    assert max(one.made_s for one in shards) * 1_000_000 > moments_us[-1] + 1_000_000
    first_us = NOW_S * 1_000_000
    assert shard_map.open_at(shards, first_us - 1) == set()
    for time_us in (first_us, *moments_us, *(us + 1 for us in moments_us)):
        found = shard_map.open_at(shards, time_us)
        check_cover(sorted((shards[number] for number in found), key=lambda one: one.first_hash))
    now_open = {one.number for one in shards if one.is_open}
    assert shard_map.open_at(shards, moments_us[-1]) == now_open


def check_cover(shards: list[Shard]) -> None:
    """They have all hash keys, each once."""
    assert (shards[0].first_hash, shards[-1].last_hash) == (0, HASH_KEY_MAX)
    assert all(one.last_hash + 1 == other.first_hash for one, other in pairwise(shards))


def test_children_of_shards_that_are_forgotten_were_open_when_they_were_made() -> None:
    shards = shard_map.first_shards(1, NOW_S)
    after = apply(shards, shard_map.split(shards[0], 1_000, 1), NOW_S + 5)
    assert shard_map.open_at(after, (NOW_S + 5) * 1_000_000) == {0}
    assert shard_map.open_at(after, (NOW_S + 5) * 1_000_000 + 1) == {1, 2}
    assert shard_map.open_at(after[1:], (NOW_S + 6) * 1_000_000) == {1, 2}
    assert shard_map.open_at(after[1:], (NOW_S + 6) * 1_000_000 - 1) == set()
