"""What servers tell each other of sends: small, sealed, seldom."""

import pytest

from control_plane.core.wake_ups import (
    AGE_MS_MAX,
    CHANNELS_MAX,
    EVERY_US,
    TOLD_MAX,
    Channel,
    Pending,
    WakeUpSeal,
)
from tests.unit.repeatable import SECRET

NOW_MS = 1_790_000_000_000
ONE: Channel = ("bag", "00112233445566aa")
OTHER: Channel = ("log", "ffeeddccbbaa9988")
OURS, THEIRS = WakeUpSeal(SECRET, b"server 1"), WakeUpSeal(SECRET, b"server 2")


def many(count: int) -> list[Channel]:
    return [("bag", f"{number:016x}") for number in range(count)]


def test_another_server_reads_what_was_told() -> None:
    assert THEIRS.read(OURS.pack([ONE, OTHER], NOW_MS), NOW_MS + 5) == [ONE, OTHER]
    full = OURS.pack(many(CHANNELS_MAX), NOW_MS)
    assert THEIRS.read(full, NOW_MS) == many(CHANNELS_MAX)
    assert len(full) < 500, "a packet of any network"


def test_ones_own_and_old_ones_say_nothing() -> None:
    datagram = OURS.pack([ONE], NOW_MS)
    assert OURS.read(datagram, NOW_MS) == []
    for now_ms in (NOW_MS + AGE_MS_MAX + 1, NOW_MS - AGE_MS_MAX - 1):
        assert THEIRS.read(datagram, now_ms) == []


def test_what_no_server_of_the_registry_made_says_nothing() -> None:
    datagram = OURS.pack([ONE], NOW_MS)
    for place in range(len(datagram)):
        changed = bytearray(datagram)
        changed[place] ^= 1
        assert THEIRS.read(bytes(changed), NOW_MS) == []
    for length in range(len(datagram)):
        assert THEIRS.read(datagram[:length], NOW_MS) == []
    assert WakeUpSeal(bytes(32), b"server 3").read(datagram, NOW_MS) == []
    assert THEIRS.read(OURS.pack(many(CHANNELS_MAX + 1), NOW_MS), NOW_MS) == []


@pytest.mark.parametrize("signals", [1, 1000])
def test_a_queue_is_told_at_most_so_often(signals: int) -> None:
    pending = Pending()
    for _ in range(signals):
        pending.want(ONE)
    assert pending.take(0) == [[ONE]]
    pending.want(ONE)
    pending.want(OTHER)
    assert pending.take(EVERY_US - 1) == [[OTHER]]
    assert pending.take(EVERY_US) == [[ONE]]
    assert pending.take(2 * EVERY_US) == []


def test_much_at_once_is_several_datagrams_and_memory_is_bounded() -> None:
    pending = Pending()
    for channel in many(TOLD_MAX + 100):
        pending.want(channel)
    told = pending.take(0)
    assert max(map(len, told)) == CHANNELS_MAX
    assert sum(map(len, told)) == TOLD_MAX
    for channel in many(2 * TOLD_MAX)[TOLD_MAX:]:
        pending.want(channel)
    pending.take(1)
    assert len(pending._told_us) <= TOLD_MAX
