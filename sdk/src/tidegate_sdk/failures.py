"""Which errors of calls pass by themselves, and which never do."""

import re
from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionClosedError,
    ConnectionError,  # noqa: A004 - botocore's own
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
)
from botocore.parsers import ResponseParserError

_STATUS_SERVER: Final = 500
_STATUS_LATE: Final = 408
_STATUSES_PASSING: Final = frozenset({_STATUS_LATE, 429})

_CODES_PASSING: Final = frozenset(
    {
        "KMSThrottlingException",
        "KMS.ThrottlingException",
        "KmsThrottled",
        "LimitExceededException",
        "OverLimit",
        "ProvisionedThroughputExceededException",
        "RequestThrottled",
        "RequestThrottledException",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
"""Of refusals with a status that says that the caller is wrong."""

_CODES_OF_CONTENTS: Final = frozenset(
    {"InvalidArgumentException", "SerializationException", "ValidationException"}
)

_CODES_CURABLE: Final = frozenset(
    {
        "ExpiredTokenException",
        "InvalidSignatureException",
        "ResourceNotFoundException",
        "UnrecognizedClientException",
    }
)
"""There was no such stream, or the caller's key was not valid."""

_OF_STREAM: Final = re.compile(r"at 'stream(?:Name|ARN)'|^Stream(?:Name|ARN) ", re.IGNORECASE)
"""Of their messages: the stream's name or ARN cannot be one."""

_NETWORK: Final = (
    ConnectionClosedError,
    ConnectionError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
)

_BY_NETWORK: Final = frozenset({"container-role", "iam-role"})
"""Who hands out credentials, and renews them, as botocore calls it."""


def code_of(error: BaseException) -> str:
    """The code of a service's refusal; of anything else nothing."""
    if not isinstance(error, ClientError):
        return ""
    answer: Any = error.response
    return str(answer.get("Error", {}).get("Code", ""))


def is_passing(error: BaseException) -> bool:
    """Whether the same call may succeed later, without anybody changing anything.

    So it is where the network or the server failed, or the caller was too fast. Where a queue or a
    stream does not exist, something is not allowed, or the call itself is wrong, it is not so.
    """
    if isinstance(error, ClientError):
        answer: Any = error.response
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if status >= _STATUS_SERVER or status in _STATUSES_PASSING:
            return True
        return code_of(error) in _CODES_PASSING
    if isinstance(error, CredentialRetrievalError):
        return error.kwargs.get("provider") in _BY_NETWORK
    if isinstance(error, BotoCoreError):
        return isinstance(error, _NETWORK)
    return isinstance(error, OSError | ResponseParserError)


def is_over_once_taken(error: BaseException) -> bool:
    """Whether a refusal does not hold any more once another call for the stream was taken."""
    return code_of(error) in _CODES_CURABLE


def may_be_done(error: BaseException) -> bool:
    """Whether the call may have been done all the same, at this attempt or one of botocore's.

    botocore repeats a call by itself, and tells how the last attempt went.
    """
    if isinstance(error, ClientError):
        answer: Any = error.response
        said = answer.get("ResponseMetadata", {})
        status = said.get("HTTPStatusCode", 0)
        is_unsure: bool = status >= _STATUS_SERVER or status == _STATUS_LATE
        return is_unsure or bool(said.get("RetryAttempts", 0))
    return is_passing(error)


def is_of_contents(error: BaseException) -> bool:
    """Whether a call is refused for records in it, so that a part of it may be taken."""
    if not isinstance(error, ClientError) or code_of(error) not in _CODES_OF_CONTENTS:
        return False
    answer: Any = error.response
    return not _OF_STREAM.search(answer["Error"].get("Message") or "")
