"""From which size on a body costs less in a blob store than in DynamoDB: the default threshold.

docs/cost.md has the arithmetic in words.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Final

WRITE_UNIT_BYTES: Final = 1024
READ_UNIT_BYTES: Final = 4096

READS: Final = 2
"""How often a segment is read with its item: when it is found, and when its slice has settled."""


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million of each.

    A write unit is up to 1 KB written, a read unit up to 4 KB read strongly consistent.
    """

    write_unit: Decimal
    read_unit: Decimal
    blob_put: Decimal
    blob_get: Decimal


US_EAST_1: Final = Prices(
    write_unit=Decimal("0.625"),
    read_unit=Decimal("0.125"),
    blob_put=Decimal("5.00"),
    blob_get=Decimal("0.40"),
)
"""DynamoDB on demand and S3 Standard, as of November 2024; check them against the price lists."""


def break_even_bytes(prices: Prices, *, reads: int = READS) -> int:
    """The packed size above which a body, sent once and received once, costs less apart.

    To the nearest write unit, because DynamoDB counts whole ones.
    """
    in_item = prices.write_unit / WRITE_UNIT_BYTES + reads * prices.read_unit / READ_UNIT_BYTES
    apart = prices.blob_put + prices.blob_get
    return round(apart / in_item / WRITE_UNIT_BYTES) * WRITE_UNIT_BYTES
