"""SendMessage and SendMessageBatch."""

from collections.abc import Sequence
from typing import Final

from data_plane.core.checksum import md5_of_attributes, md5_of_body, md5_of_trace_header
from data_plane.core.digests import call_hash
from data_plane.core.errors import (
    BATCH_REQUEST_TOO_LONG,
    INVALID_PARAMETER_VALUE,
    RefusedError,
    missing_parameter,
)
from data_plane.core.extended_times import with_extended_delay
from data_plane.core.fifo_rules import read_fifo_outgoing, refusal_of_batch
from data_plane.core.identifiers import sequence_number_text, uuid_text
from data_plane.core.limits import BATCH_SIZE_BYTES_MAX
from data_plane.core.message import Outgoing, Sent
from data_plane.core.message_rules import read_outgoing, rendered_size_bytes
from data_plane.core.queue import Queue
from data_plane.operations.batch import Entry, Outcome, batch_output, checked_entries, queue_of
from data_plane.operations.message_engine import MessageEngine
from data_plane.protocol.message_shapes import (
    SEND_MESSAGE_BATCH_INPUT,
    SEND_MESSAGE_BATCH_OUTPUT,
    SEND_MESSAGE_INPUT,
    SEND_MESSAGE_OUTPUT,
)
from data_plane.protocol.operation import Call, Operation, Params, Work

ENTRY_NAME: Final = "SendMessageBatchRequestEntry"


def send_message(engine: MessageEngine) -> Operation:
    """SendMessage: one message, stored durably before the answer."""

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        message = _read(call.params, queue)
        if message.size > queue.message_bytes_max:
            raise _too_long(queue, "are invalid")
        (sent,) = await _send(engine, "SendMessage", call, [message])
        return _answer(message, sent)

    return Operation(
        "SendMessage", SEND_MESSAGE_INPUT, SEND_MESSAGE_OUTPUT, perform, measure=_measure_send
    )


def send_message_batch(engine: MessageEngine) -> Operation:
    """SendMessageBatch: the entries are stored together, in their order.

    An entry that breaks a rule fails alone; in a FIFO queue the whole batch does.
    """

    async def perform(call: Call) -> Params:
        queue = queue_of(call)
        entries = checked_entries(call.params, ENTRY_NAME, ())
        read = _read_entries(entries, queue)
        messages = [message for message in read if isinstance(message, Outgoing)]
        sent = iter(await _send(engine, "SendMessageBatch", call, messages) if messages else ())
        outcomes: list[Outcome] = [
            message if isinstance(message, RefusedError) else _answer(message, next(sent))
            for message in read
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
            if not entry.get("MessageBody"):
                raise missing_parameter(f"{ENTRY_NAME}.{number}.MessageBody")
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


async def _send(
    engine: MessageEngine, operation: str, call: Call, messages: Sequence[Outgoing]
) -> list[Sent]:
    queue, batch = queue_of(call), operation != "SendMessage"
    if not call.invocation_id:
        return await engine.send(queue, call.sender, messages, batch=batch, stored=call.stored)
    return await engine.send(
        queue,
        call.sender,
        messages,
        call=_call_hash(operation, call, queue, messages),
        repeated=call.attempt > 1,
        batch=batch,
        stored=call.stored,
    )


def _call_hash(operation: str, call: Call, queue: Queue, messages: Sequence[Outgoing]) -> bytes:
    """16 bytes that a repeated call has in common with the first attempt, and no other call has.

    What is sent is part of it, so that a client that reuses an invocation id loses nothing.
    """
    parts = [operation, call.account, queue.uid, call.invocation_id]
    for message in messages:
        parts += (
            md5_of_body(message.body),
            md5_of_attributes(message.attributes) if message.attributes else "",
            str(message.delay_s),
            message.trace_header,
            message.group,
            message.deduplication_id,
        )
    # The representation of a list of texts is unambiguous, whatever the texts contain.
    return call_hash(queue, repr(parts))


def _answer(message: Outgoing, sent: Sent) -> Params:
    answer = {
        "MessageId": uuid_text(sent.id),
        "MD5OfMessageBody": md5_of_body(message.body),
    }
    if message.attributes:
        answer["MD5OfMessageAttributes"] = md5_of_attributes(message.attributes)
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
