"""The attributes of a queue: what each may hold, who may set it, when it is shown.

The table is the law; the functions below it only read it. Sources: SQS API reference
(SetQueueAttributes, GetQueueAttributes), answers recorded from AWS.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from control_plane.core import attribute_documents
from data_plane.core.errors import (
    INVALID_ATTRIBUTE_NAME,
    INVALID_ATTRIBUTE_VALUE,
    RefusedError,
)
from data_plane.core.limits import (
    DELAY_S_MAX,
    KMS_DATA_KEY_REUSE_S_DEFAULT,
    KMS_DATA_KEY_REUSE_S_MAX,
    KMS_DATA_KEY_REUSE_S_MIN,
    KMS_KEY_ID_CHARS_MAX,
    MESSAGE_SIZE_BYTES_MAX,
    QUEUE_MESSAGE_SIZE_BYTES_DEFAULT,
    QUEUE_MESSAGE_SIZE_BYTES_MIN,
    RECEIVE_WAIT_S_MAX,
    REPLICATION_FACTOR_MAX,
    RETENTION_S_DEFAULT,
    RETENTION_S_MAX,
    RETENTION_S_MIN,
    VISIBILITY_TIMEOUT_S_DEFAULT,
    VISIBILITY_TIMEOUT_S_MAX,
)
from data_plane.core.queue import AT_LEAST_ONCE, DELIVERY_GUARANTEES, STARTING_POSITIONS

_STREAM_ARN_CHARS_MAX: Final = 256
_TIMESTAMP_S_MAX: Final = 9_999_999_999

Kind = Literal["integer", "boolean", "choice", "document", "text"]
Setting = Literal["always", "on creation", "never"]


@dataclass(frozen=True, slots=True)
class QueueAttribute:
    """One attribute.

    `default` holds while it is not set ("": none). `shown` says whether GetQueueAttributes shows
    it while it is not set; its default, where that was set, is `shown_with` another alone.
    `minimum` and `maximum` bound an integer, `maximum` the characters of a text, `choices` a
    choice. One that is `beyond_sqs` is shown to those alone who name it, not with `All`.
    """

    name: str
    kind: Kind
    default: str = ""
    minimum: int = 0
    maximum: int = 0
    choices: tuple[str, ...] = ()
    setting: Setting = "always"
    shown: bool = True
    shown_with: str = ""
    fifo_only: bool = False
    standard_only: bool = False
    beyond_sqs: bool = False


_ROWS: Final = (
    QueueAttribute(
        "VisibilityTimeout",
        "integer",
        str(VISIBILITY_TIMEOUT_S_DEFAULT),
        0,
        VISIBILITY_TIMEOUT_S_MAX,
    ),
    QueueAttribute("DelaySeconds", "integer", "0", 0, DELAY_S_MAX),
    QueueAttribute(
        "MaximumMessageSize",
        "integer",
        str(QUEUE_MESSAGE_SIZE_BYTES_DEFAULT),
        QUEUE_MESSAGE_SIZE_BYTES_MIN,
        MESSAGE_SIZE_BYTES_MAX,
    ),
    QueueAttribute(
        "MessageRetentionPeriod",
        "integer",
        str(RETENTION_S_DEFAULT),
        RETENTION_S_MIN,
        RETENTION_S_MAX,
    ),
    QueueAttribute("ReceiveMessageWaitTimeSeconds", "integer", "0", 0, RECEIVE_WAIT_S_MAX),
    QueueAttribute("Policy", "document", shown=False),
    QueueAttribute("RedrivePolicy", "document", shown=False),
    QueueAttribute("RedriveAllowPolicy", "document", shown=False),
    QueueAttribute("KmsMasterKeyId", "text", maximum=KMS_KEY_ID_CHARS_MAX, shown=False),
    QueueAttribute(
        "KmsDataKeyReusePeriodSeconds",
        "integer",
        str(KMS_DATA_KEY_REUSE_S_DEFAULT),
        KMS_DATA_KEY_REUSE_S_MIN,
        KMS_DATA_KEY_REUSE_S_MAX,
        shown=False,
        shown_with="KmsMasterKeyId",  # Recorded from AWS.
    ),
    QueueAttribute("SqsManagedSseEnabled", "boolean", "true"),
    QueueAttribute("FifoQueue", "boolean", setting="on creation", fifo_only=True),
    QueueAttribute("ContentBasedDeduplication", "boolean", "false", fifo_only=True),
    QueueAttribute(
        "DeduplicationScope",
        "choice",
        "queue",
        choices=("queue", "messageGroup"),
        fifo_only=True,
    ),
    QueueAttribute(
        "FifoThroughputLimit",
        "choice",
        "perQueue",
        choices=("perQueue", "perMessageGroupId"),
        fifo_only=True,
    ),
    QueueAttribute(
        "TidegateDeliveryGuarantee",
        "choice",
        AT_LEAST_ONCE,
        choices=DELIVERY_GUARANTEES,
        beyond_sqs=True,
    ),
    QueueAttribute(
        "TidegateReplicationFactor",
        "integer",
        minimum=1,
        maximum=REPLICATION_FACTOR_MAX,
        setting="on creation",
        shown=False,
        beyond_sqs=True,
    ),
    QueueAttribute(
        "TidegateReplicationAcknowledgement",
        "choice",
        choices=("all", "first"),
        setting="on creation",
        shown=False,
        standard_only=True,
        beyond_sqs=True,
    ),
    QueueAttribute(
        "TidegateStreamArn",
        "text",
        maximum=_STREAM_ARN_CHARS_MAX,
        setting="on creation",
        shown=False,
        beyond_sqs=True,
    ),
    QueueAttribute(
        "TidegateStartingPosition",
        "choice",
        choices=STARTING_POSITIONS,
        setting="on creation",
        shown=False,
        beyond_sqs=True,
    ),
    QueueAttribute(
        "TidegateStartingTimestamp",
        "integer",
        maximum=_TIMESTAMP_S_MAX,
        setting="on creation",
        shown=False,
        beyond_sqs=True,
    ),
    QueueAttribute("ApproximateNumberOfMessages", "integer", setting="never"),
    QueueAttribute("ApproximateNumberOfMessagesNotVisible", "integer", setting="never"),
    QueueAttribute("ApproximateNumberOfMessagesDelayed", "integer", setting="never"),
    QueueAttribute("CreatedTimestamp", "integer", setting="never"),
    QueueAttribute("LastModifiedTimestamp", "integer", setting="never"),
    QueueAttribute("QueueArn", "text", setting="never"),
)
QUEUE_ATTRIBUTES: Final[Mapping[str, QueueAttribute]] = {row.name: row for row in _ROWS}

ALL: Final = "All"
COUNT_ATTRIBUTES: Final = frozenset(
    name for name in QUEUE_ATTRIBUTES if name.startswith("ApproximateNumberOfMessages")
)

_KMS_ATTRIBUTES: Final = ("KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds")
_INTEGER_DIGITS_MAX: Final = 10
_SCOPED_BY_FIFO: Final = ("DeduplicationScope", "FifoThroughputLimit")
_OF_FIFO_ALONE: Final = frozenset({"FifoQueue", "ContentBasedDeduplication"})


def default_of(name: str) -> str:
    """The value that holds while the attribute is not set ("": none)."""
    return QUEUE_ATTRIBUTES[name].default


def asks_for_fifo(given: Mapping[str, str | None]) -> bool:
    """Whether attributes that nobody has validated ask for a FIFO queue."""
    return (given.get("FifoQueue") or "").lower() == "true"


def parse(given: Mapping[str, str | None], *, fifo: bool) -> dict[str, str]:
    """Validate the attributes of a request and bring their values into canonical form.

    `fifo` is the type of the queue, or of the one that is to be. A null value counts as not given.
    "" stands for the removal of a text or document.

    Raises RefusedError: InvalidAttributeName, InvalidAttributeValue or InvalidParameterValue.
    """
    parsed = {
        name: _parse_one(name, value, fifo=fifo)
        for name, value in given.items()
        if value is not None
    }
    if parsed.get("KmsMasterKeyId") and parsed.get("SqsManagedSseEnabled") == "true":
        raise RefusedError(
            INVALID_ATTRIBUTE_NAME,
            "You can use one type of server-side encryption (SSE) at one time. "
            "You can either enable KMS SSE or SQS SSE.",
        )
    return parsed


def apply(current: Mapping[str, str], parsed: Mapping[str, str]) -> dict[str, str]:
    """The attributes that are set after a change that `parse` has let pass.

    The two ways of encryption exclude each other: naming a KMS key ends the managed one, choosing
    the managed one removes the key and its period (recorded from AWS).

    Raises RefusedError where the attributes do not fit together.
    """
    merged = {**current, **parsed}
    if parsed.get("SqsManagedSseEnabled") == "true":
        for name in _KMS_ATTRIBUTES:
            merged.pop(name, None)
    elif parsed.get("KmsMasterKeyId"):
        merged["SqsManagedSseEnabled"] = "false"
    kept = {name: value for name, value in merged.items() if value != ""}
    if (
        kept.get("FifoThroughputLimit") == "perMessageGroupId"
        and kept.get("DeduplicationScope") != "messageGroup"
    ):
        raise RefusedError(
            INVALID_ATTRIBUTE_VALUE,
            "Invalid value for the parameter FifoThroughputLimit. Reason: To set "
            "FifoThroughputLimit to perMessageGroupId, the DeduplicationScope must be "
            "messageGroup.",
        )
    return kept


def check_changeable(current: Mapping[str, str], parsed: Mapping[str, str]) -> None:
    """Raise RefusedError (InvalidAttributeValue) where what was fixed on creation would change."""
    for name, wanted in parsed.items():
        row = QUEUE_ATTRIBUTES[name]
        if row.setting == "on creation" and wanted != current.get(name, ""):
            raise RefusedError(
                INVALID_ATTRIBUTE_VALUE,
                f"Invalid value for the parameter {name}. "
                "Reason: It is fixed when a queue is created.",
            )


def first_difference(current: Mapping[str, str], parsed: Mapping[str, str]) -> str | None:
    """The first of the parsed attributes whose value in force is another one.

    This is how CreateQueue compares with a queue of the same name: by what the request gives.
    """
    for name, wanted in parsed.items():
        held = current.get(name, default_of(name))
        if QUEUE_ATTRIBUTES[name].kind == "document":
            differs = not attribute_documents.are_equal(name, wanted, held)
        else:
            differs = wanted != held and not (wanted == "" and name not in current)
        if differs:
            return name
    return None


def render(
    attributes: Mapping[str, str], read_only: Mapping[str, str], names: Iterable[str], *, fifo: bool
) -> dict[str, str]:
    """What GetQueueAttributes answers to these attribute names (`All` among them or not).

    `read_only` holds those that nobody sets. A name whose attribute has no value is left out.

    Raises RefusedError: InvalidAttributeName for an unknown name, and of a standard queue for the
    two of FIFO queues that AWS was seen to refuse (aws/aws-sdk-ruby #1350).
    """
    asked = set(names)
    for name in asked:
        row = QUEUE_ATTRIBUTES.get(name)
        if name != ALL and (row is None or (name in _OF_FIFO_ALONE and not fifo)):
            raise _unknown_attribute(name)
    shown: dict[str, str] = {}
    for name, row in QUEUE_ATTRIBUTES.items():
        if name not in asked and (row.beyond_sqs or ALL not in asked):
            continue
        value = read_only.get(name, "") if row.setting == "never" else attributes.get(name, "")
        if row.shown_with and value == row.default and not attributes.get(row.shown_with):
            continue
        if not value and row.shown and (fifo or not row.fifo_only):
            value = row.default
        if value:
            shown[name] = value
    return shown


def _parse_one(name: str, value: str, *, fifo: bool) -> str:
    row = QUEUE_ATTRIBUTES.get(name)
    if row is None or row.setting == "never":
        raise _unknown_attribute(name)
    if name == "FifoQueue":
        return _parse_fifo_queue(value, fifo=fifo)
    if row.fifo_only and not fifo:
        if name in _SCOPED_BY_FIFO:
            raise RefusedError(
                INVALID_ATTRIBUTE_NAME,
                f"You can specify the {name} only when FifoQueue is set to true.",
            )
        raise _unknown_attribute(name)
    if row.standard_only and fifo:
        raise _unknown_attribute(name)
    match row.kind:
        case "integer":
            return _parse_integer(row, value)
        case "boolean":
            return _parse_choice(name, value.lower(), ("true", "false"))
        case "choice":
            return _parse_choice(name, value, row.choices)
        case "document":
            return attribute_documents.parse(name, value)
        case "text":
            if len(value) > row.maximum:
                raise _invalid_value(name)
            return value


def _parse_integer(row: QueueAttribute, value: str) -> str:
    digits = value.isascii() and value.isdigit() and len(value) <= _INTEGER_DIGITS_MAX
    if not digits or not row.minimum <= int(value) <= row.maximum:
        raise _invalid_value(row.name)
    return str(int(value))


def _parse_choice(name: str, value: str, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise _invalid_value(name)
    return value


def _parse_fifo_queue(value: str, *, fifo: bool) -> str:
    """A queue's type is said on creation and never changed; standard queues lack the attribute."""
    if not fifo:
        raise _unknown_attribute("FifoQueue")
    if value.lower() != "true":
        raise RefusedError(
            INVALID_ATTRIBUTE_VALUE,
            "Invalid value for the parameter FifoQueue. "
            "Reason: Modifying queue type is not supported.",
        )
    return "true"


def _unknown_attribute(name: str) -> RefusedError:
    return RefusedError(INVALID_ATTRIBUTE_NAME, f"Unknown Attribute {name}.")


def _invalid_value(name: str) -> RefusedError:
    return RefusedError(INVALID_ATTRIBUTE_VALUE, f"Invalid value for the parameter {name}.")
