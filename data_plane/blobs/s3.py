"""Blobs in a bucket, under a prefix: one object each.

S3 has checksums of its own, and boto3 compares them; what speaks S3's API elsewhere may have none.
So each object carries the length and the CRC-32 of its body as metadata, and a body that does not
have them was not received: it is asked for again, never handed out, never taken for an absent one.
botocore makes one attempt of each request: its own retries are counted and not timed.
"""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any, Final, TypeVar
from zlib import crc32

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError
from botocore.parsers import ResponseParserError
from tenacity import (
    Retrying,
    retry_if_exception,
    stop_before_delay,
    wait_random_exponential,
)

from data_plane.core.deadline import left_us
from data_plane.core.retry_budget import RetryBudget
from data_plane.ports import (
    Blob,
    CellThrottledError,
    CellUnavailableError,
    Clock,
    DeadlinePassedError,
    Offload,
)

T = TypeVar("T")

DEADLINE_S: Final = 10.0
"""The last attempt begins before it."""

CRC32: Final = "crc32"
LENGTH: Final = "length"
DELETED_AT_ONCE_MAX: Final = 1000

_WAIT_S_FIRST: Final = 0.05
_WAIT_S_MAX: Final = 1.0
_ABSENT: Final = "NoSuchKey"
_THROTTLES: Final = frozenset(
    {"SlowDown", "RequestLimitExceeded", "Throttling", "ThrottlingException", "RequestTimeout"}
)
_SERVER_ERRORS: Final = 500


class DamagedBodyError(Exception):
    """An answer that did not arrive as it was sent: what it says, or does not say, is unknown."""


class S3Blobs:
    """Implements `data_plane.ports.Blobs` on `bucket`, whose listings are in order of the names.

    `client` is a boto3 client of S3 that makes one attempt (opening.py makes it); its calls run
    through `offload`, each at most for about `deadline_s` and one timeout of the client, and not
    beyond the deadline of the request that they serve; what fails is sent again as long as `budget`
    allows it. The names of objects are `prefix` and the blob's name.
    """

    def __init__(  # noqa: PLR0913 - its place and its ports
        self,
        client: Any,
        bucket: str,
        prefix: str,
        clock: Clock,
        offload: Offload,
        *,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.budget = RetryBudget()
        self._clock = clock
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._offload = offload
        self._deadline_s = deadline_s

    async def put(self, name: str, body: bytes) -> None:
        """Store a body; durable when it returns."""
        metadata = {CRC32: f"{crc32(body):08x}", LENGTH: str(len(body))}

        def put() -> None:
            answer = self._client.put_object(
                Bucket=self._bucket, Key=self._prefix + name, Body=body, Metadata=metadata
            )
            if not answer.get("ETag"):
                raise DamagedBodyError("the answer does not say that the object is stored")

        await self._run(f"put {name}", put)

    async def get(self, name: str) -> bytes | None:
        """The body, or None where there is none under this name."""

        def get() -> bytes | None:
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
            except ClientError as error:
                if error.response["Error"].get("Code") == _ABSENT:
                    return None
                raise
            with answer["Body"] as stream:
                body: bytes = stream.read()
            _check(body, answer.get("Metadata", {}))
            return body

        return await self._run(f"get {name}", get)

    async def delete(self, names: Sequence[str]) -> None:
        """Remove up to 1,000 blobs; those that do not exist are none to remove."""
        if len(names) > DELETED_AT_ONCE_MAX:
            raise ValueError(f"{len(names)} blobs are more than {DELETED_AT_ONCE_MAX}")
        if not names:
            return
        objects = [{"Key": self._prefix + name} for name in names]

        def delete() -> None:
            answer = self._client.delete_objects(Bucket=self._bucket, Delete={"Objects": objects})
            kept = [error for error in answer.get("Errors", ()) if error.get("Code") != _ABSENT]
            if kept:
                raise DamagedBodyError(
                    f"{len(kept)} objects are still there, {kept[0].get('Key')} because of"
                    f" {kept[0].get('Code')}: {kept[0].get('Message')}"
                )
            told = {
                entry["Key"] for entry in (*answer.get("Deleted", ()), *answer.get("Errors", ()))
            }
            if any(entry["Key"] not in told for entry in objects):
                raise DamagedBodyError("the answer does not tell of each object")

        await self._run(f"delete {len(names)} blobs", delete)

    async def names(self, after: str = "", *, limit: int) -> list[Blob]:
        """Up to `limit` blobs whose names are greater than `after`, in order of the names."""
        start = {"StartAfter": self._prefix + after} if self._prefix + after else {}

        def names() -> list[Blob]:
            answer = self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix, MaxKeys=limit, **start
            )
            if "IsTruncated" not in answer:
                raise DamagedBodyError("the answer does not say where the list ends")
            return [
                Blob(
                    entry["Key"].removeprefix(self._prefix),
                    int(entry["LastModified"].timestamp()) * 1_000_000,
                )
                for entry in answer.get("Contents", ())
            ]

        return await self._run(f"list after {after!r}", names)

    async def _run(self, what: str, attempt: Callable[[], T]) -> T:
        left = left_us(self._clock.now_us())
        left_s = self._deadline_s if left is None else min(self._deadline_s, left / 1_000_000)
        asked_s = monotonic()

        def repeat() -> T:
            waited_s = monotonic() - asked_s
            if waited_s >= left_s:
                raise DeadlinePassedError(f"{what}: no thread was free for it in time")
            self.budget.called()
            retrying = Retrying(
                retry=retry_if_exception(self._may_retry),
                stop=stop_before_delay(left_s - waited_s),
                wait=wait_random_exponential(multiplier=_WAIT_S_FIRST, max=_WAIT_S_MAX),
                reraise=True,
            )
            try:
                return retrying(attempt)
            except _FAILURES as error:
                told = CellThrottledError if _is_throttle(error) else CellUnavailableError
                raise told(
                    f"{what} in s3://{self._bucket}/{self._prefix}: {' '.join(str(error).split())}"
                ) from error

        return await self._offload(repeat)

    def _may_retry(self, error: BaseException) -> bool:
        timed_out = isinstance(error, _TIMEOUTS)
        return _is_transient(error) and self.budget.may_retry(timed_out=timed_out)


_TIMEOUTS: Final = (ReadTimeoutError, ConnectTimeoutError)
_FAILURES: Final = (ClientError, BotoCoreError, ResponseParserError, DamagedBodyError)


def _check(body: bytes, metadata: Mapping[str, str]) -> None:
    if metadata.get(LENGTH) != str(len(body)) or metadata.get(CRC32) != f"{crc32(body):08x}":
        raise DamagedBodyError(
            f"{len(body)} bytes came of {metadata.get(LENGTH)}, or they are not those"
        )


def _is_throttle(error: Exception) -> bool:
    return isinstance(error, ClientError) and error.response["Error"].get("Code") in _THROTTLES


def _is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed a moment later."""
    if isinstance(error, ClientError):
        status = error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
        return error.response["Error"].get("Code") in _THROTTLES or status >= _SERVER_ERRORS
    return isinstance(error, _FAILURES)
