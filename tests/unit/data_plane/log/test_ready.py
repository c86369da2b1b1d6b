"""The groups whose turn it may be."""

from data_plane.log.ready import ENTRIES_MAX, Ready


def test_groups_come_in_the_order_of_their_turns() -> None:
    ready = Ready()
    known = {b"a": 1, b"b": 1}
    ready.push((5, 0, 0), b"b", known)
    ready.push((0, 7, 0), b"a", known)
    assert b"a" in ready
    assert [ready.pop(), ready.pop()] == [b"a", b"b"]
    assert not ready
    assert b"a" not in ready


def test_what_nobody_takes_and_is_gone_is_not_kept() -> None:
    ready = Ready()
    known = {b"stays": 1}
    ready.push((0, 0, 0), b"stays", known)
    for number in range(3 * ENTRIES_MAX):
        group = number.to_bytes(4, "big")
        ready.push((1, number, 0), group, {**known, group: 1})
    left = 0
    while ready:
        ready.pop()
        left += 1
    assert left <= ENTRIES_MAX + 5


def test_a_group_that_stays_is_never_dropped() -> None:
    ready = Ready()
    known = dict.fromkeys((number.to_bytes(4, "big") for number in range(ENTRIES_MAX)), 1)
    for number, group in enumerate(known):
        ready.push((0, number, 0), group, known)
    for number in range(5 * ENTRIES_MAX):
        ready.push((1, number, 0), b"gone" + number.to_bytes(4, "big"), known)
    assert all(group in ready for group in known)
    assert [ready.pop() for _ in known] == list(known)
