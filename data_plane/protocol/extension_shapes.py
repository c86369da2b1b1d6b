"""What requests may carry beyond SQS, apart from the shapes of SQS: `sdk/` shows it to clients.

Every name begins with `Tidegate`, so that no later SQS can mean something else by it. No answer of
an SQS operation has a member of ours: a client that does not ask for one never sees any.
"""

from collections.abc import Mapping
from typing import Final

from data_plane.protocol.message_shapes import ATTRIBUTE_VALUE
from data_plane.protocol.shapes import INTEGER, STRING, ListOf, MapOf, Shape, Structure

DELAY: Final = "TidegateDelaySeconds"
VISIBILITY_TIMEOUT: Final = "TidegateVisibilityTimeout"

STANDS_FOR: Final[Mapping[str, str]] = {
    "DelaySeconds": DELAY,
    "VisibilityTimeout": VISIBILITY_TIMEOUT,
}
"""Member of SQS -> member of ours that may be given in its place."""

EXTRA_MEMBERS: Final[Mapping[str, Mapping[str, Shape]]] = {
    "SendMessage": {DELAY: INTEGER},
    "SendMessageBatch": {DELAY: INTEGER},
    "ReceiveMessage": {VISIBILITY_TIMEOUT: INTEGER},
    "ChangeMessageVisibility": {VISIBILITY_TIMEOUT: INTEGER},
    "ChangeMessageVisibilityBatch": {VISIBILITY_TIMEOUT: INTEGER},
}
"""By operation, what its input may have besides; in a batch, each of its entries."""

BROWSE_MESSAGES_INPUT: Final = Structure(
    {"QueueUrl": STRING, "MaxNumberOfMessages": INTEGER, "NextToken": STRING},
    required=("QueueUrl",),
)
BROWSE_MESSAGES_OUTPUT: Final = Structure(
    {
        "Messages": ListOf(
            Structure(
                {
                    "MessageId": STRING,
                    "State": STRING,
                    "VisibleTimestamp": STRING,
                    "MD5OfBody": STRING,
                    "Body": STRING,
                    "Attributes": MapOf(STRING, "Attribute"),
                    "MD5OfMessageAttributes": STRING,
                    "MessageAttributes": MapOf(ATTRIBUTE_VALUE, "MessageAttribute"),
                }
            ),
            "Message",
        ),
        "NextToken": STRING,
    }
)


def extended_input(operation: str, sqs: Structure) -> Structure:
    """The shape by which a request is read: that of SQS and what this operation may have more.

    It requires no member that one of ours may stand for.
    """
    extra = EXTRA_MEMBERS.get(operation)
    if extra is None:
        return sqs
    required = tuple(name for name in sqs.required if STANDS_FOR.get(name) not in extra)
    entries = sqs.members.get("Entries")
    if isinstance(entries, ListOf) and isinstance(entries.member, Structure):
        entry = Structure({**entries.member.members, **extra}, entries.member.required)
        members = {**sqs.members, "Entries": ListOf(entry, entries.query_name)}
        return Structure(members, required)
    return Structure({**sqs.members, **extra}, required)


def is_given(params: Mapping[str, object], name: str) -> bool:
    """Whether a required member of SQS is given and not empty, or ours in its place."""
    given = params.get(name)
    if given is None:
        given = params.get(STANDS_FOR.get(name, name))
    return given not in (None, "")
