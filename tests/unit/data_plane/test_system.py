from data_plane.system import SystemClock, SystemEntropy


def test_the_clock_counts_microseconds_since_the_epoch() -> None:
    clock = SystemClock()
    first = clock.now_us()
    # Between 2024 and 2100.
    assert 1_704_067_200_000_000 < first < 4_102_444_800_000_000


def test_entropy_gives_no_byte_twice() -> None:
    entropy = SystemEntropy()
    drawn = [entropy.random_bytes(16) for _ in range(2000)]
    assert {len(piece) for piece in drawn} == {16}
    assert len(set(drawn)) == len(drawn)
    assert len(entropy.random_bytes(10_000)) == 10_000
    assert entropy.random_bytes(0) == b""
