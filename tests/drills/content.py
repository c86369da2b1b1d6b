"""What the message of a number says: so that it need not be remembered to be compared."""

import base64
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from data_plane.core.checksum import md5_of_attributes, md5_of_body
from data_plane.core.message import MessageAttribute

NUMBER_DIGITS: Final = 12

Sizes = Sequence[tuple[int, int, int]]
"""Ranges of body sizes in bytes: from, to, and how often."""

MIXED: Final[Sizes] = ((20, 2_000, 85), (2_000, 20_000, 12), (20_000, 200_000, 3))
BIG: Final[Sizes] = ((20, 2_000, 1), (50_000, 95_000, 4))
"""Ten of the big ones just make a batch; small ones find the last gaps."""

_ATTRIBUTES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Content:
    """A message as it is sent, and the digests that answers about it must show."""

    body: str
    attributes: dict[str, dict[str, str]]
    md5_of_body: str
    md5_of_attributes: str


def content_of(number: int, sizes: Sizes = MIXED) -> Content:
    """The message of a number, always the same one."""
    source = random.Random(number)
    low, high, _ = source.choices(sizes, [weight for *_, weight in sizes])[0]
    size = source.randint(low, high)
    filling = base64.b64encode(source.randbytes(size * 3 // 4)).decode()
    body = f"{number:0{NUMBER_DIGITS}d} ✓ {filling}"
    typed: dict[str, MessageAttribute] = {}
    shown: dict[str, dict[str, str]] = {}
    for at in range(source.randint(0, _ATTRIBUTES_MAX)):
        kind = source.choice(("String", "Number.int", "Binary"))
        name = f"{kind}-{at}"
        if kind == "Binary":
            raw = source.randbytes(16)
            shown[name] = {"DataType": kind, "BinaryValue": base64.b64encode(raw).decode()}
        else:
            text = str(source.getrandbits(40))
            raw = text.encode()
            shown[name] = {"DataType": kind, "StringValue": text}
        typed[name] = MessageAttribute(kind, raw)
    digest = md5_of_attributes(sorted(typed.items())) if typed else ""
    return Content(body, shown, md5_of_body(body), digest)


def number_in(message: Mapping[str, Any]) -> int | None:
    """The number that a received message says it has; None: it says none."""
    digits = str(message.get("Body", ""))[:NUMBER_DIGITS]
    return int(digits) if len(digits) == NUMBER_DIGITS and digits.isdecimal() else None


def differences(message: Mapping[str, Any], sent: Content) -> list[str]:
    """In what a received message is not as it was sent."""
    pairs = (
        ("body", message.get("Body"), sent.body),
        ("attributes", message.get("MessageAttributes", {}), sent.attributes),
        ("MD5 of body", message.get("MD5OfBody"), sent.md5_of_body),
        (
            "MD5 of attributes",
            message.get("MD5OfMessageAttributes", ""),
            sent.md5_of_attributes,
        ),
    )
    return [name for name, found, expected in pairs if found != expected]
