import json
import re
from importlib.resources import files
from typing import Any

import pytest

from data_plane.core.partitions import AWS, PARTITIONS, arn_of, partition_of, without_partition

BOTOCORE: dict[str, Any] = {
    one["id"]: one
    for one in json.loads(files("botocore").joinpath("data/partitions.json").read_text())[
        "partitions"
    ]
}


def test_the_table_is_that_of_botocore() -> None:
    assert {AWS, *PARTITIONS} == set(BOTOCORE)
    for name, partition in BOTOCORE.items():
        for region in partition["regions"]:
            if not region.startswith("aws"):  # aws-global and its like are no regions
                assert partition_of(region) == name
        if name != AWS:
            # The very expression, but for its ends and for what it escapes.
            written = partition["regionRegex"].removeprefix("^").removesuffix("$")
            assert PARTITIONS[name] == written.replace("\\-", "-").replace("(de)", "de")


@pytest.mark.parametrize(
    "region", ["xx-nowhere-1", "cn", "cn-north", "us-gov", "local", "eu-west-1"]
)
def test_a_region_that_nobody_knows_is_of_aws(region: str) -> None:
    assert partition_of(region) == AWS


def test_arns() -> None:
    assert arn_of("sqs", "cn-north-1", "1", "q") == "arn:aws-cn:sqs:cn-north-1:1:q"
    assert arn_of("sqs", "us-east-1", "1", "q") == "arn:aws:sqs:us-east-1:1:q"


def test_an_arn_as_it_was_before() -> None:
    assert without_partition("arn:aws-us-gov:iam::1:root") == "arn:aws:iam::1:root"
    for other in ("arn:aws:iam::1:root", "arn:other:iam::1:root", "x", "arn:aws-cn", ""):
        assert without_partition(other) == other
    assert re.match(r"arn:aws:", without_partition("arn:aws-cn:sqs:arn:aws-cn:x"))
