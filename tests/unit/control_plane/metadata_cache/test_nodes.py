import asyncio
from collections import Counter

import pytest
from pymemcache.client.rendezvous import RendezvousHash

from control_plane.metadata_cache.nodes import CacheNodes, Found, Held
from data_plane.core.deadline import left_us
from tests.unit.control_plane.metadata_cache.cache_in_memory import Ground, MemoryNode
from tests.unit.repeatable import HandClock

NAMES = [f"{number:032x}" for number in range(1_000)]


def placed(nodes: CacheNodes) -> dict[str, str]:
    chosen = {name: nodes.chosen(name) for name in NAMES}
    return {name: node.name for name, node in chosen.items() if node is not None}


def keep_none(_value: bytes) -> bool:
    return False


def test_one_of_five_nodes_lost_moves_its_fifth_of_the_names_and_no_other() -> None:
    ground = Ground(nodes=5)
    nodes = ground.cache_nodes()
    before = placed(nodes)
    assert all(140 < share < 260 for share in Counter(before.values()).values())
    ground.nodes[2].is_left_alone = True
    after = placed(nodes)
    moved = {name for name in NAMES if before[name] != after[name]}
    assert moved == {name for name in NAMES if before[name] == "node-2:11211"}
    assert 0.14 < len(moved) / len(NAMES) < 0.26
    assert len({after[name] for name in moved}) == 4, "the others share its names"
    ground.nodes[2].is_left_alone = False
    assert placed(nodes) == before


def test_a_sixth_node_takes_a_sixth_of_the_names() -> None:
    before = placed(Ground(nodes=5).cache_nodes())
    after = placed(Ground(nodes=6).cache_nodes())
    moved = [name for name in NAMES if before[name] != after[name]]
    assert {after[name] for name in moved} == {"node-5:11211"}
    assert 0.11 < len(moved) / len(NAMES) < 0.23


def test_all_front_ends_place_as_the_librarys_hash_client_does() -> None:
    ground = Ground(nodes=4)
    theirs = RendezvousHash([node.name for node in ground.nodes])
    ours = placed(ground.cache_nodes())
    assert ours == placed(ground.cache_nodes())
    assert ours == {name: theirs.get_node(name) for name in NAMES}


def test_with_whole_copies_a_front_end_asks_one_node_and_others_ask_others() -> None:
    ground = Ground(nodes=4, whole_copy=True)
    asked: set[str] = set()
    for _ in range(40):
        nodes = ground.cache_nodes()
        chosen = {node.name for name in NAMES[:9] if (node := nodes.chosen(name))}
        assert len(chosen) == 1
        asked |= chosen
    assert len(asked) == 4


@pytest.mark.parametrize("whole_copy", [False, True])
def test_without_any_node_there_is_nothing_to_find(*, whole_copy: bool) -> None:
    ground = Ground(whole_copy=whole_copy)
    for node in ground.nodes:
        node.is_left_alone = True
    nodes = ground.cache_nodes()
    assert nodes.chosen("a") is None
    assert asyncio.run(nodes.find(["a", "b"])) == {}
    asyncio.run(nodes.put("a", b"1", 4))
    assert [node.asked for node in ground.nodes] == [0, 0, 0]


def test_each_node_is_asked_once_for_all_that_it_may_have() -> None:
    ground = Ground()
    nodes = ground.cache_nodes()
    asyncio.run(nodes.put(NAMES[0], b"1", 4))
    asked = [node.asked for node in ground.nodes]
    found = asyncio.run(nodes.find(NAMES[:50]))
    assert [node.asked for node in ground.nodes] == [each + 1 for each in asked]
    assert set(found) == set(NAMES[:50])
    held = [each.held.value for each in found.values() if each.held is not None]
    assert held == [b"1"]


def test_names_of_a_node_that_does_not_answer_are_missing() -> None:
    ground = Ground()
    nodes = ground.cache_nodes()
    ground.nodes[0].is_away = True
    found = asyncio.run(nodes.find(NAMES[:50]))
    before = placed(nodes)
    assert set(found) == {name for name in NAMES[:50] if before[name] != ground.nodes[0].name}


def test_sharded_one_node_is_filled_and_with_whole_copies_all_are() -> None:
    for whole_copy, filled in ((False, 1), (True, 3)):
        ground = Ground(whole_copy=whole_copy)
        nodes = ground.cache_nodes()
        found = asyncio.run(nodes.find(["a"]))["a"]
        asyncio.run(nodes.fill("a", b"1", found, keep_none, 4))
        assert [len(node.values) for node in ground.nodes].count(1) == filled
        assert ground.total("fills") == filled


def test_a_fill_leaves_what_came_after_the_look() -> None:
    ground = Ground(nodes=1)
    nodes = ground.cache_nodes()
    found = asyncio.run(nodes.find(["a"]))["a"]
    asyncio.run(nodes.put("a", b"newer", 4))
    asyncio.run(nodes.fill("a", b"older", found, keep_none, 4))
    assert ground.nodes[0].values["a"].value == b"newer"
    assert ground.total("fills") == 0


def test_a_fill_of_all_copies_keeps_what_is_to_be_kept() -> None:
    ground = Ground(whole_copy=True)
    nodes = ground.cache_nodes()
    found = asyncio.run(nodes.find(["a"]))["a"]
    others = [node for node in ground.nodes if node is not found.node]
    others[0].values["a"] = Held(b"keep", b"7")
    others[1].values["a"] = Held(b"replace", b"7")
    asyncio.run(nodes.fill("a", b"new", found, lambda value: value == b"keep", 4))
    assert [node.values["a"].value for node in others] == [b"keep", b"new"]


def test_a_front_end_waits_for_nodes_for_ten_milliseconds_at_most() -> None:
    clock = HandClock()
    left: list[int | None] = []

    class Watched(MemoryNode):
        async def put(self, name: str, value: bytes, ttl_s: int) -> None:
            left.append(left_us(clock.now_us()))
            await super().put(name, value, ttl_s)

    ground = Ground()
    ground.clock, ground.nodes = clock, [Watched("only:1")]
    asyncio.run(ground.cache_nodes().put("a", b"1", 4))
    assert left == [10_000]


def test_a_mistake_of_ours_is_no_miss() -> None:
    class Wrong(MemoryNode):
        async def put(self, name: str, value: bytes, ttl_s: int) -> None:
            raise TypeError(f"{name} {value!r} {ttl_s}")

    ground = Ground()
    ground.nodes = [Wrong("only:1")]
    with pytest.raises(TypeError):
        asyncio.run(ground.cache_nodes().put("a", b"1", 4))


def test_found_says_who_was_asked() -> None:
    ground = Ground(nodes=1)
    found = asyncio.run(ground.cache_nodes().find(["a"]))
    assert found == {"a": Found(ground.nodes[0], None)}
