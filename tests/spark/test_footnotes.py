"""What a statement says of prices is what the price book says."""

import json
from typing import Any

from glue_jobs.footnotes import THROTTLED, footnotes, notes
from glue_jobs.price_book import BOOKS, PriceBook, read_book


def book(**changes: Any) -> PriceBook:
    said = json.loads((BOOKS / "2026-01.json").read_bytes()) | changes
    return read_book(json.dumps(said).encode(), "b.json")


def test_the_books_own_rules_are_told() -> None:
    assert footnotes(book())[1:] == [
        (
            "The first 1,000,000 units a month of Requests, standard queues and Requests, FIFO"
            " queues together cost nothing."
        ),
        (
            "Requests that failed by the service's fault, answered with AccessDenied,"
            " RequestThrottled or SignatureDoesNotMatch, of no known operation or of operations"
            " whose names begin with Tidegate or kinesis: cost nothing. Others that were refused"
            " cost the same."
        ),
        "All usage of an account's month has its share of free quantity and tiers.",
    ]


def test_another_book_has_other_footnotes() -> None:
    unbilled = {"statuses": ["4xx", "5xx"], "codes": [], "operations": ["ListQueues"]}
    other = book(free={"quantity": 1, "skus": ["storage"]}, unbilled=unbilled, spread="in order")
    assert footnotes(other)[1:] == [
        "The first unit a month of Messages stored costs nothing.",
        (
            "Requests that were refused, that failed by the service's fault or of the operation"
            " ListQueues cost nothing."
        ),
        "Usage has its place in free quantity and tiers by the hour: what came first counts first.",
    ]
    nothing = book(unbilled={"statuses": [], "codes": [], "operations": []})
    assert "All requests cost what the price says, those that were refused or failed, too." in (
        footnotes(nothing)
    )


def test_what_costs_nothing_is_said_beside_its_count() -> None:
    assert notes(book()) == {"throttled": "RequestThrottled not charged", "failed": "not charged"}
    free = book(unbilled={"statuses": [], "codes": list(THROTTLED), "operations": []})
    assert notes(free) == {"throttled": "not charged", "failed": ""}
    nothing = book(unbilled={"statuses": [], "codes": [], "operations": []})
    assert notes(nothing) == {"throttled": "", "failed": ""}
