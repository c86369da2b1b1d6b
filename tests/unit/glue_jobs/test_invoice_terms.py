"""Invoices to the cent: rounding, credits, tax, dates and numbers."""

from decimal import Decimal

import pytest

from glue_jobs.currencies import places_of, rounded
from glue_jobs.invoice_terms import (
    NO_TAX,
    CreditUsed,
    Invoice,
    Tax,
    credits_used,
    dates_of,
    invoice_of,
    last_number,
    numbers_of,
    tax_of,
)

VAT = Tax("VAT", Decimal("0.19"))


def made(usage: str, correction: str = "0", currency: str = "EUR", tax: Tax = VAT) -> Invoice:
    said = ("acme", "2026-11", currency, tax)
    return invoice_of(*said, usage_cost=Decimal(usage), correction_cost=Decimal(correction))


@pytest.mark.parametrize(
    ("usage", "currency", "net", "tax", "payable"),
    [
        ("10.005", "EUR", "10.01", "1.90", "11.91"),
        ("0.0049999999999999999", "EUR", "0.00", "0.00", "0.00"),
        ("2.50", "JPY", "3", "1", "4"),
        ("9999999999999999.9950000000000000001", "EUR", *["10000000000000000.00"],
         "1900000000000000.00", "11900000000000000.00"),
    ],
)  # fmt: skip
def test_an_amount_is_rounded_once_and_so_is_its_tax(
    usage: str, currency: str, net: str, tax: str, payable: str
) -> None:
    its = made(usage, currency=currency)
    assert (str(its.net), str(its.tax_cost), str(its.payable)) == (net, tax, payable)


def test_what_is_paid_back_is_a_credit_note() -> None:
    its = made("1.00", "-3.005")
    assert (its.kind, its.payable) == ("credit note", Decimal("-2.39"))
    assert made("0").kind == "invoice"


def test_lines_add_up_to_what_is_to_be_paid() -> None:
    for count in range(1, 501):
        usage = Decimal(7919**count % 10**24).scaleb(-19)
        correction = Decimal(7907**count % 10**24 - 10**24 // 2).scaleb(-19)
        left = [CreditUsed(id_, Decimal(104729 * count % 9973) / 10, "") for id_ in "cd"]
        its = invoice_of(
            *("a", "2026-11", "EUR", VAT),
            usage_cost=usage,
            correction_cost=correction,
            credits_left=left,
        )
        lines = usage + correction + its.rounding + its.credit_cost + its.tax_cost
        assert lines == its.payable == rounded(its.payable, "EUR")
        assert abs(its.rounding) <= Decimal("0.005")
        taken = {one.id: one.amount for one in its.credits}
        assert all(taken.get(one.id, 0) <= one.amount for one in left)
        charges = max(Decimal(0), rounded(usage + correction, "EUR"))
        assert -its.credit_cost == min(charges, sum(one.amount for one in left))


def test_numbers_go_on_without_a_gap() -> None:
    closed: list[dict[str, object]] = [{}, {"numbering": {"seller": "other", "last": 90}}]
    assert last_number(closed, "tide") == 0
    first = numbers_of("TG-", 0, ["b-2026-11", "a-2026-11"])
    assert first == {"a-2026-11": "TG-000001", "b-2026-11": "TG-000002"}
    closed.append({"numbering": {"seller": "tide", "last": 2}})
    assert numbers_of("TG-", last_number(closed, "tide"), ["x"]) == {"x": "TG-000003"}


def test_credits_are_used_up_over_months() -> None:
    closed = [{"credits_used": {"c": "2.50"}}, {}, {"credits_used": {"c": "1", "d": "3"}}]
    assert credits_used(closed) == {"c": Decimal("3.50"), "d": Decimal(3)}


def test_dates_and_currencies() -> None:
    assert dates_of("2026-12", 4, 30) == ("2026-12-04", "2027-01-03")
    assert [places_of(its) for its in ("USD", "EUR", "JPY")] == [2, 2, 0]
    for wrong in ("KWD", "XX", "usd"):
        with pytest.raises(ValueError, match=wrong):
            places_of(wrong)
    assert tax_of({"name": "VAT", "rate": "0.2"}) == Tax("VAT", Decimal("0.2"))
    assert made("1", tax=NO_TAX).payable == 1
