import uuid

import pytest

from data_plane.core.identifiers import (
    is_account,
    is_group_id,
    is_queue_name,
    is_region,
    random_uuid_text,
    uuid_text,
)


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("a", True),
        ("A-z_9", True),
        ("a" * 80, True),
        ("a" * 81, False),
        ("a" * 75 + ".fifo", True),
        ("a" * 76 + ".fifo", False),
        (".fifo", False),
        ("a.b", False),
        ("a.fifo.fifo", False),
        ("", False),
        ("a\n", False),
        ("\u00fc", False),
    ],
)
def test_queue_names(name: str, *, valid: bool) -> None:
    assert bool(is_queue_name(name)) is valid


def test_group_ids_are_printable_ascii_without_space() -> None:
    every = "".join(map(chr, range(0x21, 0x7F)))
    assert is_group_id(every)
    assert is_group_id("a" * 128)
    assert not is_group_id("a" * 129)
    assert not any(is_group_id(wrong) for wrong in ("", " ", "a b", "\x7f", "\u00fc", "a\n"))


def test_accounts_and_regions() -> None:
    assert is_account("000000000000")
    assert not any(is_account(wrong) for wrong in ("", "1" * 11, "1" * 13, "\u0661" * 12))
    assert is_region("us-gov-east-1")
    assert not any(is_region(wrong) for wrong in ("", "US", "a/b", "a" * 33))


def test_ids_have_the_form_of_uuids() -> None:
    assert uuid_text(bytes(range(16))) == str(uuid.UUID(bytes=bytes(range(16))))
    for random in (b"\0" * 16, b"\xff" * 16, bytes(range(100, 116))):
        made = uuid.UUID(random_uuid_text(random))
        assert made.version == 4
        assert made.variant == uuid.RFC_4122
