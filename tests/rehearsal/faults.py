"""What can go wrong between a client and a DynamoDB engine, and the plan by which it does."""

import json
import re
import zlib
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final


class Fault(StrEnum):
    """What may happen to a request."""

    # The engine does not get it.
    THROTTLED = "throttled"
    LIMITED = "limited"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    REFUSED = "refused"
    """The connection is reset."""
    SWALLOWED = "swallowed"
    """No answer ever comes."""

    # The engine has done what it says, and the answer goes wrong.
    FAILED_AFTERWARDS = "failed-afterwards"
    """Status 500 in the answer's place."""
    LOST = "lost"
    """The connection is reset instead of the answer."""
    CUT = "cut"
    """The connection is reset in the middle of the answer."""
    SLOW = "slow"
    """The answer comes after the client's patience has ended."""
    SHORTENED = "shortened"
    """Half the body, in a frame that fits it."""
    DAMAGED = "damaged"
    """Some bytes of the body are others."""
    EMPTIED = "emptied"
    """The body of an answer that has nothing to tell."""

    # The engine gets it at another time than the client thinks.
    LATE = "late"
    """After the client's patience has ended; nobody hears the answer."""
    REPEATED = "repeated"
    """At once, and once more later."""


REFUSALS: Final = {
    Fault.THROTTLED: (400, "ProvisionedThroughputExceededException"),
    Fault.LIMITED: (400, "ThrottlingException"),
    Fault.FAILED: (500, "InternalServerError"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable"),
    Fault.FAILED_AFTERWARDS: (500, "InternalServerError"),
}
SPOILING: Final = (Fault.SHORTENED, Fault.DAMAGED, Fault.EMPTIED)

LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_OPERATION: Final = re.compile(rb"\r\nx-amz-target: *DynamoDB_\d+\.(\w+)", re.IGNORECASE)
_DAMAGED_BYTES: Final = 3

_GUST_REQUESTS: Final = 30
_GUST_PERIOD: Final = 3
_GUST_SHARE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Storm:
    """Each request of a storm suffers one of the faults, with the probability `share`.

    With `gusts`, next to nothing passes from time to time.
    """

    seed: int
    faults: tuple[Fault, ...]
    share: float
    gusts: bool = False
    patience_s: float = 2.0
    """How long a client waits for an answer, at most; what comes late comes later than this."""

    @property
    def late_s(self) -> float:
        return 1.5 * self.patience_s

    def fault_of(self, number: int) -> Fault | None:
        """What happens to the storm's request of this number."""
        random = Random(f"{self.seed} {number}")
        in_gust = self.gusts and number // _GUST_REQUESTS % _GUST_PERIOD == _GUST_PERIOD - 1
        share = _GUST_SHARE if in_gust else self.share
        return random.choice(self.faults) if random.random() < share else None


@dataclass(frozen=True, slots=True)
class Packet:
    """A request or an answer as it was on the wire."""

    head: bytes
    body: bytes

    @property
    def operation(self) -> str:
        found = _OPERATION.search(self.head)
        return found[1].decode() if found else ""

    def with_body(self, body: bytes) -> "Packet":
        """Framed to fit, and otherwise as it was: with the checksum of the body that was."""
        return Packet(LENGTH.sub(b"\r\nContent-Length: %d" % len(body), self.head), body)


def refusal(fault: Fault) -> Packet:
    """DynamoDB's own answer where it refuses a request or fails."""
    status, code = REFUSALS[fault]
    text = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "by plan"}
    body = json.dumps(text).encode()
    head = (
        f"HTTP/1.1 {status} {code}\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"x-amz-crc32: {zlib.crc32(body)}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return Packet(head.encode(), body)


def spoilt(answer: Packet, fault: Fault) -> Packet:
    """The answer with a body that its checksum does not fit."""
    body = answer.body
    if fault is Fault.EMPTIED:
        return answer.with_body(b"{}")
    if fault is Fault.SHORTENED:
        return answer.with_body(body[: len(body) // 2])
    random, damaged = Random(body), bytearray(body)
    for place in random.sample(range(len(body)), min(_DAMAGED_BYTES, len(body))):
        damaged[place] ^= random.randint(1, 255)
    return answer.with_body(bytes(damaged))
