"""The default threshold follows from prices."""

from dataclasses import replace
from decimal import Decimal

import pytest

from data_plane.blobs.prices import US_EAST_1, break_even_bytes
from data_plane.stored.bounds import BLOB_THRESHOLD_BYTES


@pytest.mark.parametrize("reads", [1, 2])
def test_the_default_threshold_is_the_break_even(reads: int) -> None:
    assert break_even_bytes(US_EAST_1, reads=reads) == BLOB_THRESHOLD_BYTES


def test_at_the_break_even_both_cost_about_the_same() -> None:
    units = break_even_bytes(US_EAST_1) // 1024
    in_item = units * US_EAST_1.write_unit + 2 * units * US_EAST_1.read_unit / 4
    apart = US_EAST_1.blob_put + US_EAST_1.blob_get
    assert abs(in_item - apart) < US_EAST_1.write_unit


def test_capacity_that_is_paid_by_the_hour_moves_it_up() -> None:
    # USD 0.00065 for an hour of a write unit a second, used to 70 %; reads a fifth of that.
    write_unit = Decimal("0.00065") / (3600 * Decimal("0.7")) * 1_000_000
    provisioned = replace(US_EAST_1, write_unit=write_unit, read_unit=write_unit / 5)
    assert break_even_bytes(provisioned) == 19 * 1024
