from control_plane.core.fifo_generations import (
    GENERATIONS_MAX,
    PARTITIONS_MAX,
    drained,
    generations_after,
    may_split,
    split,
)
from data_plane.core.queue import Generation

DAY_S = 86_400
HIGH = {"FifoThroughputLimit": "perMessageGroupId"}


def test_a_split_doubles_the_partitions_and_stays_when_attributes_change() -> None:
    generations = split((Generation(3, 8, 100),), 200)
    assert generations == (Generation(3, 8, 100), Generation(4, 16, 200))
    assert generations_after(generations, HIGH, 300) == generations
    assert generations_after(generations, {}, 300)[-1] == Generation(5, 1, 300)


def test_queues_with_one_order_for_all_are_not_split_nor_others_without_end() -> None:
    assert may_split((Generation(0, 8, 0),), HIGH)
    assert not may_split((Generation(0, 1, 0),), {})
    assert may_split((Generation(0, PARTITIONS_MAX // 2, 0),), HIGH)
    assert not may_split((Generation(0, PARTITIONS_MAX, 0),), HIGH)
    assert not may_split((Generation(0, 8, 0),) * GENERATIONS_MAX, HIGH)


def test_generations_are_drained_a_day_after_the_longest_retention() -> None:
    generations = (Generation(0, 1, 0), Generation(1, 8, DAY_S), Generation(2, 16, 3 * DAY_S))
    assert drained(generations, 16 * DAY_S - 1) == 0
    assert drained(generations, 16 * DAY_S) == 1
    assert drained(generations, 18 * DAY_S) == drained(generations, 99 * DAY_S) == 2
