"""AWS's partitions: what stands behind `arn:` in the name of a resource, by its region.

Source: botocore's `partitions.json`; a test holds the table to it.
"""

import re
from functools import lru_cache
from typing import Final

AWS: Final = "aws"
"""The partition of most regions, and of those that nobody knows."""

PARTITIONS: Final = {
    "aws-cn": r"cn-\w+-\d+",
    "aws-eusc": r"eusc-de-\w+-\d+",
    "aws-iso": r"us-iso-\w+-\d+",
    "aws-iso-b": r"us-isob-\w+-\d+",
    "aws-iso-e": r"eu-isoe-\w+-\d+",
    "aws-iso-f": r"us-isof-\w+-\d+",
    "aws-us-gov": r"us-gov-\w+-\d+",
}
"""The others: which regions they have."""

_REGIONS_KEPT: Final = 256
_of_another: Final = re.compile(rf"arn:({'|'.join(PARTITIONS)}):")


@lru_cache(maxsize=_REGIONS_KEPT)
def partition_of(region: str) -> str:
    """The partition that a region belongs to."""
    for name, regions in PARTITIONS.items():
        if re.fullmatch(regions, region):
            return name
    return AWS


def arn_of(service: str, region: str, account: str, resource: str) -> str:
    """The Amazon Resource Name of what a service has in a region."""
    return f"arn:{partition_of(region)}:{service}:{region}:{account}:{resource}"


def without_partition(arn: str) -> str:
    """The ARN as if its partition were `aws`: so all were written before 0.2."""
    return _of_another.sub(f"arn:{AWS}:", arn, count=1) if _of_another.match(arn) else arn
