"""The one table of error codes, and the exception that carries a refusal to the caller.

Each fault of SQS has two names: `shape` is the `__type` of AWS JSON, `code` is what SDKs show and
what the Query protocol sends (`x-amzn-query-error`). The shapes that SQS's model does not have are
those of every AWS service and live in another namespace. Source: botocore's models (SQS's is
awsQueryCompatible), answers recorded from AWS, and "Common Errors" of the SQS API reference.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

OF_SQS: Final = "com.amazonaws.sqs#"
OF_EVERY_SERVICE: Final = "com.amazon.coral.service#"
OF_KINESIS: Final = ""
"""Kinesis writes shapes without a namespace."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to refuse a request: names, HTTP status, and whether the sender is at fault."""

    shape: str
    code: str
    status: int = 400
    sender: bool = True
    namespace: str = OF_SQS


class RefusedError(Exception):
    """The request gets this fault and message as its answer; nothing was changed."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault
        self.message = message


def _legacy(shape: str, status: int = 400) -> Fault:
    return Fault(shape, f"AWS.SimpleQueueService.{shape}", status)


def _common(shape: str, code: str, status: int = 400, *, sender: bool = True) -> Fault:
    return Fault(shape, code, status, sender, OF_EVERY_SERVICE)


def _kinesis(shape: str, status: int = 400, *, sender: bool = True) -> Fault:
    return Fault(shape, shape, status, sender, OF_KINESIS)


QUEUE_DOES_NOT_EXIST: Final = Fault("QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue")
QUEUE_NAME_EXISTS: Final = Fault("QueueNameExists", "QueueAlreadyExists")
QUEUE_DELETED_RECENTLY: Final = _legacy("QueueDeletedRecently")
PURGE_QUEUE_IN_PROGRESS: Final = _legacy("PurgeQueueInProgress", 403)
BATCH_REQUEST_TOO_LONG: Final = _legacy("BatchRequestTooLong")
BATCH_ENTRY_IDS_NOT_DISTINCT: Final = _legacy("BatchEntryIdsNotDistinct")
EMPTY_BATCH_REQUEST: Final = _legacy("EmptyBatchRequest")
INVALID_BATCH_ENTRY_ID: Final = _legacy("InvalidBatchEntryId")
TOO_MANY_ENTRIES: Final = _legacy("TooManyEntriesInBatchRequest")
MESSAGE_NOT_INFLIGHT: Final = _legacy("MessageNotInflight")
UNSUPPORTED_OPERATION: Final = _legacy("UnsupportedOperation")
INVALID_ATTRIBUTE_NAME: Final = Fault("InvalidAttributeName", "InvalidAttributeName")
INVALID_ATTRIBUTE_VALUE: Final = Fault("InvalidAttributeValue", "InvalidAttributeValue")
INVALID_MESSAGE_CONTENTS: Final = Fault("InvalidMessageContents", "InvalidMessageContents")
RECEIPT_HANDLE_IS_INVALID: Final = Fault("ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid", 404)
INVALID_ADDRESS: Final = Fault("InvalidAddress", "InvalidAddress", 404)
OVER_LIMIT: Final = Fault("OverLimit", "OverLimit", 403)
REQUEST_THROTTLED: Final = Fault("RequestThrottled", "RequestThrottled", 403)
RESOURCE_NOT_FOUND: Final = Fault("ResourceNotFoundException", "ResourceNotFoundException", 404)

KMS_ACCESS_DENIED: Final = Fault("KmsAccessDenied", "KMS.AccessDeniedException")
KMS_DISABLED: Final = Fault("KmsDisabled", "KMS.DisabledException")
KMS_INVALID_KEY_USAGE: Final = Fault("KmsInvalidKeyUsage", "KMS.InvalidKeyUsageException")
KMS_INVALID_STATE: Final = Fault("KmsInvalidState", "KMS.InvalidStateException")
KMS_NOT_FOUND: Final = Fault("KmsNotFound", "KMS.NotFoundException")
KMS_OPT_IN_REQUIRED: Final = Fault("KmsOptInRequired", "KMS.OptInRequired", 403)
KMS_THROTTLED: Final = Fault("KmsThrottled", "KMS.ThrottlingException")

INVALID_PARAMETER_VALUE: Final = _common("InvalidParameterValueException", "InvalidParameterValue")
MISSING_PARAMETER: Final = _common("MissingRequiredParameterException", "MissingParameter")
MALFORMED_INPUT: Final = _common("SerializationException", "MalformedInput")
MALFORMED_QUERY: Final = _common("MalformedQueryString", "MalformedQueryString", 404)
INVALID_ACTION: Final = _common("UnknownOperationException", "InvalidAction")
REQUEST_TOO_LARGE: Final = _common("RequestEntityTooLarge", "RequestEntityTooLarge", 413)
MALFORMED_HTTP_REQUEST: Final = _common("MalformedHttpRequestException", "MalformedHttpRequest")
LENGTH_REQUIRED: Final = _common("LengthRequired", "LengthRequired", 411)
REQUEST_TIMEOUT: Final = _common("RequestTimeoutException", "RequestTimeout", 408)
ACCESS_DENIED: Final = _common("AccessDeniedException", "AccessDenied", 403)

MISSING_AUTHENTICATION_TOKEN: Final = _common(
    "MissingAuthenticationTokenException", "MissingAuthenticationToken", 403
)
INCOMPLETE_SIGNATURE: Final = _common("IncompleteSignatureException", "IncompleteSignature")
INVALID_CLIENT_TOKEN: Final = _common("UnrecognizedClientException", "InvalidClientTokenId", 403)
SIGNATURE_DOES_NOT_MATCH: Final = _common("InvalidSignatureException", "SignatureDoesNotMatch", 403)
INVALID_SECURITY: Final = Fault("InvalidSecurity", "InvalidSecurity", 403)

INTERNAL_FAILURE: Final = _common("InternalFailure", "InternalFailure", 500, sender=False)
SERVICE_UNAVAILABLE: Final = _common("ServiceUnavailable", "ServiceUnavailable", 503, sender=False)

# Of Kinesis, which has one name for each (its API reference, and botocore's model).
VALIDATION: Final = _kinesis("ValidationException")
INVALID_ARGUMENT: Final = _kinesis("InvalidArgumentException")
STREAM_NOT_FOUND: Final = _kinesis("ResourceNotFoundException")
"""Also of a shard, a consumer, a policy."""
RESOURCE_IN_USE: Final = _kinesis("ResourceInUseException")
LIMIT_EXCEEDED: Final = _kinesis("LimitExceededException")
THROUGHPUT_EXCEEDED: Final = _kinesis("ProvisionedThroughputExceededException")
THROTTLING: Final = _kinesis("ThrottlingException")
"""Of queues; with streams it is the former."""
EXPIRED_ITERATOR: Final = _kinesis("ExpiredIteratorException")
EXPIRED_NEXT_TOKEN: Final = _kinesis("ExpiredNextTokenException")
DRY_RUN: Final = _kinesis("DryRunOperationException")
# Of consumer groups, which are ours.
UNKNOWN_MEMBER: Final = _kinesis("TidegateUnknownMember")
FENCED_MEMBER: Final = _kinesis("TidegateFencedMember")
UNRELEASED_INSTANCE: Final = _kinesis("TidegateUnreleasedInstance")
STALE_ASSIGNMENT: Final = _kinesis("TidegateStaleAssignment")
"""Of an entry."""
# Of producers that number their records, which are ours, too.
FENCED_PRODUCER: Final = _kinesis("TidegateFencedProducer")

KINESIS_SPELLING: Final[Mapping[Fault, Fault]] = {
    OVER_LIMIT: LIMIT_EXCEEDED,
    INVALID_PARAMETER_VALUE: INVALID_ARGUMENT,
    MISSING_PARAMETER: VALIDATION,
    RESOURCE_NOT_FOUND: STREAM_NOT_FOUND,
    KMS_ACCESS_DENIED: _kinesis("KMSAccessDeniedException"),
    KMS_DISABLED: _kinesis("KMSDisabledException"),
    KMS_INVALID_KEY_USAGE: _kinesis("KMSInvalidStateException"),
    KMS_INVALID_STATE: _kinesis("KMSInvalidStateException"),
    KMS_NOT_FOUND: _kinesis("KMSNotFoundException"),
    KMS_OPT_IN_REQUIRED: _kinesis("KMSOptInRequired"),
    KMS_THROTTLED: _kinesis("KMSThrottlingException"),
    **{
        fault: _kinesis(fault.shape)
        for fault in (
            *(MALFORMED_INPUT, MALFORMED_QUERY, INVALID_ACTION, MALFORMED_HTTP_REQUEST),
            *(ACCESS_DENIED, MISSING_AUTHENTICATION_TOKEN, INCOMPLETE_SIGNATURE),
            *(INVALID_CLIENT_TOKEN, SIGNATURE_DOES_NOT_MATCH, INVALID_SECURITY, INVALID_ADDRESS),
        )
    },
    **{
        fault: _kinesis(fault.shape, fault.status, sender=fault.sender)
        for fault in (
            *(REQUEST_TOO_LARGE, LENGTH_REQUIRED, REQUEST_TIMEOUT),
            *(INTERNAL_FAILURE, SERVICE_UNAVAILABLE),
        )
    },
}
"""How Kinesis spells what all services share: 400 for what is wrong with a call, whatever SQS says.

