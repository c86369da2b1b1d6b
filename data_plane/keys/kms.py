"""Master keys in AWS KMS: they never leave it. What speaks KMS's API elsewhere does, too.

A queue's key is asked in the queue's name: the encryption context names account and queue, so that
key policies may look at it. `alias/aws/sqs` and `alias/aws/kinesis` belong to AWS's services; here
they stand for the service's key.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    MetadataRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as NoConnectionError
from botocore.parsers import ResponseParserError
from botocore.session import Session

from data_plane.aws_sessions import new_session
from data_plane.core.sealing import SECRET_BYTES
from data_plane.ports import CellUnavailableError, MasterKeysError, Offload, WrappedKey

T = TypeVar("T")

_PASSING: Final = (
    NoConnectionError,
    HTTPClientError,
    ResponseParserError,
    # Who hands out credentials was away when those of before had expired.
    CredentialRetrievalError,
    MetadataRetrievalError,
)

KIND: Final = "kms:"
OWN_KEYS: Final = ("", "alias/aws/sqs", "alias/aws/kinesis")
CONNECT_TIMEOUT_S: Final = 1.0
READ_TIMEOUT_S: Final = 2.0
ATTEMPTS: Final = 2

_PLACEHOLDERS: Final = {"aws_access_key_id": "unused", "aws_secret_access_key": "unused"}
_AWAY: Final = frozenset(
    {
        *("DependencyTimeoutException", "KMSInternalException", "KeyUnavailableException"),
        *("InternalFailure", "InternalError", "ServiceUnavailable", "RequestTimeout"),
    }
)
"""What another attempt, a while later, may cure."""

_REASONS: Final = {
    "InvalidArnException": "NotFound",
    "InvalidAliasNameException": "NotFound",
    "ValidationException": "NotFound",
    "UnrecognizedClientException": "AccessDenied",
    "InvalidSignatureException": "AccessDenied",
    "ExpiredTokenException": "AccessDenied",
    "LimitExceededException": "Throttling",
    "RequestLimitExceeded": "Throttling",
    "SubscriptionRequiredException": "OptInRequired",
}
"""Reasons by the codes that have another name; a key's id that is none at all is not found."""

_SUFFIX: Final = "Exception"
_SERVER_ERRORS: Final = 500


def connect(
    endpoint: str, region: str, *, connections_max: int, session: Session | None = None
) -> Any:
    """A client of KMS at the endpoint ("": AWS's own in the region), which does not wait for long.

    Credentials are found where SDKs look for them; an endpoint that is not AWS's is given
    placeholders where there are none. Clients of one `session` share what botocore reads for each.
    Raises MasterKeysError.
    """
    try:
        session = session or new_session()
        placeholders: dict[str, Any] = {}
        if session.get_credentials() is None:
            if not endpoint:
                raise MasterKeysError("AccessDenied", "no AWS credentials were found for kms")
            placeholders = _PLACEHOLDERS
        return session.create_client(
            "kms",
            region_name=region,
            **placeholders,
            endpoint_url=endpoint or None,
            config=Config(
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                connect_timeout=CONNECT_TIMEOUT_S,
                read_timeout=READ_TIMEOUT_S,
                max_pool_connections=connections_max,
                tcp_keepalive=True,
            ),
        )
    except (BotoCoreError, ValueError) as error:
        raise MasterKeysError("", f"cannot use {endpoint!r}: {error}") from error


class KmsKeys:
    """Implements `data_plane.ports.MasterKeys` with a client of KMS; made by `open_kms`.

    `arn` is that of the service's own key.
    """

    def __init__(self, client: Any, arn: str, offload: Offload) -> None:
        self._client = client
        self._arn = arn
        self._offload = offload

    async def generate(
        self, context: Mapping[str, str], key_id: str = ""
    ) -> tuple[bytes, WrappedKey]:
        """A new data key of 32 bytes of this KMS key, and as it may be stored."""
        answer = await self._run(
            self._client.generate_data_key,
            KeyId=self._arn if key_id in OWN_KEYS else key_id,
            NumberOfBytes=SECRET_BYTES,
            EncryptionContext=dict(context),
        )
        return answer["Plaintext"], WrappedKey(KIND + answer["KeyId"], answer["CiphertextBlob"])

    async def wrap(self, plain: bytes, context: Mapping[str, str]) -> WrappedKey:
        """Seal a key under the service's own key."""
        answer = await self._run(
            self._client.encrypt,
            KeyId=self._arn,
            Plaintext=plain,
            EncryptionContext=dict(context),
        )
        return WrappedKey(KIND + answer["KeyId"], answer["CiphertextBlob"])

    async def unwrap(self, key: WrappedKey, context: Mapping[str, str]) -> bytes:
        """The key that was wrapped."""
        if not key.master_key.startswith(KIND):
            raise MasterKeysError("NotFound", f"it is sealed under {key.master_key}, not in KMS")
        answer = await self._run(
            self._client.decrypt,
            CiphertextBlob=key.wrapped,
            KeyId=key.master_key.removeprefix(KIND),
            EncryptionContext=dict(context),
        )
        plain: bytes = answer["Plaintext"]
        return plain

    def is_current(self, key: WrappedKey) -> bool:
        """Whether it is wrapped under the service's own key."""
        return key.master_key == KIND + self._arn

    async def _run(self, operation: Callable[..., Any], **parameters: object) -> Any:
        return await self._offload(lambda: _answer(operation, parameters))


async def open_kms(client: Any, key_id: str, offload: Offload) -> KmsKeys:
    """The keys of KMS, with this key as the service's own.

    Raises MasterKeysError, CellUnavailableError.
    """
    described = await offload(lambda: _answer(client.describe_key, {"KeyId": key_id}))
    return KmsKeys(client, described["KeyMetadata"]["Arn"], offload)


def _answer(operation: Callable[..., Any], parameters: Mapping[str, object]) -> Any:
    """What KMS answers. Raises MasterKeysError, CellUnavailableError."""
    try:
        return operation(**parameters)
    except ClientError as error:
        told = error.response.get("Error", {})
        code, message = str(told.get("Code", "")), " ".join(str(told.get("Message", "")).split())
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _AWAY or status >= _SERVER_ERRORS:
            raise CellUnavailableError(f"KMS: {code}: {message}") from error
        reason = _REASONS.get(code, code.removesuffix(_SUFFIX))
        raise MasterKeysError(reason, f"{message} (Service: Kms; Error Code: {code})") from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise MasterKeysError("AccessDenied", f"no AWS credentials for kms: {error}") from error
    except _PASSING as error:
        raise CellUnavailableError(f"KMS: {' '.join(str(error).split())}") from error
    except BotoCoreError as error:
        raise MasterKeysError("NotFound", " ".join(str(error).split())) from error
