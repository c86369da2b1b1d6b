"""How accounts, regions, queues, messages and requests are named."""

import re
from typing import Final

from data_plane.core.limits import (
    BATCH_ENTRY_ID_CHARS_MAX,
    DEDUPLICATION_ID_CHARS_MAX,
    GROUP_ID_CHARS_MAX,
    QUEUE_NAME_CHARS_MAX,
    RECEIVE_ATTEMPT_ID_CHARS_MAX,
)

is_account: Final = re.compile(r"[0-9]{12}").fullmatch
is_region: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}").fullmatch
is_host: Final = re.compile(
    r"[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?"
).fullmatch
"""A name or address with or without a port, as in the Host header."""
is_queue_name: Final = re.compile(
    rf"(?=.{{1,{QUEUE_NAME_CHARS_MAX}}}\Z)[A-Za-z0-9_-]+(\.fifo)?"
).fullmatch
is_shown_name: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}|\*").fullmatch
"""Whether any service has resources of this name; "*" stands for all of them."""
is_batch_entry_id: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{BATCH_ENTRY_ID_CHARS_MAX}}}").fullmatch
# Alphanumeric ASCII and punctuation: every printable character but the space.
is_group_id: Final = re.compile(rf"[!-~]{{1,{GROUP_ID_CHARS_MAX}}}").fullmatch
is_deduplication_id: Final = re.compile(rf"[!-~]{{1,{DEDUPLICATION_ID_CHARS_MAX}}}").fullmatch
is_receive_attempt_id: Final = re.compile(rf"[!-~]{{1,{RECEIVE_ATTEMPT_ID_CHARS_MAX}}}").fullmatch


def uuid_text(value: bytes) -> str:
    """16 bytes in the form of a UUID, as SQS shows message and request ids."""
    digits = value.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def random_uuid(random: bytes) -> bytes:
    """16 random bytes in the form of a UUID of version 4 (RFC 9562): an id for a message."""
    raw = bytearray(random)
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    return bytes(raw)


def random_uuid_text(random: bytes) -> str:
    """16 random bytes as a UUID of version 4 (RFC 9562), which keeps 122 bits of them."""
    digits = random.hex()
    variant = "89ab"[random[8] >> 6]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def sequence_number_text(sequence: int) -> str:
    """A sequence number as SQS shows it: 20 digits, so that they sort as texts too."""
    return f"{sequence:020}"