Those of HTTP alone keep their status, and so does what is the server's fault. What throttling is
called depends on the operation (protocol/kinesis.py).
"""


def request_too_large(body_bytes_max: int) -> RefusedError:
    """The request's body is longer than bodies may be."""
    return RefusedError(
        REQUEST_TOO_LARGE, f"Request bodies cannot be longer than {body_bytes_max} bytes."
    )


def signature_does_not_match() -> RefusedError:
    """Somebody else has signed the request, or has signed another one. The words are AWS's."""
    return RefusedError(
        SIGNATURE_DOES_NOT_MATCH,
        "The request signature we calculated does not match the signature you provided. Check "
        "your AWS Secret Access Key and signing method. Consult the service documentation for "
        "details.",
    )


_WRONG_QUEUE_TYPE: Final = "The request include parameter that is not valid for this queue type"
_HANDLE_EXPIRED: Final = "The receipt handle has expired"
_NO_SUCH_LEASE: Final = "Message does not exist or is not available for visibility timeout change"


def is_of_kms(failure: Exception) -> bool:
    """Whether a queue's key is why."""
    return isinstance(failure, RefusedError) and failure.fault.code.startswith("KMS.")


def missing_parameter(name: str) -> RefusedError:
    """A required parameter is absent or empty; entries of batches are named with their number."""
    return RefusedError(MISSING_PARAMETER, f"The request must contain the parameter {name}.")


