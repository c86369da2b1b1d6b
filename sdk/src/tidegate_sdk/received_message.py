"""A message as a handler gets it, and what a handler may say of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import isnan
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message of a queue. `raw` is all that ReceiveMessage said of it."""

    id: str
    body: str
    receipt_handle: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    """The system's: ApproximateReceiveCount, SentTimestamp and so on."""
    message_attributes: Mapping[str, Any] = field(default_factory=dict)
    """The sender's."""
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """A message of an answer of ReceiveMessage."""
        return cls(
            raw["MessageId"],
            raw["Body"],
            raw["ReceiptHandle"],
            raw.get("Attributes", {}),
            raw.get("MessageAttributes", {}),
            raw,
        )

    @property
    def receive_count(self) -> int:
        """How often it was received, this time included."""
        return int(self.attributes.get("ApproximateReceiveCount", "1"))

    @property
    def group(self) -> str:
        """Its message group; nothing where it has none."""
        return self.attributes.get("MessageGroupId", "")


class RejectError(Exception):
    """A handler raises it for a message that it will never be able to handle.

    The message is visible again at once, so that the queue's redrive policy moves it to the dead
    letters after its last receive; with `delete` it is deleted.
    """

    def __init__(self, reason: str = "", *, delete: bool = False) -> None:
        super().__init__(reason)
        self.delete = delete


class RetryError(Exception):
    """A handler raises it for a message that is to come again after so many seconds.

    They are rounded up to whole ones. Raises TypeError, ValueError for what is no time.
    """

    def __init__(self, after_s: float | timedelta, reason: str = "") -> None:
        super().__init__(reason)
        if isinstance(after_s, timedelta):
            after_s = after_s.total_seconds()
        if not isinstance(after_s, int | float):
            raise TypeError(f"after_s is seconds or a timedelta, not {type(after_s).__name__}")
        if isnan(after_s):
            raise ValueError("after_s is not a number")
        self.after_s = after_s

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, which else makes an exception of its text alone."""
        return type(self), (self.after_s, *self.args)
