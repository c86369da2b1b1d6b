"""A client with its limits, and the table of a cell: found, or made.

These calls block; they are for the start of a process.
"""

import ipaddress
import logging
import re
from typing import Any, Final
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    WaiterError,
)
from botocore.exceptions import ConnectionError as NoConnectionError

from data_plane.dynamodb.requests import DamagedAnswerError, check_answer
from data_plane.dynamodb.tables import PARTITION, SORT, cell_table, time_to_live

CONNECT_TIMEOUT_S: Final = 1.0
READ_TIMEOUT_S: Final = 2.0

_START_ATTEMPTS: Final = 3
_ACTIVE_WITHIN_S: Final = 120
_PLACEHOLDER: Final = "placeholder"
_TABLE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")

LOG: Final = logging.getLogger(__name__)


class OpenError(Exception):
    """The cell cannot be opened; `setting` is the one to look at, the reason is one line."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {' '.join(reason.split())}")
        self.setting = setting


def is_table_name(name: str) -> bool:
    """Whether DynamoDB takes the name for a table."""
    return _TABLE_NAME.fullmatch(name) is not None


def connect(
    endpoint: str,
    region: str,
    *,
    connections_max: int,
    attempts: int = 1,
    read_timeout_s: float = READ_TIMEOUT_S,
) -> Any:
    """A client of DynamoDB at the endpoint ("": AWS's own in the region), which checks answers.

    Credentials are found where SDKs look for them. Emulators take any: for an endpoint on this
    machine placeholders do where there are none. Raises OpenError.
    """
    try:
        session = boto3.session.Session(region_name=region)
        if session.get_credentials() is None:
            if not _is_on_this_machine(endpoint):
                raise OpenError("cell", "no AWS credentials were found for dynamodb")
            session = boto3.session.Session(_PLACEHOLDER, _PLACEHOLDER, region_name=region)
        client = session.client(
            "dynamodb",
            endpoint_url=endpoint or None,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=read_timeout_s,
                max_pool_connections=connections_max,
                tcp_keepalive=True,
                parameter_validation=False,
            ),
        )
    except ProfileNotFound as error:
        raise OpenError("cell", str(error)) from error
    except (BotoCoreError, ValueError) as error:
        raise OpenError("endpoint", f"cannot use {endpoint!r}: {error}") from error
    client.meta.events.register("before-parse.dynamodb", check_answer)
    return client


def open_table(endpoint: str, region: str, table: str) -> None:
    """See that the table is there and usable; make it if it is missing. Raises OpenError."""
    client = connect(endpoint, region, connections_max=1, attempts=_START_ATTEMPTS)
    where = client.meta.endpoint_url
    try:
        _check(_find_or_make(client, table, where), table)
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise OpenError("cell", f"no AWS credentials for dynamodb: {error}") from error
    except (NoConnectionError, HTTPClientError) as error:
        raise OpenError("endpoint", f"no DynamoDB answers at {where}: {error}") from error
    except DamagedAnswerError as error:
        raise OpenError("endpoint", f"{where} is no DynamoDB: {error}") from error
    except ClientError as error:
        code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        if code.isdecimal():
            raise OpenError("endpoint", f"{where} is no DynamoDB: it answers {code}") from error
        raise OpenError("table", f"cannot use {table!r}: {code}: {message}") from error
    except (BotoCoreError, WaiterError) as error:
        raise OpenError("table", f"cannot use {table!r}: {error}") from error
    finally:
        client.close()


def make_table(client: Any, table: str) -> None:
    """Make the table, with its time to live, and wait until it is there; a second time is harmless.

    Raises what boto3 does.
    """
    try:
        client.create_table(**cell_table(table))
    except client.exceptions.ResourceInUseException:
        LOG.info("another process makes the table %s", table)
    client.get_waiter("table_exists").wait(
        TableName=table, WaiterConfig={"Delay": 1, "MaxAttempts": _ACTIVE_WITHIN_S}
    )
    described = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    if described["TimeToLiveStatus"] == "DISABLED":
        client.update_time_to_live(**time_to_live(table))


def _find_or_make(client: Any, table: str, where: str) -> dict[str, Any]:
    """The table's description, once it is active."""
    try:
        described: dict[str, Any] = client.describe_table(TableName=table)["Table"]
        if described["TableStatus"] == "ACTIVE":
            return described
    except client.exceptions.ResourceNotFoundException:
        LOG.info("making the table %s, billed on demand, at %s", table, where)
    make_table(client, table)
    made: dict[str, Any] = client.describe_table(TableName=table)["Table"]
    return made


def _check(described: dict[str, Any], table: str) -> None:
    """Refuse a table that was made for something else."""
    wanted = cell_table(table)
    keys = {key["AttributeName"]: key["KeyType"] for key in described["KeySchema"]}
    types = {a["AttributeName"]: a["AttributeType"] for a in described["AttributeDefinitions"]}
    if keys != {key["AttributeName"]: key["KeyType"] for key in wanted["KeySchema"]} or any(
        types.get(a["AttributeName"]) != a["AttributeType"] for a in wanted["AttributeDefinitions"]
    ):
        raise OpenError(
            "table", f"{table!r} is another table: a cell's has the keys {PARTITION} and {SORT}"
        )


def _is_on_this_machine(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
