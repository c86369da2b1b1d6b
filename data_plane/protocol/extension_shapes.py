"""What requests may carry beyond SQS, apart from the shapes of SQS: `sdk/` shows it to clients.

Every name begins with `Tidegate`, so that no later SQS can mean something else by it. No answer of
an SQS operation has a member of ours: a client that does not ask for one never sees any.
"""

from collections.abc import Mapping
from typing import Final

from data_plane.protocol.shapes import INTEGER, ListOf, Shape, Structure

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


def extended_input(operation: str, sqs: Structure) -> Structure:
    """The shape by which a request is read: that of SQS and what this operation may have more."""
    extra = EXTRA_MEMBERS.get(operation)
    if extra is None:
        return sqs
    entries = sqs.members.get("Entries")
    if isinstance(entries, ListOf) and isinstance(entries.member, Structure):
        entry = Structure({**entries.member.members, **extra}, entries.member.required)
        members = {**sqs.members, "Entries": ListOf(entry, entries.query_name)}
        return Structure(members, sqs.required)
    return Structure({**sqs.members, **extra}, sqs.required)


def is_given(params: Mapping[str, object], name: str) -> bool:
    """Whether a required member of SQS is given and not empty, or ours in its place."""
    given = params.get(name)
    if given is None:
        given = params.get(STANDS_FOR.get(name, name))
    return given not in (None, "")
