import base64
import re
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.errors import RECEIPT_HANDLE_IS_INVALID, RefusedError
from data_plane.core.queue import Queue
from data_plane.core.receipt_handle import TEXT_LENGTH, decode, encode
from data_plane.core.tokens import queue_seal
from tests.unit.data_plane.wire import ORDERS

FACTS = (2, 65_535, b"0123456789", 127, 1_790_000_000_123, b"tokentokentok", 1_048_576)
HANDLE = encode(ORDERS, *FACTS)
CLEAR_BITS = 16


def refused(text: str, queue: Queue = ORDERS) -> tuple[object, str]:
    with pytest.raises(RefusedError) as refusal:
        decode(text, queue)
    return refusal.value.fault, refusal.value.message


def refusal_of(text: str) -> tuple[object, str]:
    message = f'The input receipt handle "{text}" is not a valid receipt handle.'
    return RECEIPT_HANDLE_IS_INVALID, message


def refusal_of_another(text: str) -> tuple[object, str]:
    """Of what has the form of a handle."""
    return RECEIPT_HANDLE_IS_INVALID, f'The receipt handle "{text}" is not valid for this queue.'


def test_a_handle_says_what_was_sealed() -> None:
    handle = decode(HANDLE, ORDERS)
    place = (handle.lane, handle.epoch, handle.block, handle.index)
    assert (*place, handle.sent_ms, handle.token, handle.size_bytes) == FACTS
    assert handle.text == HANDLE
    assert len(HANDLE) == TEXT_LENGTH
    assert encode(ORDERS, *FACTS) == HANDLE


def test_nothing_of_it_is_in_clear_but_the_version() -> None:
    octets = base64.b64decode(HANDLE)
    other = base64.b64decode(encode(ORDERS, 2, 65_535, *FACTS[2:5], b"tokentokentoK", 9))
    assert octets[:2] == other[:2] == b"\x03\x00"
    for known in (FACTS[2], FACTS[5], bytes.fromhex(ORDERS.uid)):
        assert known not in octets
    # One bit of the token: nothing else stays as it was.
    assert sum(a == b for a, b in zip(octets[2:], other[2:], strict=True)) < 6


def test_no_bit_of_it_can_be_changed() -> None:
    octets = base64.b64decode(HANDLE)
    for bit in range(len(octets) * 8):
        changed = bytearray(octets)
        changed[bit // 8] ^= 1 << bit % 8
        text = base64.b64encode(changed).decode()
        assert refused(text) == (refusal_of if bit < CLEAR_BITS else refusal_of_another)(text)


def test_it_is_base64_as_those_of_sqs_are() -> None:
    """The extended client for Python takes what is behind the last hyphen for the handle."""
    for number in range(100):
        handle = encode(ORDERS, *FACTS[:4], number, *FACTS[5:])
        assert re.fullmatch(r"[A-Za-z0-9+/]+", handle)
        assert decode(handle, ORDERS).sent_ms == number


def test_handles_of_before_are_read() -> None:
    """Those were base64url."""
    of_before = HANDLE.replace("/", "_").replace("+", "-")
    assert of_before != HANDLE
    handle = decode(of_before, ORDERS)
    assert (handle.token, handle.text) == (FACTS[5], of_before)


def test_it_has_one_length_and_one_spelling() -> None:
    for length in range(len(HANDLE)):
        assert refused(HANDLE[:length]) == refusal_of(HANDLE[:length])
    handles = (encode(ORDERS, *FACTS[:3], index, *FACTS[4:]) for index in range(100))
    mixed = next(one for one in handles if one.count("/") > 1).replace("/", "_", 1)
    for text in (mixed, HANDLE + "=", HANDLE + "A", HANDLE + "\n", " " + HANDLE[1:], HANDLE * 20):
        assert refused(text) == refusal_of(text)


@pytest.mark.parametrize(
    "other",
    [
        replace(ORDERS, name="order"),
        replace(ORDERS, account="123456789013"),
        replace(ORDERS, region="eu-west-2"),
        replace(ORDERS, uid="00112233445566fe"),  # deleted, and created again
        replace(ORDERS, secret=bytes(32)),
    ],
)
def test_it_is_of_no_other_queue(other: Queue) -> None:
    assert refused(HANDLE, other) == refusal_of_another(HANDLE)


def test_handles_of_before_that_say_no_size_are_good() -> None:
    fields = struct.pack(">BH10sB6s13s", 2, 3, FACTS[2], 127, FACTS[4].to_bytes(6, "big"), FACTS[5])
    sealed = queue_seal(ORDERS, "receipt handles").seal(fields)
    text = base64.urlsafe_b64encode(b"\x02\x00" + sealed).decode()
    handle = decode(text, ORDERS)
    assert (len(text), handle.epoch, handle.sent_ms, handle.size_bytes) == (68, 3, FACTS[4], 0)
    # Neither passes for the other.
    for octets in (b"\x03\x00" + sealed, b"\x02" + base64.b64decode(HANDLE)[1:]):
        changed = base64.b64encode(octets).decode()
        assert refused(changed) == refusal_of(changed)


def test_handles_that_were_not_sealed_are_none() -> None:
    earlier = base64.b64encode(b"\x01" + bytes(47)).decode()
    assert refused(earlier) == refusal_of(earlier)


@given(st.text(max_size=80) | st.from_regex(rf"[A-Za-z0-9_-]{{{TEXT_LENGTH}}}", fullmatch=True))
def test_what_nobody_sealed_is_none(text: str) -> None:
    assert refused(text) in (refusal_of(text), refusal_of_another(text))


def test_the_partition_of_a_region_is_not_what_it_is_bound_to() -> None:
    """Handles, tokens and data keys of before 0.2 were bound to an ARN of `aws` in all regions."""
    queue = replace(ORDERS, region="cn-north-1")
    assert queue.arn.startswith("arn:aws-cn:sqs:cn-north-1:")
    assert queue.bound_name == queue.arn.replace("aws-cn", "aws")


def test_a_queue_without_a_secret_has_no_handles() -> None:
    bare = replace(ORDERS, secret=b"")
    with pytest.raises(ValueError, match="a secret has 32 bytes, not 0"):
        encode(bare, *FACTS)
    with pytest.raises(ValueError, match="a secret has 32 bytes, not 0"):
        decode(HANDLE, bare)
