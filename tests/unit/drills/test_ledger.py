"""The books of a drill: honest histories are in order, each kind of broken promise is noticed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


def test_a_message_without_an_acknowledgement_may_be_stored_or_not_but_not_come_later() -> None:
    ledger = Ledger("cell")
    there, absent = sent(ledger, acknowledged=False), sent(ledger, acknowledged=False)
    with audit(ledger):
        ledger.delivered(message_of(there, 1), 0, LATER_S, LATER_S, auditing=True)
    assert kinds(ledger) == []
    ledger.delivered(message_of(absent, 1), 0, LATER_S + 1, LATER_S + 1)
    assert kinds(ledger) == ["resurrected"]


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
    assert kinds(ledger) == ["resurrected", "lost"]


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
    ledger.change_asked(number, 0, 2.0)
    ledger.change_answered(number, 0, 2.0, 2.1)
    ledger.delivered(message_of(number, 2), 30, 2.2, 2.2)
    ledger.change_asked(number, 90, 3.0)
    ledger.change_answered(number, 90, 3.0, 3.0)
    ledger.delivered(message_of(number, 3), 30, 80.0, 80.0)
    assert kinds(ledger) == ["early"]


def test_a_change_that_may_have_come_too_late_promises_nothing() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 30, 1.0, 1.0)
    ledger.change_asked(number, 3600, 30.0)
    ledger.change_answered(number, 3600, 30.0, 31.0)
    ledger.delivered(message_of(number, 2), 30, 32.0, 32.0)
    assert kinds(ledger) == []
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 30, 1.0, 1.0)
    ledger.change_asked(number, 3600, 30.0)
    ledger.change_answered(number, 3600, 30.0, 31.0)
    # Or it was in time, and keeps the message from audits for so long.
    with audit(ledger, 100.0):
        pass
    assert kinds(ledger) == []


def test_a_change_without_an_answer_leaves_the_longer_time_open() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 1, 1.0, 1.0)
    ledger.change_asked(number, 3600, 1.5)
    ledger.change_failed(number, 3600, 1.6)
    with audit(ledger, 10.0):
        pass
    assert kinds(ledger) == []
    assert ledger.settled_s() == 3601.6 + LATE_S_MAX


def test_a_change_without_an_answer_may_have_made_a_message_visible() -> None:
    ledger = Ledger("cell")
    number = sent(ledger)
    ledger.delivered(message_of(number, 1), 30, 1.0, 1.0)
    ledger.change_asked(number, 0, 2.0)
    ledger.change_failed(number, 0, 2.1)
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
    assert ledger.change_refused(number, '{"__type":"...#MessageNotInflight"}', 5.0)
    assert not ledger.change_refused(number, '{"__type":"...#InvalidParameterValue"}', 5.0)
    ledger.delete_asked(number)
    assert ledger.change_refused(number, '{"__type":"...#InvalidParameterValue"}', 5.0)


def test_with_the_queue_every_stored_message_is_lost() -> None:
    ledger = Ledger("cell")
    sent(ledger)
    sent(ledger, acknowledged=False)
    ledger.queue_lost()
    assert kinds(ledger) == ["lost"]
    assert ledger.stored_count() == 0