def invalid_parameter(name: str, value: object, reason: str) -> RefusedError:
    """A parameter's value breaks a rule."""
    return RefusedError(
        INVALID_PARAMETER_VALUE, f"Value {value} for parameter {name} is invalid. Reason: {reason}"
    )


def wrong_queue_type(name: str, value: object) -> RefusedError:
    """The parameter belongs to the other type of queue (standard or FIFO)."""
    return invalid_parameter(name, value, f"{_WRONG_QUEUE_TYPE}.")


def handle_expired(handle: str) -> RefusedError:
    """The message was received again, or deleted, or its visibility has ended."""
    return invalid_parameter("ReceiptHandle", handle, f"{_HANDLE_EXPIRED}.")


def no_such_lease(handle: str) -> RefusedError:
    """Nothing is in flight of which the handle could change the visibility."""
    return invalid_parameter("ReceiptHandle", handle, f"{_NO_SUCH_LEASE}.")


def of_entry(refusal: RefusedError) -> RefusedError:
    """What is told of an entry of a batch that is refused so: the reason alone, in some cases.

    Sources: aws/aws-sdk-js #3187; smaskalik/sqsmover #54 of DeleteMessageBatch, and what AWS's own
    SQSMessagePoller.cs (aws/aws-dotnet-messaging) expects of ChangeMessageVisibilityBatch.
    """
    if refusal.message.endswith(f"{_WRONG_QUEUE_TYPE}."):
        return RefusedError(refusal.fault, _WRONG_QUEUE_TYPE)
    if refusal.message.endswith(f"{_HANDLE_EXPIRED}."):
        return RefusedError(RECEIPT_HANDLE_IS_INVALID, _HANDLE_EXPIRED)
    if refusal.message.endswith(f"{_NO_SUCH_LEASE}."):
        return RefusedError(RECEIPT_HANDLE_IS_INVALID, _NO_SUCH_LEASE)
    return refusal


def queue_does_not_exist() -> RefusedError:
    """No queue has this name in the account and region."""
    return RefusedError(QUEUE_DOES_NOT_EXIST, "The specified queue does not exist.")


def stream_not_found(name: str, account: str) -> RefusedError:
    """No stream has this name. The words are AWS's, as those of all that is about streams."""
    return RefusedError(STREAM_NOT_FOUND, f"Stream {name} under account {account} not found.")


def kinesis_queue_not_found(queue_id: str, account: str) -> RefusedError:
    """No queue of the Kinesis API has this id."""
    return RefusedError(STREAM_NOT_FOUND, f"Queue {queue_id} under account {account} not found.")


def group_not_found(name: str, account: str) -> RefusedError:
    """No consumer group has this name."""
    return RefusedError(STREAM_NOT_FOUND, f"Group {name} under account {account} not found.")


def shard_not_found(shard: str, name: str, account: str) -> RefusedError:
    """No shard of the stream has this id, or there is no such stream."""
    return RefusedError(
        STREAM_NOT_FOUND, f"Shard {shard} in stream {name} under account {account} does not exist"
    )


def no_such_shard(shard: str, name: str, account: str) -> RefusedError:
    """The same, as it is said of shards that are to be changed, and of what is no shard's id."""
    return RefusedError(
        STREAM_NOT_FOUND, f"Could not find shard {shard} in stream {name} under account {account}."
    )


def invalid_character(found: str, place: str = "message body") -> RefusedError:
    """A message has a character that XML has not. Source: API reference, SendMessage."""
    return RefusedError(
        INVALID_MESSAGE_CONTENTS,
        f"Invalid binary character '#x{ord(found):X}' was found in the {place}, the set of allowed "
        "characters is #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF].",
    )
