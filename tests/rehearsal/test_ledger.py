"""Each violation is found in a ledger that has it, and none in one that is well."""

from collections.abc import Callable

import pytest

from tests.rehearsal.ledger import UNAVAILABLE, Delivery, Failure, Held, Ledger, violations

FINAL_S = 100.0
ANSWER_S_MAX = 10.0


def delivery(body: str, count: int, asked_s: float) -> Delivery:
    return Delivery(body, count, "handle", asked_s, asked_s + 1)


def well() -> Ledger:
    """Three messages: one was deleted, one was hidden for a while, one waited. And a tag."""
    ledger = Ledger(
        sent={"a": "id-a", "b": "id-b", "c": "id-c"},
        tried={"a", "b", "c", "unsure"},
        deleted_s={"id-a": 20.0},
        deletes_tried={"id-a"},
        held={"id-b": Held("handle", 20.0)},
        released_s=110.0,
        tags={"tag"},
        tags_found={"tag", "unsure"},
        slowest_s=9.0,
    )
    ledger.failures[Failure("send_message", *UNAVAILABLE)] = 3
    ledger.failures[
        Failure("change_message_visibility", "AWS.SimpleQueueService.MessageNotInflight", 400)
    ] = 1
    ledger.deliveries["id-a"] = [delivery("a", 1, 10.0), delivery("a", 3, 19.0)]
    ledger.deliveries["id-b"] = [delivery("b", 1, 10.0), delivery("b", 2, 120.0)]
    ledger.deliveries["id-c"] = [delivery("c", 1, 101.0)]
    return ledger


def found_in(ledger: Ledger) -> set[str]:
    return {line.partition(":")[0] for line in violations(ledger, FINAL_S, ANSWER_S_MAX)}


def test_a_ledger_that_is_well() -> None:
    assert found_in(well()) == set()


SPOILT: dict[str, Callable[[Ledger], object]] = {
    "lost": lambda ledger: ledger.deliveries.pop("id-c"),
    "undeleted": lambda ledger: ledger.deliveries["id-a"].append(delivery("a", 4, 20.5)),
    "unhidden": lambda ledger: ledger.deliveries["id-b"].append(delivery("b", 3, 30.0)),
    "twice": lambda ledger: ledger.deliveries["id-d"].append(delivery("c", 1, 101.0)),
    "garbage": lambda ledger: ledger.deliveries["id-d"].append(delivery("\x00", 1, 101.0)),
    "receive counts": lambda ledger: ledger.deliveries["id-c"].append(delivery("c", 1, 105.0)),
    "forgotten": lambda ledger: ledger.tags_found.clear(),
    "failure": lambda ledger: ledger.failures.update(
        [Failure("send_message", "InternalFailure", 500)]
    ),
    "slow": lambda ledger: setattr(ledger, "slowest_s", 10.1),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_what_is_wrong_is_found(kind: str) -> None:
    ledger = well()
    SPOILT[kind](ledger)
    assert found_in(ledger) == {kind}


@pytest.mark.parametrize(
    "failure",
    [
        Failure("send_message", "ReadTimeoutError", 0),
        Failure("send_message", "ServiceUnavailable", 200),
        Failure("send_message_batch", "InternalFailure", 200),
        Failure("receive_message", "AWS.SimpleQueueService.MessageNotInflight", 400),
    ],
)
def test_other_failures_are_not_fair(failure: Failure) -> None:
    ledger = well()
    ledger.failures[failure] = 1
    assert found_in(ledger) == {"failure"}
