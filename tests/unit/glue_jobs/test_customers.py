"""A customers file is checked before anything is billed by it."""

import json
from decimal import Decimal
from typing import Any

import pytest

from glue_jobs.arguments import JobError
from glue_jobs.customers import SCHEMA, read_customers

A, B = "111122223333", "222233334444"
SAID: dict[str, Any] = {
    "schema": SCHEMA,
    "seller": {"id": "tide", "name": "Tide GmbH", "address": ["Kai 1"], "prefix": "TG-"},
    "customers": {"acme": {"name": "ACMÉ", "accounts": [A, B], "discounts": {"*": "0.1"}}},
    "credits": [
        {"id": "c", "customer": "acme", "amount": "5.00", "from": "2026-11", "reason": "Outage"}
    ],
}


def changed(path: str, value: Any) -> bytes:
    said = json.loads(json.dumps(SAID))
    *folders, name = path.split("/")
    at = said
    for folder in folders:
        at = at[int(folder)] if folder.isdecimal() else at[folder]
    at[name] = value
    return json.dumps(said).encode()


def test_a_file_says_who_sells_who_pays_and_on_what_terms() -> None:
    its = read_customers(json.dumps(SAID).encode(), "c.json")
    assert its.payers() == {A: "acme", B: "acme"}
    assert its.of["acme"].discount("anything") == Decimal("0.1")
    assert (its.seller.party.name, its.seller.issue_day, its.seller.due_days) == (
        *("Tide GmbH", 1, 30),
    )
    (credit,) = its.credits
    assert (credit.covers("2026-10"), credit.covers("2031-01")) == (False, True)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema", "x", "its schema is not tidegate.customers/1"),
        ("seller", {}, "no 'id'"),
        ("seller/prefix", "a b", "prefix 'a b' is not of at most 16"),
        ("seller/issue_day", 29, "issue_day 29 is no whole number from 1 to 28"),
        ("customers/acme/accounts", ["1"], "'1' is no account id of 12 digits"),
        ("customers/b", {"name": "B", "accounts": [A]}, f"acme and b both pay for {A}"),
        ("customers/B", {"name": "B", "accounts": []}, "'B' is no id"),
        ("customers/acme/discounts", {"*": "1.5"}, "1.5 is no share from 0 to 1"),
        ("customers/acme/discounts", {"*": 0.5}, "0.5 is no number in text"),
        ("customers/acme/tax", {"name": "VAT", "rate": "2"}, "'2' is no rate from 0 to 1"),
        ("customers/acme/address", "here", "acme: its address is no list of lines"),
        ("credits/0/customer", "nobody", "credit c: there is no customer 'nobody'"),
        ("credits/0/amount", "0.001", "0.001 has more than 2 places"),
        ("credits/0/amount", "-1", "credit c: its amount is not above 0"),
        ("credits/0/from", "2026", "'2026' is no period, YYYY-MM"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(path: str, value: Any, said: str) -> None:
    with pytest.raises(JobError) as error:
        read_customers(changed(path, value), "c.json")
    assert str(error.value).startswith("customers c.json: ")
    assert said in str(error.value)
