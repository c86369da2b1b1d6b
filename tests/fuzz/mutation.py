"""A mutator without guidance, for where atheris is not to be had: seeds, spoilt by chance."""

import re
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

_BYTES_MAX: Final = 4096
_TOKENS: Final = (
    *(b"\x00", b"\n", b"\r\n", b"=", b"&", b"%", b"%2F", b"/../", b'"', b"\\ud800", b"null"),
    *(b"[", b"{", b"]" * 40, b"[" * 2_000, b"-1", b"1e999", b"99999999999999999999", b"\xff\xfe"),
    *("é".encode(), b"${aws:username}", b"*", b"arn:aws:sqs:", b"Attribute.1.Name", b": "),
)
_NUMBERS: Final = (b"0", b"-1", b"2147483647", b"9223372036854775807", b"1e999")


def mutations(seeds: Sequence[bytes], random: Random) -> Iterator[bytes]:
    """Inputs without end: each seed as it is, then spoilt ones."""
    yield from seeds
    while True:
        spoilt = random.choice(seeds)
        for _ in range(random.choice((1, 1, 2, 3, 8))):
            spoilt = _spoil(spoilt, seeds, random)
        yield spoilt[:_BYTES_MAX]


def _spoil(octets: bytes, seeds: Sequence[bytes], random: Random) -> bytes:
    start = random.randint(0, len(octets))
    end = min(len(octets), start + random.choice((0, 1, 1, 2, 8, 64)))
    before, there, after = octets[:start], octets[start:end], octets[end:]
    other = random.choice(seeds)
    return before + random.choice(
        (
            after,
            there + there + after,
            random.choice(_TOKENS) + after,
            random.randbytes(len(there)) + after,
            bytes(octet ^ 1 << random.randrange(8) for octet in there[:1]) + there[1:] + after,
            other[random.randint(0, len(other)) :],
            there[::-1] + after,
            _with_another_number(octets[start:], random),
        )
    )


def _with_another_number(octets: bytes, random: Random) -> bytes:
    """The same with another number in the place of the first one."""
    return re.sub(rb"\d+", random.choice(_NUMBERS), octets, count=1)
