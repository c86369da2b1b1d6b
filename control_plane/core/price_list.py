"""What AWS charges, with the day and the place of each price: the one table of dollars.

US dollars in us-east-1, on demand, without taxes, free tiers and commitments. The prices were
copied by hand on `READ_ON` from the places they name and from public copies of those; nothing
fetches them. Check them before you decide by them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from data_plane.blobs.prices import US_EAST_1

REGION: Final = "us-east-1"
READ_ON: Final = "2026-11-21"
HOURS_A_MONTH: Final = 730
SECONDS_A_MONTH: Final = HOURS_A_MONTH * 3_600
MILLION: Final = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars for one `unit`, by how much a month brings: pairs of an amount and the price from it.

    `since` is the day from which the price has held, or on which it was read.
    """

    unit: str
    tiers: tuple[tuple[Decimal, Decimal], ...]
    source: str
    since: str = READ_ON

    def of(self, amount: Decimal) -> Decimal:
        """Dollars for a month's amount, each part of it at the price of its tier."""
        ends = [start for start, _ in self.tiers[1:]] + [amount]
        return sum(
            (
                (min(end, amount) - start) * usd
                for (start, usd), end in zip(self.tiers, ends, strict=True)
                if amount > start
            ),
            Decimal(0),
        )

    @property
    def first(self) -> Decimal:
        """Dollars for a unit of the first tier."""
        return self.tiers[0][1]


def _price(unit: str, usd: str, source: str, since: str = READ_ON) -> Price:
    return Price(unit, ((Decimal(0), Decimal(usd)),), source, since)


def _tiered(unit: str, source: str, *tiers: tuple[int, str]) -> Price:
    """Tiers by the amount, in units, from which each holds."""
    table = tuple((Decimal(start), Decimal(usd)) for start, usd in tiers)
    if any(earlier[0] >= later[0] for earlier, later in pairwise(table)):
        raise ValueError("tiers must grow")
    return Price(unit, table, source)


_DYNAMODB: Final = "aws.amazon.com/dynamodb/pricing/on-demand"
_S3: Final = "aws.amazon.com/s3/pricing"
_LAMBDA: Final = "aws.amazon.com/lambda/pricing"
_SQS: Final = "aws.amazon.com/sqs/pricing"
_FARGATE: Final = "aws.amazon.com/fargate/pricing"
_BALANCER: Final = "aws.amazon.com/elasticloadbalancing/pricing"
_STEP_FUNCTIONS: Final = "aws.amazon.com/step-functions/pricing"
_CLOUDWATCH: Final = "aws.amazon.com/cloudwatch/pricing"
_ROUTE_53: Final = "aws.amazon.com/route53/pricing"

PRICES: Final[Mapping[str, Price]] = MappingProxyType(
    {
        "write unit": _price("million", str(US_EAST_1.write_unit), _DYNAMODB, "2024-11-01"),
        "read unit": _price("million", str(US_EAST_1.read_unit), _DYNAMODB, "2024-11-01"),
        "table storage": _price("GB and month", "0.25", _DYNAMODB),
        "point-in-time recovery": _price("GB and month", "0.20", _DYNAMODB),
        "object put": _price("million", str(US_EAST_1.blob_put), _S3),
        "object get": _price("million", str(US_EAST_1.blob_get), _S3),
        "object storage": _price("GB and month", "0.023", _S3),
        "lambda request": _price("million", "0.20", _LAMBDA),
        "lambda arm64": _tiered(
            "GB-second",
            _LAMBDA,
            (0, "0.0000133334"),
            (7_500_000_000, "0.0000120001"),
            (18_750_000_000, "0.0000106667"),
        ),
        "lambda x86_64": _tiered(
            "GB-second",
            _LAMBDA,
            (0, "0.0000166667"),
            (6_000_000_000, "0.000015"),
            (15_000_000_000, "0.0000133334"),
        ),
        "rest request": _tiered(
            "million",
            "aws.amazon.com/api-gateway/pricing",
            (0, "3.50"),
            (333, "2.80"),
            (1_000, "2.38"),
            (20_000, "1.51"),
        ),
        "log ingestion": _price("GB", "0.50", _CLOUDWATCH),
        "metric": _price("metric and month", "0.30", _CLOUDWATCH),
        "alarm": _price("metric of an alarm and month", "0.10", _CLOUDWATCH),
        "kms key": _price("key and month", "1.00", "aws.amazon.com/kms/pricing"),
        "state transition": _price("million", "25.00", _STEP_FUNCTIONS),
        "express request": _price("million", "1.00", _STEP_FUNCTIONS),
        "express time": _tiered(
            "GB-second",
            _STEP_FUNCTIONS,
            (0, "0.00001667"),
            (3_600_000, "0.00000833"),
            (18_000_000, "0.00000456"),
        ),
        "fargate vcpu": _price("vCPU-hour", "0.03238", _FARGATE),
        "fargate memory": _price("GB-hour", "0.00356", _FARGATE),
        "instance": _price("hour of m7g.large", "0.0816", "aws.amazon.com/ec2/pricing/on-demand"),
        "volume": _price("GB and month of gp3", "0.08", "aws.amazon.com/ebs/pricing"),
        "balancer": _price("hour", "0.0225", _BALANCER),
        "balancer capacity": _price("LCU-hour", "0.008", _BALANCER),
        "hosted zone": _price("zone and month", "0.50", _ROUTE_53),
        "health check": _price("check and month", "1.50", _ROUTE_53),
        "transfer out": _price("GB", "0.09", "aws.amazon.com/ec2/pricing/on-demand"),
        "transfer between zones": _price("GB", "0.01", "aws.amazon.com/ec2/pricing/on-demand"),
        "sqs standard": _tiered("million", _SQS, (0, "0.40"), (100_000, "0.30"), (200_000, "0.24")),
        "sqs fifo": _tiered("million", _SQS, (0, "0.50"), (100_000, "0.40"), (200_000, "0.35")),
    }
)
"""By name. The health check is that of an AWS endpoint (0.50) over HTTPS (1.00 more)."""
