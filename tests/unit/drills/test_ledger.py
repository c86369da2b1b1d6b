"""The books of a drill: honest histories are in order, each kind of broken promise is noticed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.drills.content import content_of
from tests.drills.ledger import LATE_S_MAX, Ledger

LATER_S = 100.0


def answer_of(number: int, message_id: str = "") -> dict[str, str]:
    content = content_of(number)
    answer = {"MessageId": message_id or f"id-{number}", "MD5OfMessageBody": content.md5_of_body}
    if content.md5_of_attributes:
        answer["MD5OfMessageAttributes"] = content.md5_of_attributes
    return answer


def message_of(number: int, count: int, message_id: str = "") -> dict[str, Any]:
    content = content_of(number)
    message: dict[str, Any] = {
        "MessageId": message_id or f"id-{number}",
        "Body": content.body,
        "MD5OfBody": content.md5_of_body,
        "Attributes": {"ApproximateReceiveCount": str(count)},
    }
    if content.attributes:
        message["MessageAttributes"] = content.attributes
        message["MD5OfMessageAttributes"] = content.md5_of_attributes
    return message


def sent(ledger: Ledger, *, acknowledged: bool = True) -> int:
    number = ledger.send_asked(0, 0.0)
    if acknowledged:
        ledger.send_answered(number, answer_of(number), 0, 0.0)
    else:
        ledger.send_failed(number, 0, 0.0)
    return number


def kinds(ledger: Ledger) -> list[str]:
    return [violation.kind for violation in ledger.violations]


@contextmanager
def audit(ledger: Ledger, began_s: float = LATER_S) -> Iterator[None]:
    ledger.begin_audit()
    yield
    ledger.end_audit(began_s)


def test_an_acknowledged_message_that_is_found_is_in_order() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    with audit(ledger):
        ledger.delivered(message_of(number, 1), 1, LATER_S, LATER_S, auditing=True)
    assert kinds(ledger) == []
    assert ledger.tally["sends"] == 1


def test_an_acknowledged_message_that_is_not_found_is_lost() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    with audit(ledger):
        pass
    assert kinds(ledger) == ["lost"]
    assert f"message {number}, id id-{number}, acknowledged" in ledger.violations[0].text


def test_what_is_lost_and_comes_later_was_hidden_and_is_there_from_then_on() -> None:
    ledger = Ledger("cell")
    ledger.round = 7
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 0, 1.0, 1.0)
    with audit(ledger):
        pass
    assert (kinds(ledger), ledger.lost()) == (["lost"], [number])
    ledger.round = 8
    for count in (2, 3):
        ledger.delivered(message_of(number, count), 0, LATER_S + count, LATER_S + count)
    assert (kinds(ledger), ledger.lost()) == (["hidden"], [])
    assert ledger.violations[0].text == (
        f"cell, round 8: hidden: message {number}, id id-{number}, acknowledged in round 7,"
        " received [1], not found by the audit of round 7, came as number 2, 2.000 s after it began"
    )
    ledger.delivered(message_of(number, 3), 0, LATER_S + 4, LATER_S + 4)
    with audit(ledger, 2 * LATER_S):
        pass
    assert kinds(ledger) == ["hidden", "count", "lost"]


def test_what_is_lost_says_at_the_end_for_how_long_it_was_not_seen() -> None:
    ledger = Ledger("cell")
    sent(ledger)
    with audit(ledger):
        pass
    ledger.end(LATER_S + 25)
    assert kinds(ledger) == ["lost"]
    assert "not seen for 25 s, from the audit of round 0 to the end" in ledger.violations[0].text


def test_a_message_without_an_acknowledgement_may_be_stored_or_not_but_not_come_later() -> None:
    ledger = Ledger("cell")
    there, absent = sent(ledger, acknowledged=False), sent(ledger, acknowledged=False)
    with audit(ledger):
        ledger.delivered(message_of(there, 1), 0, LATER_S, LATER_S, auditing=True)
    assert kinds(ledger) == []
    ledger.delivered(message_of(absent, 1), 0, LATER_S + 1, LATER_S + 1)
    assert kinds(ledger) == ["hidden"]


def test_a_message_without_an_acknowledgement_that_was_seen_may_not_vanish() -> None:
    ledger = Ledger("cell")
    number = sent(ledger, acknowledged=False)
    with audit(ledger):
        ledger.delivered(message_of(number, 1), 0, LATER_S, LATER_S, auditing=True)
    with audit(ledger, 2 * LATER_S):
        pass
    assert kinds(ledger) == ["lost"]


def test_an_acknowledged_delete_is_final_for_receives_that_begin_later() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 0, 1.0, 1.0)
    ledger.delete_asked(number)
    ledger.delete_answered(number, 2.0)
    ledger.delivered(message_of(number, 2), 0, asked_s=1.9, answered_s=2.1)
    assert kinds(ledger) == []
    ledger.delivered(message_of(number, 2), 0, asked_s=2.1, answered_s=2.1)
    assert kinds(ledger) == ["resurrected"]
    assert "0.100 s after its delete was acknowledged" in ledger.violations[0].text
    # It is there again, and can be deleted again.
    ledger.delivered(message_of(number, 3), 0, asked_s=3.0, answered_s=3.0)
    ledger.delete_asked(number)
    ledger.delete_answered(number, 4.0)
    with audit(ledger):
        pass
    assert kinds(ledger) == ["resurrected"]


def test_a_delete_without_an_answer_leaves_both_open_until_an_audit_has_looked() -> None:
    ledger = Ledger("cell")
    gone, kept = sent(ledger), sent(ledger)
    for number in (gone, kept):
        ledger.delete_asked(number)
    with audit(ledger):
        ledger.delivered(message_of(kept, 1), 0, LATER_S, LATER_S, auditing=True)
    assert kinds(ledger) == []
    with audit(ledger, 2 * LATER_S):
        ledger.delivered(message_of(gone, 1), 0, 2 * LATER_S, 2 * LATER_S, auditing=True)
    assert kinds(ledger) == ["hidden", "lost"]
    assert "whose delete was not answered" in ledger.violations[0].text


def test_a_leased_message_may_neither_come_early_nor_be_missed_meanwhile() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 30, 1.0, 2.0)
    with audit(ledger, 32.0):
        pass
    assert kinds(ledger) == []
    ledger.delivered(message_of(number, 2), 0, 30.0, 30.9)
    assert kinds(ledger) == ["early"]


def test_a_delayed_message_may_not_come_early() -> None:
    ledger = Ledger("cell")
    number = ledger.send_asked(10, 5.0)
    ledger.send_answered(number, answer_of(number), 10, 6.0)
    ledger.delivered(message_of(number, 1), 0, 14.0, 14.9)
    assert kinds(ledger) == ["early"]


def test_a_change_of_visibility_moves_both_bounds() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 30, 1.0, 1.0)
    ledger.change_answered(ledger.change_asked(number, 0, 2.0), 2.1)
    ledger.delivered(message_of(number, 2), 30, 2.2, 2.2)
    ledger.change_answered(ledger.change_asked(number, 90, 3.0), 3.0)
    ledger.delivered(message_of(number, 3), 30, 80.0, 80.0)
    assert kinds(ledger) == ["early"]


def test_a_change_that_may_have_come_too_late_promises_nothing() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 30, 1.0, 1.0)
    ledger.change_answered(ledger.change_asked(number, 3600, 30.0), 31.0)
    ledger.delivered(message_of(number, 2), 30, 32.0, 32.0)
    assert kinds(ledger) == []
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 30, 1.0, 1.0)
    ledger.change_answered(ledger.change_asked(number, 3600, 30.0), 31.0)
    # Or it was in time, and keeps the message from audits for so long.
    with audit(ledger, 100.0):
        pass
    assert kinds(ledger) == []


@pytest.mark.parametrize("visibility_s", [0, 1])
def test_who_receives_what_a_change_made_visible_hides_it_whenever_the_change_is_noted(
    visibility_s: int,
) -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 30, 1.0, 1.0)
    change = ledger.change_asked(number, visibility_s, 2.0)
    # The client that changed it is held up before it notes the answer.
    ledger.delivered(message_of(number, 2), 30, 3.1, 3.2)
    ledger.change_answered(change, 3.3)
    with audit(ledger, 20.0):
        pass
    assert kinds(ledger) == []
    ledger.delivered(message_of(number, 3), 0, 40.0, 40.0)
    assert kinds(ledger) == []


def test_of_two_changes_the_one_that_is_noted_last_need_not_be_the_later_one() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 2, 1.0, 1.0)
    late = ledger.change_asked(number, 30, 2.0)
    ledger.delivered(message_of(number, 2), 30, 3.5, 3.5)
    change = ledger.change_asked(number, 1, 4.0)
    # It comes after the other one, and changes the lease that there is then.
    ledger.change_answered(late, 4.2)
    ledger.change_answered(change, 4.1)
    with audit(ledger, 20.0):
        pass
    assert kinds(ledger) == []


def test_a_change_that_was_refused_says_nothing_of_who_has_received_the_message_since() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 1, 1.0, 1.0)
    change = ledger.change_asked(number, 0, 1.5)
    ledger.delivered(message_of(number, 2), 30, 2.0, 2.0)
    assert ledger.change_refused(change, '{"__type":"...#MessageNotInflight"}', 2.1)
    with audit(ledger, 20.0):
        pass
    assert kinds(ledger) == []


def test_a_change_without_an_answer_leaves_the_longer_time_open() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 1, 1.0, 1.0)
    ledger.change_failed(ledger.change_asked(number, 3600, 1.5), 1.6)
    with audit(ledger, 10.0):
        pass
    assert kinds(ledger) == []
    assert ledger.settled_s() == 3601.6 + LATE_S_MAX


def test_a_change_without_an_answer_may_have_made_a_message_visible() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 30, 1.0, 1.0)
    ledger.change_failed(ledger.change_asked(number, 0, 2.0), 2.1)
    ledger.delivered(message_of(number, 2), 30, 3.0, 3.0)
    assert kinds(ledger) == []


def test_deliveries_may_be_noted_in_another_order_than_they_happened() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 2), 30, 5.0, 5.0)
    ledger.delivered(message_of(number, 1), 1, 3.0, 3.0)
    with audit(ledger, 10.0):
        pass
    assert kinds(ledger) == []


def test_a_receive_without_an_answer_excuses_what_it_may_have_leased_and_no_more() -> None:
    ledger = Ledger("cell")
    for _ in range(11):
        sent(ledger)
    ledger.receive_failed(11, 4, 10.0)
    with audit(ledger, 12.0):
        pass
    assert kinds(ledger) == []
    sent(ledger)
    with audit(ledger, 13.0):
        pass
    assert kinds(ledger) == ["lost"] * 12


def test_the_excuse_of_an_unanswered_receive_ends() -> None:
    ledger = Ledger("cell")
    sent(ledger)
    ledger.receive_failed(10, 4, 10.0)
    with audit(ledger, 14.1 + LATE_S_MAX):
        pass
    assert kinds(ledger) == ["lost"]


def test_a_receive_count_that_was_answered_before_shows_a_lost_lease() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 0, 1.0, 1.0)
    ledger.delivered(message_of(number, 1), 0, 2.0, 2.0)
    assert kinds(ledger) == ["count"]


def test_a_receive_count_below_one_that_was_answered_is_noticed_by_an_audit() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 3), 0, 1.0, 1.0)
    with audit(ledger):
        ledger.delivered(message_of(number, 2), 0, LATER_S, LATER_S, auditing=True)
    assert kinds(ledger) == ["count"]


def test_altered_and_foreign_messages_are_noticed() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1) | {"Body": f"{number:012d} other"}, 0, 1.0, 1.0)
    ledger.delivered(message_of(number + 1, 1), 0, 1.0, 1.0)
    ledger.delivered(message_of(number, 2) | {"Body": "garbage"}, 0, 1.0, 1.0)
    assert kinds(ledger) == ["altered"] * 3


def test_an_acknowledgement_with_other_digests_is_noticed() -> None:
    ledger = Ledger("cell")
    number = ledger.send_asked(0, 0.0)
    ledger.send_answered(number, answer_of(number) | {"MD5OfMessageBody": "other"}, 0, 0.0)
    assert kinds(ledger) == ["altered"]


def test_a_message_that_was_stored_twice_is_noticed() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1, "another-id"), 0, 1.0, 1.0)
    assert kinds(ledger) == ["duplicate"]


def test_a_message_not_in_flight_explains_a_refused_change_and_nothing_else_does() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    change = ledger.change_asked(number, 0, 4.0)
    assert ledger.change_refused(change, '{"__type":"...#MessageNotInflight"}', 5.0)
    told = '{"__type":"...#InvalidParameterValue","message":"...: The receipt handle has expired."}'
    assert ledger.change_refused(change, told, 5.0)
    assert not ledger.change_refused(change, '{"__type":"...#InvalidParameterValue"}', 5.0)
    ledger.delete_asked(number)
    assert ledger.change_refused(change, '{"__type":"...#InvalidParameterValue"}', 5.0)


def test_with_the_queue_every_stored_message_is_lost() -> None:
    ledger = Ledger("cell")
    sent(ledger)
    sent(ledger, acknowledged=False)
    ledger.queue_lost()
    assert kinds(ledger) == ["lost"]
    assert ledger.stored_count() == 0
