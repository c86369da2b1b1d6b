"""Messages as answers show them, and what of them a caller has asked for."""

from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from data_plane.core.checksum import md5_of_attributes, md5_of_body, md5_of_body_in_slices
from data_plane.core.identifiers import sequence_number_text, uuid_text
from data_plane.core.message import Delivery, MessageAttribute
from data_plane.core.message_rules import rendered_size_bytes
from data_plane.protocol.operation import Params, Work

SYSTEM_ATTRIBUTES: Final = frozenset(
    {
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
        "SequenceNumber",
        "MessageDeduplicationId",
        "MessageGroupId",
        "AWSTraceHeader",
        "DeadLetterQueueSourceArn",
    }
)

_SLICE_BYTES: Final = 65_536
"""So much is rendered, and hashed, in a fraction of a millisecond."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Which attributes to return: nothing is returned unless asked for."""

    system: Collection[str]
    names: frozenset[str]
    prefixes: tuple[str, ...]

    def attributes(
        self, attributes: tuple[tuple[str, MessageAttribute], ...]
    ) -> Sequence[tuple[str, MessageAttribute]]:
        """Those of a message's attributes that were asked for, still sorted by name."""
        return [
            attribute
            for attribute in attributes
            if attribute[0] in self.names or attribute[0].startswith(self.prefixes)
        ]


EVERYTHING: Final = Choice(SYSTEM_ATTRIBUTES, frozenset(), ("",))


def rendered(delivery: Delivery, choice: Choice) -> dict[str, Any]:
    """A delivered message as a member of an answer."""
    return _rendered(delivery, choice, md5_of_body(delivery.message.body))


def _rendered(delivery: Delivery, choice: Choice, digest: str) -> dict[str, Any]:
    message = delivery.message
    answer: dict[str, Any] = {
        "MessageId": uuid_text(message.id),
        "ReceiptHandle": delivery.receipt_handle,
        "MD5OfBody": digest,
        "Body": message.body,
    }
    if choice.system:
        system = _system_attributes(delivery)
        wanted = {name: system[name] for name in system if name in choice.system}
        if wanted:
            answer["Attributes"] = wanted
    attributes = choice.attributes(message.attributes)
    if attributes:
        answer["MD5OfMessageAttributes"] = md5_of_attributes(attributes)
        answer["MessageAttributes"] = {
            name: _render_attribute(attribute) for name, attribute in attributes
        }
    return answer


def rendered_in_slices(
    deliveries: Sequence[Delivery], choice: Choice
) -> Generator[None, None, list[dict[str, Any]]]:
    """Delivered messages as members of an answer; others have their turn in long ones."""
    answers: list[dict[str, Any]] = []
    size = 0
    for delivery in deliveries:
        message = delivery.message
        size += len(message.body) + sum(len(value.value) for _, value in message.attributes)
        if size > _SLICE_BYTES:
            yield
            size = 0
        digest = yield from md5_of_body_in_slices(message.body)
        answers.append(_rendered(delivery, choice, digest))
    return answers


def _system_attributes(delivery: Delivery) -> Mapping[str, str]:
    message = delivery.message
    system = {
        "SenderId": message.sender,
        "SentTimestamp": str(message.sent_ms),
        "ApproximateReceiveCount": str(delivery.receive_count),
        "ApproximateFirstReceiveTimestamp": str(delivery.first_received_ms),
    }
    if message.group:
        system["MessageGroupId"] = message.group
    if message.sequence:
        system["SequenceNumber"] = sequence_number_text(message.sequence)
        system["MessageDeduplicationId"] = message.deduplication_id
    if message.trace_header:
        system["AWSTraceHeader"] = message.trace_header
    if message.dead_letter_source:
        system["DeadLetterQueueSourceArn"] = message.dead_letter_source
    return system


def _render_attribute(attribute: MessageAttribute) -> Params:
    if attribute.data_type.startswith("Binary"):
        return {"BinaryValue": attribute.value, "DataType": attribute.data_type}
    return {"StringValue": attribute.value.decode(), "DataType": attribute.data_type}


def measure_messages(_params: Params, output: Params) -> Work:
    """Work of an answer with messages."""
    messages = output.get("Messages", ())
    sizes = (
        rendered_size_bytes(message["Body"], message.get("MessageAttributes"))
        for message in messages
    )
    return Work(messages=len(messages), size=sum(sizes))
