"""Who is noisy, and which lane a group's messages go to."""

from dataclasses import replace

from data_plane.bag.bounds import (
    DEEPER_LANE_FACTOR,
    DELIVERIES_WATCHED_MAX,
    GROUP_WAITING_MIN,
    GROUPS_COUNTED_MAX,
    GROUPS_PLACED_MAX,
    NOISY_FOR_US,
    RECENT_US,
)
from data_plane.bag.tenants import (
    NO_TAG,
    Consumption,
    Heavy,
    LanePlacement,
    Tenants,
    Waiting,
    tag_of,
)
from tests.unit.data_plane.bag.conftest import QUEUE

A, B, C = (tag_of(QUEUE, name) for name in "abc")


def test_tags_differ_by_group_and_by_queue() -> None:
    assert len({A, B, C, tag_of(replace(QUEUE, secret=bytes(32)), "a"), NO_TAG}) == 5
    assert tag_of(QUEUE, "") == NO_TAG


def test_heavy_groups_are_counted_among_many_light_ones() -> None:
    heavy = Heavy()
    for number in range(100_000):
        heavy.add(number.to_bytes(8, "big"), 1)
        if number % 10 == 0:
            heavy.add(A, 1)
    assert 10_000 - heavy.total / GROUPS_COUNTED_MAX <= heavy.of(A) <= 10_000
    assert len(heavy.amounts) <= GROUPS_COUNTED_MAX
    assert heavy.total == 110_000


def test_counts_are_never_above_the_truth() -> None:
    heavy = Heavy()
    for number in range(1, 5_000):
        heavy.add((number % 700).to_bytes(8, "big"), number % 5)
    for number in range(700):
        true = sum(n % 5 for n in range(1, 5_000) if n % 700 == number)
        assert heavy.of(number.to_bytes(8, "big")) <= true


def test_what_was_handed_out_does_not_wait() -> None:
    waiting = Waiting()
    for slice_us in range(1, 101):
        waiting.add(A, 1, slice_us)
    waiting.handed_out(50)
    assert waiting.of(A) == 100  # never less than what waits
    waiting.handed_out(100)
    assert waiting.of(A) == 0
    for slice_us in range(101, 10_001):
        waiting.handed_out(slice_us - 21)
        waiting.add(A, 1, slice_us)
        assert waiting.of(A) + 20 >= 20
        assert waiting.of(A) <= 2 * 21


def placed(tenants: Tenants, tag: bytes, amount: int, slice_us: int) -> int:
    lane = tenants.lane_for(tag, amount, slice_us, delayed=False)
    tenants.place(tag, amount, lane, slice_us, slice_us, delayed=False)
    return lane


def test_a_group_goes_deeper_when_it_has_too_much_waiting() -> None:
    tenants = Tenants()
    tenants.deepest = 2
    lanes = [placed(tenants, A, 1, slice_us) for slice_us in range(1, 1_001)]
    assert lanes == sorted(lanes)
    assert [lanes.count(lane) for lane in (0, 1)] == [
        GROUP_WAITING_MIN,
        GROUP_WAITING_MIN * DEEPER_LANE_FACTOR,
    ]
    assert placed(tenants, B, 1, 1_001) == 0
    assert placed(tenants, NO_TAG, 1_000, 1_001) == 0


def test_a_group_may_have_a_tenth_of_what_is_in_flight_waiting() -> None:
    tenants = Tenants()
    for number in range(1_000):
        tenants.consumption.delivered((0, b"block", number), NO_TAG, 1, 1_000_000)
    lanes = [placed(tenants, A, 1, slice_us) for slice_us in range(1, 201)]
    assert lanes.count(0) == 100


def test_a_group_returns_when_its_lane_is_empty_of_it() -> None:
    tenants = Tenants()
    tenants.deepest = 2
    for slice_us in range(1, 1_001):
        placed(tenants, A, 1, slice_us)
    tenants.handed_out(0, 5_000)
    assert placed(tenants, A, 1, 1_001) == 2
    tenants.handed_out(1, 5_000)
    tenants.handed_out(2, 1_000)
    assert tenants.is_aside(A)
    assert placed(tenants, A, 1, 1_002) == 2
    tenants.handed_out(2, 1_002)
    assert not tenants.is_aside(A)
    assert placed(tenants, A, 1, 1_003) == 0


