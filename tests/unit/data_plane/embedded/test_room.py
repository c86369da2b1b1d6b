"""Who may use the reserve of a full store."""

import pytest

from data_plane.embedded.room import (
    ADDS,
    FREES,
    MOVES,
    SERVES,
    full_batch_bytes,
    grade_of_append,
    grade_of_put,
    grade_of_update,
    kept_bytes,
)
from data_plane.ports import Append, Attributes, Key, Update

UID = "0123456789abcdef"
STATE = Key(f"S|{UID}|00|0", b"block")


@pytest.mark.parametrize(
    ("item", "grade"),
    [
        ({"k": "s"}, ADDS),
        ({"k": "s", "r": 3}, ADDS),
        ({"k": "s", "r": 0}, MOVES),
        ({"k": "m"}, SERVES),
        ({"k": "p"}, FREES),
    ],
)
def test_messages_that_are_sent_stop_first(item: Attributes, grade: int) -> None:
    assert grade_of_append(Append(f"B|{UID}|00|0", b"", item, 0)) == grade
    assert grade_of_put(Key(f"G|{UID}|00|0", b""), item, 0, 500) == grade


@pytest.mark.parametrize(
    ("partition", "item"), [("B", {"k": "s", "r": 3}), ("G", {"k": "s", "R": 1})]
)
def test_what_a_group_has_let_in_is_taken(partition: str, item: Attributes) -> None:
    key = Key(f"{partition}|{UID}|00|0", b"")
    assert grade_of_put(key, item, 0, 500) == MOVES
    records = Key(f"N|{UID}|00000000|0@2", b"")
    assert grade_of_put(records, {"k": "d", "R": 1}, 0, 500) == MOVES
    assert grade_of_put(records, {"k": "d"}, 0, 500) == ADDS
    assert grade_of_put(Key("N|1|ann", b""), {"R": 1}, 0, 500) == ADDS
    assert grade_of_put(key, {**item, "k": "p"}, 0, 500) == FREES


@pytest.mark.parametrize(
    ("partition", "before", "after", "grade"),
    [
        ("Q|1|r", 0, 200, ADDS),  # a new queue
        ("Q|1|r", 200, 210, FREES),  # purged, or a tombstone
        ("Q|1|r", 200, 9_000, SERVES),
        ("X|", 0, 90, FREES),
        ("Z|", 0, 90, FREES),
        (f"S|{UID}|00|0", 300, 262, FREES),  # a delete, handed down a chain
        (f"S|{UID}|00|0", 300, 360, SERVES),
    ],
)
def test_what_makes_nothing_bigger_goes_on_last(
    partition: str, before: int, after: int, grade: int
) -> None:
    assert grade_of_put(Key(partition, b""), {}, before, after) == grade


def test_a_lease_stops_before_a_delete() -> None:
    lease = Update(assign={"v": 1, "m3": b"lease", "x": 9})
    delete = Update(assign={"v": 1, "x": 9}, add={"d": frozenset({3})})
    assert grade_of_update(STATE, lease, 0, 100) == SERVES
    assert grade_of_update(STATE, lease, 100, 140) == SERVES
    assert grade_of_update(STATE, lease, 140, 140) == FREES  # changed, or leased again
    assert grade_of_update(STATE, delete, 140, 143) == FREES
    assert grade_of_update(STATE, delete, 0, 40) == FREES


def test_the_parts_of_the_reserve_are_as_they_were_reckoned() -> None:
    mib = 1024 * 1024
    kept = [kept_bytes(grade, 16 * mib) for grade in (ADDS, MOVES, SERVES, FREES)]
    assert kept == [16 * mib, 12 * mib, 4 * mib, 0]
    assert 3 * full_batch_bytes(16 * mib) < kept_bytes(SERVES, 16 * mib)


def test_what_was_sent_is_noted_by_what_frees() -> None:
    announced: Attributes = {"a": "1"}
    noted: Attributes = {**announced, "d": 7, "s": "[]"}
    key = Key("M|sends@2", b"server|uid")
    for item, grade in ((noted, FREES), (announced, SERVES)):
        assert grade_of_put(key, item, 90, 300) == grade
        assert grade_of_update(key, Update(assign=item), 90, 300) == grade
    assert grade_of_put(Key("M|writing", b"w"), noted, 0, 90) == SERVES
