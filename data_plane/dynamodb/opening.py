"""A client with its limits, and the table of a cell: found, or made.

These calls block; they are for the start of a process.
"""

import ipaddress
import logging
from typing import Any, Final
from urllib.parse import urlsplit

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
from botocore.session import Session

from data_plane import VERSION
from data_plane.aws_sessions import new_session
from data_plane.dynamodb.requests import SHORT_US, DamagedAnswerError, check_answers
from data_plane.dynamodb.tables import PARTITION, SORT, cell_table, time_to_live

CONNECT_TIMEOUT_S: Final = 1.0
READ_TIMEOUT_S: Final = SHORT_US / 1_000_000
PATIENT_READ_TIMEOUT_S: Final = 6.0
"""Of a client for while a table is slow; threads that wait for one that is away are few."""

_START_ATTEMPTS: Final = 3
_ACTIVE_WITHIN_S: Final = 120
_PLACEHOLDERS: Final = {"aws_access_key_id": "unused", "aws_secret_access_key": "unused"}
_OF_OTHER_SERVICES: Final = frozenset({"UnknownOperationException", "InvalidAction"})

LOG: Final = logging.getLogger(__name__)


class OpenError(Exception):
    """The cell cannot be opened; `setting` is the one to look at, the `reason` is one line."""

    def __init__(self, setting: str, reason: str) -> None:
        self.setting, self.reason = setting, " ".join(reason.split())
        super().__init__(f"{setting}: {self.reason}")


def connect(  # noqa: PLR0913 - what an operator may choose, and what clients share
    endpoint: str,
    region: str,
    *,
    connections_max: int,
    attempts: int = 1,
    read_timeout_s: float = READ_TIMEOUT_S,
    session: Session | None = None,
) -> Any:
    """A client of DynamoDB at the endpoint ("": AWS's own in the region), which checks answers.

    Credentials are found where SDKs look for them. Emulators take any: for an endpoint on this
    machine placeholders do where there are none. Clients of one `session` share what botocore
    reads for each. Raises OpenError.
    """
    try:
        session = session or new_session()
        placeholders: dict[str, Any] = {}
        if session.get_credentials() is None:
            if not _is_on_this_machine(endpoint):
                raise OpenError("cell", "no AWS credentials were found for dynamodb")
            placeholders = _PLACEHOLDERS
        client: Any = session.create_client(
            "dynamodb",
            region_name=region,
            **placeholders,
            endpoint_url=endpoint or None,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=read_timeout_s,
                max_pool_connections=connections_max,
                tcp_keepalive=True,
                parameter_validation=False,
                # botocore composes its own for each request, a fifth of what that costs.
                user_agent=f"tidegate/{VERSION}",
            ),
        )
    except ProfileNotFound as error:
        raise OpenError("cell", str(error)) from error
    except (BotoCoreError, ValueError) as error:
        raise OpenError("cell-endpoint", f"cannot use {endpoint!r}: {error}") from error
    check_answers(client)
    return client


def connect_both(endpoint: str, region: str, *, connections_max: int) -> tuple[Any, Any]:
    """A client for a table that is well, and one for while it is slow. Raises OpenError."""
    session = new_session()
    client = connect(endpoint, region, connections_max=connections_max, session=session)
    patient = connect(
        endpoint,
        region,
        connections_max=connections_max,
        read_timeout_s=PATIENT_READ_TIMEOUT_S,
        session=session,
    )
    return client, patient


def open_table(endpoint: str, region: str, table: str) -> None:
    """See that the table is there and usable; make it if it is missing. Raises OpenError."""
    client = connect(endpoint, region, connections_max=1, attempts=_START_ATTEMPTS)
    where = client.meta.endpoint_url
    try:
        _complete(client, table)
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise OpenError("cell", f"no AWS credentials for dynamodb: {error}") from error
    except (NoConnectionError, HTTPClientError) as error:
        raise OpenError("cell-endpoint", f"no DynamoDB answers at {where}: {error}") from error
    except DamagedAnswerError as error:
        raise OpenError("cell-endpoint", f"{where} is no DynamoDB: {error}") from error
    except ClientError as error:
        code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        if code.isdecimal() or code in _OF_OTHER_SERVICES:
            raise OpenError(
                "cell-endpoint", f"{where} is no DynamoDB: it answers {code}"
            ) from error
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
    _enable_time_to_live(client, table)


def _complete(client: Any, table: str) -> None:
    """Make what is missing of the table. Raises OpenError for a table of somebody else."""
    try:
        described = client.describe_table(TableName=table)["Table"]
    except client.exceptions.ResourceNotFoundException:
        where = client.meta.endpoint_url
        LOG.info("making the table %s, billed on demand, at %s", table, where)
        make_table(client, table)
        return
    _check(described, table)
    if described["TableStatus"] in ("ACTIVE", "UPDATING"):
        # Who made it may have ended before this.
        _enable_time_to_live(client, table)
    else:
        make_table(client, table)


def enable_time_to_live(client: Any, table: str) -> None:
    """Let a table that is there remove what has expired: a restored one does not.

    Raises OpenError.
    """
    try:
        _enable_time_to_live(client, table)
    except (BotoCoreError, ClientError) as error:
        raise OpenError("table", f"cannot use {table!r}: {error}") from error


def _enable_time_to_live(client: Any, table: str) -> None:
    if _lives_forever(client, table):
        try:
            client.update_time_to_live(**time_to_live(table))
        except ClientError:
            # Another process may have been faster, which is refused, too.
            if _lives_forever(client, table):
                raise


def _lives_forever(client: Any, table: str) -> bool:
    described = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]
    return bool(described["TimeToLiveStatus"] == "DISABLED")


def _check(described: Any, table: str) -> None:
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
