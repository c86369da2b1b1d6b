"""SendMessage and SendMessageBatch."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from data_plane.core.checksum import (
    md5_of_attributes,
    md5_of_body,
    md5_of_body_in_slices,
    md5_of_trace_header,
)
from data_plane.core.digests import call_hash
from data_plane.core.errors import (
    BATCH_REQUEST_TOO_LONG,
    INVALID_PARAMETER_VALUE,
    UNSUPPORTED_OPERATION,
    RefusedError,
)
from data_plane.core.extended_times import with_extended_delay
from data_plane.core.fifo_rules import read_fifo_outgoing, refusal_of_batch
from data_plane.core.identifiers import sequence_number_text, uuid_text
from data_plane.core.limits import BATCH_SIZE_BYTES_MAX, SMALL_BODY_BYTES_MAX
from data_plane.core.message import Outgoing, SendCall, Sent
from data_plane.core.message_rules import check_no_lists, read_outgoing, rendered_size_bytes
from data_plane.core.queue import Queue
from data_plane.core.turns import InTurns, at_once
from data_plane.operations.batch import (
    Entry,
    Outcome,
    batch_output,
    check_given,
    checked_entries,
    queue_of,
)
from data_plane.operations.message_engine import MessageEngine
from data_plane.protocol.message_shapes import (
    SEND_MESSAGE_BATCH_INPUT,
    SEND_MESSAGE_BATCH_OUTPUT,
    SEND_MESSAGE_INPUT,
    SEND_MESSAGE_OUTPUT,
)
from data_plane.protocol.operation import Call, Operation, Params, Work

ENTRY_NAME: Final = "SendMessageBatchRequestEntry"


def send_message(engine: MessageEngine, in_turns: InTurns = at_once) -> Operation:
    """SendMessage: one message, stored durably before the answer."""

    async def perform(call: Call) -> Params:
        queue = _taking(call)
        check_no_lists(call.params, "SendMessage")
        message = _read(call.params, queue)
        if message.size > queue.message_bytes_max:
            raise _too_long(queue, "are invalid")
        if message.size > SMALL_BODY_BYTES_MAX:
            digests = await in_turns(_digests_in_slices([message]))
        else:
            digests = [_digest(message)]
        (sent,) = await _send(engine, "SendMessage", call, [message], digests)
        return _answer(message, digests[0], sent)

    return Operation(
        "SendMessage", SEND_MESSAGE_INPUT, SEND_MESSAGE_OUTPUT, perform, measure=_measure_send
    )


def send_message_batch(engine: MessageEngine, in_turns: InTurns = at_once) -> Operation:
    """SendMessageBatch: the entries are stored together, in their order.

    An entry that breaks a rule fails alone; in a FIFO queue the whole batch does, and in any queue
    where an attribute has a list.
    """

    async def perform(call: Call) -> Params:
        queue = _taking(call)
        entries = checked_entries(call.params, ENTRY_NAME)
        for entry in entries:
            check_no_lists(entry, "SendMessageBatch")
        read = _read_entries(entries, queue)
        messages = [message for message in read if isinstance(message, Outgoing)]
        answers: Iterator[Params] = iter(())
        if messages:
            if sum([message.size for message in messages]) > SMALL_BODY_BYTES_MAX:
                digests = await in_turns(_digests_in_slices(messages))
            else:
                digests = [_digest(message) for message in messages]
            sent = await _send(engine, "SendMessageBatch", call, messages, digests)
            answers = map(_answer, messages, digests, sent)
        outcomes: list[Outcome] = [
            message if isinstance(message, RefusedError) else next(answers) for message in read
        ]
        return batch_output(entries, outcomes)

    return Operation(
        "SendMessageBatch",
        SEND_MESSAGE_BATCH_INPUT,
        SEND_MESSAGE_BATCH_OUTPUT,
        perform,
        measure=_measure_send_batch,
        action="SendMessage",
    )


def _taking(call: Call) -> Queue:
    """The queue, if messages can be sent to it. Raises RefusedError (UnsupportedOperation)."""
    queue = queue_of(call)
    if queue.reads_stream:
        raise RefusedError(
            UNSUPPORTED_OPERATION,
            f"The queue reads the stream {queue.stream_arn}: put records into that.",
        )
    return queue


def _read(params: Entry, queue: Queue) -> Outgoing:
    if queue.fifo:
        content_based = queue.attributes.get("ContentBasedDeduplication") == "true"
        message = read_fifo_outgoing(params, content_based=content_based)
    else:
        message = read_outgoing(params)
    return with_extended_delay(message, params, queue)


def _read_entries(entries: Sequence[Entry], queue: Queue) -> list[Outgoing | RefusedError]:
    """The messages of a batch, or why an entry is refused. Raises RefusedError for all of them."""
    read: list[Outgoing | RefusedError] = []
    for number, entry in enumerate(entries, start=1):
        try:
            check_given(entry, ENTRY_NAME, number, ("MessageBody",))
            read.append(_read(entry, queue))
        except RefusedError as refusal:
            if queue.fifo:
                raise refusal_of_batch(refusal) from refusal
            read.append(refusal)
    sizes = [message.size if isinstance(message, Outgoing) else 0 for message in read]
    if sum(sizes) > BATCH_SIZE_BYTES_MAX:
        raise RefusedError(
            BATCH_REQUEST_TOO_LONG,
            f"Batch requests cannot be longer than {BATCH_SIZE_BYTES_MAX} bytes. "
            f"You have sent {sum(sizes)} bytes.",
        )
    if queue.fifo and max(sizes) > queue.message_bytes_max:
        raise _too_long(queue, "are invalid")
    return [
        _too_long(queue, "cannot be validated") if size > queue.message_bytes_max else message
        for message, size in zip(read, sizes, strict=True)
    ]


class _Digest(NamedTuple):
    """What an answer says of what was sent; "": there are no attributes."""

    body: str
    attributes: str


def _digests_in_slices(messages: Sequence[Outgoing]) -> Generator[None, None, list[_Digest]]:
    digests = []
    for message in messages:
        yield
        body = yield from md5_of_body_in_slices(message.body)
        digests.append(_Digest(body, _digest_of_attributes(message)))
    return digests


def _digest(message: Outgoing) -> _Digest:
    return _Digest(md5_of_body(message.body), _digest_of_attributes(message))


def _digest_of_attributes(message: Outgoing) -> str:
    return md5_of_attributes(message.attributes) if message.attributes else ""


async def _send(
    engine: MessageEngine,
    operation: str,
    call: Call,
    messages: Sequence[Outgoing],
    digests: Sequence[_Digest],
) -> list[Sent]:
    queue, batch = queue_of(call), operation != "SendMessage"
    traced = _traced(messages, call.trace_header) if call.trace_header else messages
    name = b""
    if call.invocation_id:
        # Who sets the header of a trace on the way may set another one at each attempt.
        name = _call_hash(operation, call, queue, messages, digests)
    sent = SendCall(call.sender, traced, name, call.attempt > 1, batch)
    return await engine.send(queue, sent, stored=call.stored)


def _traced(messages: Sequence[Outgoing], trace_header: str) -> Sequence[Outgoing]:
    """The messages, with the trace of their call where they have none of their own."""
    return [
        message if message.trace_header else replace(message, trace_header=trace_header)
        for message in messages
    ]


def _call_hash(
    operation: str,
    call: Call,
    queue: Queue,
    messages: Sequence[Outgoing],
    digests: Sequence[_Digest],
) -> bytes:
    """16 bytes that a repeated call has in common with the first attempt, and no other call has.

    What is sent is part of it, so that a client that reuses an invocation id loses nothing.
    """
    parts = [operation, call.account, queue.uid, call.invocation_id]
    for message, digest in zip(messages, digests, strict=True):
        parts += (
            *digest,
            str(message.delay_s),
            message.trace_header,
            message.group,
            message.deduplication_id,
        )
    # The representation of a list of texts is unambiguous, whatever the texts contain.
    return call_hash(queue, repr(parts))


def _answer(message: Outgoing, digest: _Digest, sent: Sent) -> Params:
    answer = {
        "MessageId": uuid_text(sent.id),
        "MD5OfMessageBody": digest.body,
    }
    if digest.attributes:
        answer["MD5OfMessageAttributes"] = digest.attributes
    if message.trace_header:
        answer["MD5OfMessageSystemAttributes"] = md5_of_trace_header(message.trace_header)
    if sent.sequence:
        answer["SequenceNumber"] = sequence_number_text(sent.sequence)
    return answer


def _too_long(queue: Queue, verdict: str) -> RefusedError:
    return RefusedError(
        INVALID_PARAMETER_VALUE,
        f"One or more parameters {verdict}. Reason: Message must be shorter than "
        f"{queue.message_bytes_max} bytes.",
    )


def _measure_send(params: Params, _output: Params) -> Work:
    size = rendered_size_bytes(params["MessageBody"], params.get("MessageAttributes"))
    return Work(messages=1, size=size, sent=True)


def _measure_send_batch(params: Params, output: Params) -> Work:
    sent = {entry["Id"] for entry in output.get("Successful", ())}
    sizes = (
        rendered_size_bytes(entry["MessageBody"], entry.get("MessageAttributes"))
        for entry in params["Entries"]
        if entry["Id"] in sent
    )
    failed = len(output.get("Failed", ()))
    return Work(messages=len(sent), size=sum(sizes), failed_entries=failed, sent=True)
