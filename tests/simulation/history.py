"""What happened in a universe: calls, their attempts and answers, faults."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

OK = 200


@dataclass(slots=True)
class Attempt:
    """One request of a call, at one front end.

    `answered_us` is when the front end had answered (None: it never did), also where the answer
    was lost afterwards: what is answered is promised. `spent` counts the requests to cells.
    """

    call: "Call"
    number: int
    front_end: str
    invoked_us: int
    answered_us: int | None = None
    status: int = 0
    output: Mapping[str, Any] = field(default_factory=dict)
    spent: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool:
        """Whether the front end promised what was asked."""
        return self.answered_us is not None and self.status == OK


@dataclass(slots=True)
class Call:
    """A call of a client's SDK: one invocation id, up to some attempts."""

    number: int
    client: str
    operation: str
    queue: str
    params: Mapping[str, Any]
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def invocation_id(self) -> str:
        """As sent in `amz-sdk-invocation-id`."""
        return f"call-{self.number}"


class History:
    """Everything in the order in which it happened; `broken` are failures seen on the spot."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.attempts: list[Attempt] = []
        self.events: list[tuple[int, str]] = []
        self.broken: list[str] = []

    def call(self, client: str, operation: str, queue: str, params: Mapping[str, Any]) -> Call:
        """A client begins a call."""
        call = Call(len(self.calls), client, operation, queue, params)
        self.calls.append(call)
        return call

    def invoke(self, now_us: int, call: Call, front_end: str) -> Attempt:
        """A client sends a request."""
        attempt = Attempt(call, len(call.attempts) + 1, front_end, now_us)
        call.attempts.append(attempt)
        self.attempts.append(attempt)
        self.note(
            now_us,
            f"{call.client} #{call.number}.{attempt.number} -> {front_end}: {call.operation}"
            f" {call.queue} {dict(call.params)}",
        )
        return attempt

    def answer(self, now_us: int, attempt: Attempt, status: int, output: Mapping[str, Any]) -> None:
        """A front end answered."""
        attempt.answered_us, attempt.status, attempt.output = now_us, status, output
        self.note(
            now_us,
            f"{attempt.front_end} #{attempt.call.number}.{attempt.number}: {status} {dict(output)}",
        )

    def note(self, now_us: int, text: str) -> None:
        """Something else happened."""
        self.events.append((now_us, text))

    def digest(self) -> str:
        """Equal for equal histories."""
        return hashlib.blake2b(repr(self.events).encode(), digest_size=16).hexdigest()

    def around(self, words: list[str], *, context: int = 0) -> list[str]:
        """The events that contain one of the words, as lines."""
        hits = [i for i, (_, text) in enumerate(self.events) if any(w in text for w in words)]
        near = sorted({j for i in hits for j in range(i - context, i + context + 1)})
        return [self.line(i) for i in near if 0 <= i < len(self.events)]

    def line(self, index: int) -> str:
        """An event with its time in seconds since the first."""
        time_us, text = self.events[index]
        return f"{(time_us - self.events[0][0]) / 1_000_000:12.6f}  {text}"
