"""Leases as bytes."""

from hypothesis import given
from hypothesis import strategies as st

from data_plane.stored import lease
from data_plane.stored.lease import ALIVE, DEAD, LAST, RESTORED, Lease

TIMES = st.integers(0, 2**48 - 1)
LEASES = st.builds(
    Lease,
    TIMES,
    st.integers(0, lease.COUNT_MAX),
    TIMES,
    TIMES,
    st.integers(0, 126),
    st.binary(min_size=13, max_size=13),
    st.sampled_from((ALIVE, LAST, DEAD, RESTORED)),
    st.integers(0, lease.COUNT_MAX),
)


@given(LEASES)
def test_what_was_stored_is_read(held: Lease) -> None:
    stored = held.to_bytes()
    assert lease.from_bytes(stored) == held
    assert lease.is_of_dead(stored) == (held.fate in {LAST, DEAD})
    assert lease.receive_count(stored) == held.receive_count
    assert lease.visible_ms(stored) == held.visible_ms


def test_leases_of_other_queues_are_as_they_were() -> None:
    assert len(Lease(5_000, 3, 1_000, 1_000, 0, bytes(13)).to_bytes()) == 34


def test_a_record_is_dead_when_its_last_lease_has_ended() -> None:
    held = Lease(5_000, 3, 1_000, 1_000, 0, bytes(13), LAST)
    assert [held.is_dead(now_ms) for now_ms in (4_999, 5_000)] == [False, True]
    assert held._replace(visible_ms=0).is_dead(1_000)
    assert held._replace(fate=DEAD).is_dead(1_000)
    assert not held._replace(fate=ALIVE).is_dead(9_000)


def test_what_is_forgiven_does_not_count() -> None:
    assert Lease(0, 4, 1_000, 1_000, 0, bytes(13), ALIVE, 4).counted == 0
    assert Lease(0, 6, 1_000, 1_000, 0, bytes(13), ALIVE, 4).counted == 2


def test_counts_end_at_the_greatest_that_there_is() -> None:
    held = Lease(0, lease.COUNT_MAX + 2, 1_000, 1_000, 0, bytes(13), RESTORED, lease.COUNT_MAX + 2)
    read = lease.from_bytes(held.to_bytes())
    assert (read.receive_count, read.counted) == (lease.COUNT_MAX, 0)
