"""What a copy of a block's state lacks, and what is done about it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.core.conditions import apply, holds
from data_plane.core.limits import RETENTION_S_MAX
from data_plane.ports import Attributes, Value
from data_plane.stored.bounds import STATE_TTL_SLACK_S
from data_plane.stored.lease import DEAD, RESTORED, Lease, receive_count
from data_plane.stored.merging import lacking, written_s

NOW_S = 1_790_000_000
MESSAGES = 9


def held(count: int, visible_ms: int = 5_000) -> bytes:
    return Lease(visible_ms, count, 1_000, 1_000, 0, bytes(13)).to_bytes()


def state(**attributes: Value) -> Attributes:
    return {"v": 1, "x": NOW_S, **attributes}


def members(attributes: Attributes) -> frozenset[int]:
    deleted = attributes.get("d", frozenset())
    assert isinstance(deleted, frozenset)
    return deleted


def brought_up(known: Attributes, copy: Attributes) -> Attributes:
    """The copy after as many writes as it takes."""
    for _ in range(8):
        change = lacking(known, copy)
        if change is None:
            return copy
        update, condition = change
        assert holds(condition, copy)
        copy = apply(update, copy)
    raise AssertionError("it never ends")


def test_a_delete_that_nobody_told_is_told() -> None:
    known = state(d=frozenset({1, 2}), gd=frozenset({2}), m3=held(1), s0=b"12345678", f=4)
    copy = state(d=frozenset({4}), m1=held(1), q1="r|...", m2=held(2))
    assert brought_up(known, copy) == state(
        d=frozenset({1, 2, 4}), gd=frozenset({2}), m3=held(1), s0=b"12345678", f=4
    )


def test_a_copy_that_knows_more_keeps_it() -> None:
    copy = state(d=frozenset({1}), m2=held(3), m3=held(1), x=NOW_S + 9)
    assert lacking(state(d=frozenset({1}), m2=held(2)), copy) is None
    assert lacking(state(m1=held(5)), copy) is None


def test_a_copy_that_knows_of_a_delete_lacks_no_lease_of_that_message() -> None:
    copy = state(d=frozenset({2}), m2=held(3))
    assert lacking(state(m2=held(2)), copy) is None
    fenced = state(d=frozenset({2}), m2=held(4))
    assert brought_up(fenced, copy) == fenced


def test_of_one_delivery_the_visibility_is_that_of_who_decides() -> None:
    known, copy = state(m1=held(2, 9_000)), state(m1=held(2, 5_000), q1="d|...")
    assert brought_up(known, copy) == known


def test_many_leases_take_several_writes() -> None:
    known = state(**{f"m{index}": held(1) for index in range(100)})
    change = lacking(known, state())
    assert change is not None
    assert len(change[1]) < 100
    assert brought_up(known, state()) == known


def test_what_a_copy_was_told_meanwhile_is_not_undone() -> None:
    known, copy = state(m1=held(2)), state(m1=held(1))
    change = lacking(known, copy)
    assert change is not None
    for later in (state(m1=held(3)), state(d=frozenset({1})), None):
        assert not holds(change[1], later)


@st.composite
def states(draw: st.DrawFn) -> Attributes:
    """Any state of a block, with deletes, leases and moves."""
    done = draw(st.frozensets(st.integers(0, MESSAGES)))
    attributes: dict[str, Value] = {**(state(d=done) if done else state())}
    counts = draw(st.dictionaries(st.integers(0, MESSAGES), st.integers(1, 3)))
    for index in counts.keys() - done:
        attributes[f"m{index}"] = held(counts[index])
        if draw(st.booleans()):
            attributes[f"q{index}"] = "r|..."
    return attributes


def received(state_: Attributes, index: int) -> int:
    stored = state_.get(f"m{index}")
    return receive_count(stored) if isinstance(stored, bytes) else 0


@settings(max_examples=40)
@given(states(), states())
def test_copies_only_advance_and_get_to_know_all(known: Attributes, copy: Attributes) -> None:
    after = brought_up(known, copy)
    done = members(known) | members(copy)
    assert members(after) == done
    for index in range(MESSAGES + 1):
        most = max(received(known, index), received(copy, index))
        assert received(after, index) == (0 if index in done else most)


def test_a_state_tells_when_it_was_written() -> None:
    kept_s = RETENTION_S_MAX + STATE_TTL_SLACK_S
    moved = bytes((0,) * 6 + (0x80,) + (0,) * 3)
    assert written_s(bytes(10), {"v": 1, "x": NOW_S + kept_s}) == NOW_S
    assert written_s(moved, {"v": 1, "x": NOW_S + kept_s + RETENTION_S_MAX}) == NOW_S
    assert written_s(bytes(10), {"v": 1}) == 0


def test_a_dead_letter_that_was_restored_is_told() -> None:
    """A restore is a later lease: receive counts never fall."""
    dead = Lease(5_000, 3, 1_000, 1_000, 0, bytes(13), DEAD).to_bytes()
    restored = Lease(0, 4, 1_000, 1_000, 0, bytes(13), RESTORED, 4).to_bytes()
    assert brought_up(state(m1=restored), state(m1=dead)) == state(m1=restored)
    assert brought_up(state(m1=dead), state(m1=restored)) == state(m1=restored)
