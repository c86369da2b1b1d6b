import re
from decimal import Decimal

import pytest

from control_plane.core.price_list import PRICES, Price
from data_plane.blobs.prices import US_EAST_1

TIERED = Price(
    "million",
    ((Decimal(0), Decimal(4)), (Decimal(100), Decimal(3)), (Decimal(300), Decimal(1))),
    "somewhere",
)


@pytest.mark.parametrize(
    ("amount", "usd"), [(0, 0), (1, 4), (100, 400), (101, 403), (300, 1_000), (310, 1_010)]
)
def test_each_part_has_the_price_of_its_tier(amount: int, usd: int) -> None:
    assert TIERED.of(Decimal(amount)) == usd


def test_every_price_says_what_for_whence_and_since_when() -> None:
    for name, price in PRICES.items():
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", price.since), name
        assert price.source.startswith("aws.amazon.com/"), name
        assert price.unit, name
        starts = [start for start, _ in price.tiers]
        assert starts[0] == 0, name
        assert starts == sorted(set(starts)), name
        usds = [usd for _, usd in price.tiers]
        assert usds == sorted(usds, reverse=True), name


def test_the_threshold_of_bodies_rests_on_the_same_prices() -> None:
    names = ("write unit", "read unit", "object put", "object get")
    assert tuple(PRICES[name].first for name in names) == (
        US_EAST_1.write_unit,
        US_EAST_1.read_unit,
        US_EAST_1.blob_put,
        US_EAST_1.blob_get,
    )