def test_what_others_tell_is_heeded_until_it_is_over() -> None:
    tenants = Tenants()
    tenants.deepest = 2
    tenants.handed_out(1, 100)
    tenants.learn({A: LanePlacement(1, 200), B: LanePlacement(1, 100), C: LanePlacement(2, 50)})
    assert [tenants.lane_of(tag) for tag in (A, B, C)] == [1, 0, 2]
    tenants.handed_out(1, 200)
    assert tenants.lane_of(A) == 0


def test_memory_is_bounded() -> None:
    tenants = Tenants()
    for number in range(3 * GROUPS_PLACED_MAX):
        tag = number.to_bytes(8, "big")
        tenants.place(tag, 1, 1, 1 << 60, 1, delayed=False)
        tenants.consumption.delivered((0, tag, 0), tag, 1, 1 << 60)
    assert len(tenants._placed) == GROUPS_PLACED_MAX
    for number in range(2 * DELIVERIES_WATCHED_MAX):
        tenants.consumption.delivered((0, b"", number), A, 1, 1 << 60)
    assert tenants.consumption.in_flight == DELIVERIES_WATCHED_MAX
    assert len(tenants.consumption._held) == 1


def test_noisy_is_who_holds_thirty_and_a_tenth_of_what_is_in_flight() -> None:
    consumption = Consumption()
    for number in range(29):
        consumption.delivered((0, b"a", number), A, 1, 1_000_000)
    assert not consumption.is_noisy(A)
    consumption.delivered((0, b"a", 29), A, 1, 1_000_000)
    assert consumption.is_noisy(A)
    for number in range(300):
        consumption.delivered((0, b"b", number), NO_TAG, 1, 1_000_000)
    assert not consumption.is_noisy(A)
    assert not consumption.is_noisy(B)


def test_noisy_is_who_took_a_tenth_of_the_consumers_time() -> None:
    consumption = Consumption()
    consumption.delivered((0, b"a", 0), A, 0, 1_000_000)
    consumption.delivered((0, b"b", 0), B, 0, 1_000_000)
    consumption.finished((0, b"a", 0), 1_000)
    consumption.finished((0, b"b", 0), 9_500)
    assert not consumption.is_noisy(A)
    assert consumption.is_noisy(B)
    later_ms = 9_500 + 2 * RECENT_US // 1000 + 2
    consumption.delivered((0, b"a", 1), A, later_ms, later_ms + 100_000)
    consumption.finished((0, b"a", 1), later_ms + 1)
    assert consumption.is_noisy(A)
    assert not consumption.is_noisy(B)


def test_messages_whose_visibility_ended_are_no_longer_in_flight() -> None:
    consumption = Consumption()
    for number in range(40):
        consumption.delivered((0, b"a", number), A, 0, 30_000)
    consumption.forget_ended(29_999)
    assert consumption.in_flight == 40
    consumption.changed((0, b"a", 39), 60_000, 1)
    consumption.forget_ended(30_000)
    assert consumption.in_flight == 1
    consumption.changed((0, b"a", 39), 0, 31_000)
    assert consumption.in_flight == 0


def test_who_is_noisy_is_placed_aside_for_a_while() -> None:
    tenants = Tenants()
    tenants.present_us = 1
    for number in range(40):
        tenants.consumption.delivered((0, b"a", number), A, 0, 1 << 60)
    tenants.noticed(B, 1)
    tenants.noticed(A, 1)
    assert placed(tenants, A, 1, 2) == 1
    assert not tenants.is_aside(B)
    told, _ = tenants.take_untold(10)
    assert set(told) == {A}
    tenants.present_us = 2 + NOISY_FOR_US
    assert not tenants.is_aside(A)
