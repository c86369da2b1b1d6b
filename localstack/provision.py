"""Make what Tidegate stands on where AWS's APIs are served locally: table, bucket, key.

The table is the one that the code describes; a second run changes nothing. It runs as a program, in
LocalStack's own Python, too: it needs boto3 and this folder alone.
"""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import boto3
from botocore.config import Config

sys.path.append(str(Path(__file__).resolve().parents[1]))

from data_plane.dynamodb.tables import cell_table, time_to_live

TABLE: Final = "tidegate"
BUCKET: Final = "tidegate-bodies"
KEY: Final = "alias/tidegate"
REGION: Final = "us-east-1"
ENDPOINT: Final = "http://127.0.0.1:4566"

_LIVES_FOREVER: Final = "DISABLED"


def provision(endpoint: str) -> None:
    """Make what is missing. Raises what boto3 does."""
    _make_table(_client("dynamodb", endpoint))
    buckets = _client("s3", endpoint)
    if BUCKET not in [bucket["Name"] for bucket in buckets.list_buckets()["Buckets"]]:
        buckets.create_bucket(Bucket=BUCKET)
    _make_key(_client("kms", endpoint))


def serve_options(endpoint: str) -> tuple[str, ...]:
    """Options of `tidegate serve` for what is made here."""
    return (
        *("--cell", "dynamodb", "--endpoint", endpoint, "--region", REGION, "--table", TABLE),
        *("--blobs", f"s3://{BUCKET}", "--kms-key", KEY, "--kms-endpoint", endpoint),
    )


def _make_table(tables: Any) -> None:
    with suppress(tables.exceptions.ResourceInUseException):
        tables.create_table(**cell_table(TABLE))
    tables.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1})
    described = tables.describe_time_to_live(TableName=TABLE)["TimeToLiveDescription"]
    if described["TimeToLiveStatus"] == _LIVES_FOREVER:
        tables.update_time_to_live(**time_to_live(TABLE))


def _make_key(keys: Any) -> None:
    try:
        keys.describe_key(KeyId=KEY)
    except keys.exceptions.NotFoundException:
        made = keys.create_key(Description="What Tidegate stores is sealed under it")
        keys.create_alias(AliasName=KEY, TargetKeyId=made["KeyMetadata"]["KeyId"])


def _client(service: Any, endpoint: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106 - emulators take any
        config=Config(s3={"addressing_style": "path"}),
    )


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else ENDPOINT
    provision(where)
    print(f"table {TABLE}, bucket {BUCKET} and key {KEY} are at {where}")
