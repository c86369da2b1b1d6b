"""How many records a batch may have, by how long the batches before it took."""

from collections.abc import Callable

import pytest

from sdk.tests.group_member import Member, assigned, page, told
from tidegate_sdk import GroupShard
from tidegate_sdk.batch_pace import BatchPace

HERE, THERE = GroupShard("clicks", "here"), GroupShard("clicks", "there")
REBALANCE_S = 60


def sizes(seconds: Callable[[int], float], batches: int, *, first: int = 1_000) -> list[int]:
    """Of batches where records never lack, but for the first one."""
    pace, had = BatchPace(1_000), [first]
    while len(had) < batches:
        pace.has_taken(HERE, had[-1], seconds(had[-1]), REBALANCE_S)
        had.append(pace.records_max(HERE))
    return had


def test_records_that_take_little_come_by_as_many_as_the_program_says() -> None:
    assert set(sizes(lambda records: records * 0.01, 9)) == {1_000}
    assert set(sizes(lambda _records: 0.0, 9)) == {1_000}


@pytest.mark.parametrize("record_s", [0.065, 0.5, 7.0, 15.0, 25.0, 30.0, 90.0])
def test_a_batch_takes_a_third_of_the_rebalance_timeout_or_little_more(record_s: float) -> None:
    had = sizes(lambda records: records * record_s, 99)
    assert had[1] == max(1, int(REBALANCE_S / 3 / record_s))
    assert max(had[1:]) * record_s < REBALANCE_S or max(had[1:]) == 1


@pytest.mark.parametrize("batch_s", [1.0, 11.0, 29.0])
def test_what_a_batch_takes_once_does_not_keep_batches_small(batch_s: float) -> None:
    assert sizes(lambda _records: batch_s, 99, first=1)[-1] == 1_000


@pytest.mark.parametrize("batch_s", [5.0, 22.5, 29.0])
def test_batches_that_take_the_same_whatever_they_have_grow_fast(batch_s: float) -> None:
    assert sizes(lambda _records: batch_s, 12, first=1)[-1] == 1_000


@pytest.mark.parametrize("batch_s", [1.0, 12.0, 26.0])
def test_batches_that_were_small_as_there_was_no_more_do_not_set_the_pace(batch_s: float) -> None:
    pace = BatchPace(1_000)
    pace.has_taken(HERE, 1_000, batch_s, REBALANCE_S)
    for lone_s in (batch_s * 1.1, batch_s * 0.8, batch_s):
        pace.has_taken(HERE, 1, lone_s, REBALANCE_S)
        assert pace.records_max(HERE) == 1_000


def test_a_small_batch_may_raise_the_pace_of_the_one_before() -> None:
    pace = BatchPace(1_000)
    pace.has_taken(HERE, 10, 1, REBALANCE_S)
    pace.has_taken(HERE, 5, 1, REBALANCE_S)
    assert pace.records_max(HERE) > 90


@pytest.mark.parametrize(("lone_s", "records"), [(15, 2), (1, 20), (0.1, 200)])
def test_a_lone_record_that_is_slower_than_those_before_sets_the_pace(
    lone_s: float, records: int
) -> None:
    pace = BatchPace(1_000)
    pace.has_taken(HERE, 1_000, 10, REBALANCE_S)
    pace.has_taken(HERE, 1, lone_s, REBALANCE_S)
    assert pace.records_max(HERE) == records


def test_what_took_too_long_does_not_come_back_after_a_lone_record() -> None:
    pace = BatchPace(1_000)
    pace.has_taken(HERE, 1_000, 40, REBALANCE_S)
    pace.has_taken(HERE, 1, 10, REBALANCE_S)
    assert pace.records_max(HERE) == 2


def test_shards_that_went_long_ago_are_forgotten() -> None:
    pace = BatchPace(1_000)
    for number in range(3_000):
        pace.has_taken(GroupShard("clicks", f"{number}"), 1_000, 100, REBALANCE_S)
        pace.has_taken(HERE, 1_000, 50, REBALANCE_S)
    assert pace.records_max(GroupShard("clicks", "2999")) == 200
    assert pace.records_max(HERE) == 400
    assert len(pace._known) <= 1_000


def test_batches_do_not_go_on_to_shrink_where_that_makes_nothing_better() -> None:
    had = sizes(lambda _records: 45.0, 99)
    assert min(had) >= 400
    assert sum(had) / len(had) > 600


def test_each_shard_has_its_own_pace_and_a_new_one_that_of_the_last() -> None:
    pace = BatchPace(1_000)
    pace.has_taken(HERE, 1_000, 100, REBALANCE_S)
    pace.has_taken(THERE, 1_000, 50, REBALANCE_S)
    assert pace.records_max(HERE) == 200
    assert pace.records_max(THERE) == 400
    assert pace.records_max(GroupShard("clicks", "new")) == 400


def test_a_member_reads_what_its_handler_does_in_the_time_that_its_group_says() -> None:
    here = Member(records_max=50)
    here.beat({**told(assigned("a")), "RebalanceTimeoutSeconds": 30})

    def take_long() -> None:
        here.clock.time_s += 4

    here.meanwhile = take_long
    here.read(page(1, 2))
    here.meanwhile = lambda: None
    here.read(page(3))
    asked = [call["Limit"] for call in here.client.asked("get_records")]
    assert asked == [50, 5]


def test_who_takes_longer_than_the_rebalance_timeout_reads_of_it_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = Member()
    here.beat({**told(assigned("a")), "RebalanceTimeoutSeconds": 5})

    def take_long() -> None:
        here.clock.time_s += 6

    here.meanwhile = take_long
    here.read(page(1, 2))
    assert "took 6.0 s" in caplog.text
    assert "RebalanceTimeoutSeconds" in caplog.text
