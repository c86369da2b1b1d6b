"""Whatever is split, merged or evened out: shards have all hash keys, each of them once."""

from hypothesis import given
from hypothesis import strategies as st

from control_plane.core import shard_map
from tests.unit.control_plane.core.test_shard_map import NOW_S, apply, check, open_shards

_counts = st.integers(1, 20)
_share = st.floats(0, 1, exclude_max=True)


@given(_counts, st.lists(st.one_of(_counts, st.tuples(_share, _share)), max_size=6))
def test_any_changes(count: int, changes: list[int | tuple[float, float]]) -> None:
    shards, now_s = shard_map.first_shards(count, NOW_S), NOW_S
    for wanted in changes:
        now_s += 1
        opened = open_shards(shards)
        number = max(one.number for one in shards) + 1
        if isinstance(wanted, int):
            change = shard_map.evened_out(opened, wanted, number)
            if change is not None:
                shards = apply(shards, change, now_s)
            ranges = [(one.first_hash, one.last_hash) for one in open_shards(shards)]
            assert ranges == shard_map.evenly(wanted)
        else:
            which, where = wanted
            one = opened[int(which * len(opened))]
            if one.last_hash - one.first_hash < 4:
                continue  # AWS splits none that is so narrow.
            # In whole numbers: a float does not tell hash keys apart.
            share = int(where * 1_000_000)
            key = one.first_hash + 2 + (one.last_hash - one.first_hash - 3) * share // 1_000_000
            shards = apply(shards, shard_map.split(one, key, number), now_s)
        check(shards)
