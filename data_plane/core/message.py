"""Messages as values: what a sender hands in, what a receiver gets."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec


class MessageAttribute(NamedTuple):
    """A typed value; `data_type` is `String`, `Number` or `Binary`, maybe with a custom label.

    String and Number values are kept as their UTF-8 bytes.
    """

    data_type: str
    value: bytes


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A validated message on its way into a queue.

    `attributes` are sorted by name. `delay_s` is None where the sender leaves it to the queue.
    `trace_header` is the one system attribute a sender may set (AWSTraceHeader), `group` the
    message group id ("" for none). `size` is what limits and bills count, in bytes.
    `deduplication_id` is that of a FIFO message, given or made from its body; standard queues
    have none. `moved` is the message itself where another queue had it: it keeps what it is.
    """

    body: str
    attributes: tuple[tuple[str, MessageAttribute], ...] = ()
    delay_s: int | None = None
    trace_header: str = ""
    group: str = ""
    size: int = 0
    deduplication_id: str = ""
    moved: "Message | None" = None


class SendCall(msgspec.Struct, frozen=True, gc=False):
    """A call that sends: `messages` of one `sender`, as a `batch` or alone.

    `name` (16 bytes) names the SDK's call (b"": it has none). One that is `repeated`, and took
    effect before, is answered with the ids of then.
    """

    sender: str
    messages: Sequence[Outgoing]
    name: bytes = b""
    repeated: bool = False
    batch: bool = False


class Sent(NamedTuple):
    """What became of a message that was sent: its id (16 bytes), and its place in a FIFO queue.

    `sequence` is the sequence number, 0 in a standard queue. A duplicate gets what the first had.
    """

    id: bytes
    sequence: int = 0


LONG_TERM: Final = "long-term"
"""A read of records that are older than a week."""

ON_DEMAND: Final = "on-demand"
"""A change after which a stream is on demand."""


@dataclass(slots=True)
class Stored:
    """What a call that sends has stored, noted by the engine as it does: duplicates are not in it.

    `counted`: what was stored says of itself that the call is one (docs/storage.md, `r`). Of what
    `kind` a call was, where calls of one operation have several prices: LONG_TERM reads, say.
    """

    messages: int = 0
    size_bytes: int = 0
    counted: bool = False
    kind: str = ""


class Message(msgspec.Struct, frozen=True, gc=False):
    """A stored message. `id` has 16 bytes; SQS shows it as a UUID. `sender` is an account id.

    `sequence` and `deduplication_id` are those of a FIFO message. `dead_letter_source` is the ARN
    of the queue from which a dead-letter queue got it ("": it was sent); there it had been
    received `received` times, first at `first_received_ms`.
    """

    id: bytes
    body: str
    attributes: tuple[tuple[str, MessageAttribute], ...]
    trace_header: str
    group: str
    sender: str
    sent_ms: int
    sequence: int = 0
    deduplication_id: str = ""
    dead_letter_source: str = ""
    received: int = 0
    first_received_ms: int = 0


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message handed to a receiver.

    `receive_count` includes this delivery; `first_received_ms` is the time of the first one.
    """

    message: Message
    receipt_handle: str
    receive_count: int
    first_received_ms: int


class Redriven(NamedTuple):
    """How many messages were moved, whether there may be more, and why one was not, if so.

    A RefusedError says that there is nowhere to move it to; after another failure it may be moved,
    a while later.
    """

    moved: int
    more: bool
    failure: Exception | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Approximate numbers of messages of one queue, and when the oldest was sent (0: none).

    `dead` are visible dead letters of a queue of the Kinesis API; they are not among `visible`.
    """

    visible: int
    in_flight: int
    delayed: int
    oldest_sent_ms: int
    dead: int = 0
