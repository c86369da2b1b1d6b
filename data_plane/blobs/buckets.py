"""Buckets of S3 to put blobs in: a client with its limits, and a bucket, found or made.

These calls block; they are for the start of a process.
"""

import logging
from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from data_plane.aws_sessions import new_session
from data_plane.blobs.place import BlobsOpenError, S3Place
from data_plane.blobs.s3 import S3Blobs
from data_plane.ports import Blobs, Clock, Offload

CONNECT_TIMEOUT_S: Final = 1.0
READ_TIMEOUT_S: Final = 5.0

_START_ATTEMPTS: Final = 3
_PLACEHOLDERS: Final = {"aws_access_key_id": "unused", "aws_secret_access_key": "unused"}
_DEFAULT_REGION: Final = "us-east-1"

LOG: Final = logging.getLogger(__name__)


def open_in_bucket(
    place: S3Place, clock: Clock, offload: Offload, *, connections_max: int
) -> Blobs:
    """The store at this prefix; a bucket that is missing is made. Raises BlobsOpenError."""
    open_bucket(place)
    client = connect(place, connections_max=connections_max)
    return S3Blobs(client, place.bucket, place.prefix, clock, offload)


def connect(
    place: S3Place, *, connections_max: int, attempts: int = 1, session: Session | None = None
) -> Any:
    """A client of S3. Raises BlobsOpenError.

    Credentials are found where SDKs look for them; an endpoint that is not AWS's is given
    placeholders where there are none. Clients of one `session` share what botocore reads for each.
    """
    session = session or new_session()
    placeholders: dict[str, Any] = {}
    try:
        if session.get_credentials() is None:
            if not place.endpoint:
                raise BlobsOpenError("no AWS credentials were found for s3")
            placeholders = _PLACEHOLDERS
        return session.create_client(
            "s3",
            region_name=place.region,
            **placeholders,
            endpoint_url=place.endpoint or None,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": attempts},
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                max_pool_connections=connections_max,
                tcp_keepalive=True,
                # Names of buckets are no host names where there is no DNS for them.
                s3={"addressing_style": "path" if place.endpoint else "auto"},
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise BlobsOpenError(f"cannot use {place.endpoint!r}: {error}") from error


def open_bucket(place: S3Place) -> None:
    """See that the bucket is there and usable; make it if it is missing. Raises BlobsOpenError."""
    client = connect(place, connections_max=1, attempts=_START_ATTEMPTS)
    try:
        client.list_objects_v2(Bucket=place.bucket, Prefix=place.prefix, MaxKeys=1)
    except client.exceptions.NoSuchBucket:
        LOG.info("making the bucket %s", place.bucket)
        _make_bucket(client, place)
    except (BotoCoreError, ClientError) as error:
        raise BlobsOpenError(f"cannot use the bucket {place.bucket}: {error}") from error
    finally:
        client.close()


def _make_bucket(client: Any, place: S3Place) -> None:
    where: dict[str, Any] = {}
    if place.region != _DEFAULT_REGION:
        where["CreateBucketConfiguration"] = {"LocationConstraint": place.region}
    try:
        client.create_bucket(Bucket=place.bucket, **where)
    except client.exceptions.BucketAlreadyOwnedByYou:
        LOG.info("another process makes the bucket %s", place.bucket)
    except (BotoCoreError, ClientError) as error:
        raise BlobsOpenError(f"cannot make the bucket {place.bucket}: {error}") from error
