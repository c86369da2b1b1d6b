from dataclasses import replace

import pytest

from control_plane.core.definition import Definition, Tombstone, decode, encode, encode_tombstone
from control_plane.core.item_field import UnknownItemFormatError
from data_plane.core.queue import DIGESTS_BY_SECRET, DIGESTS_BY_UID
from tests.unit.repeatable import SECRET

DEFINITION = Definition(
    account="123456789012",
    region="eu-west-1",
    name="orders",
    uid="0123456789abcdef",
    cell="a",
    created_s=1_700_000_000,
    modified_s=1_700_000_100,
    version=7,
    purged_us=1_700_000_050_000_001,
    attributes={"DelaySeconds": "5", "Policy": '{"Statement":[{"Sid":"ü"}]}'},
    tags={"team": "", "ü": "ß"},
    nonce=b"12345678",
)
WHERE = (DEFINITION.account, DEFINITION.region, DEFINITION.name)


def test_a_definition_is_read_as_it_was_written() -> None:
    assert decode(*WHERE, encode(DEFINITION)) == DEFINITION


def test_a_tombstone_is_read_as_it_was_written() -> None:
    tombstone = Tombstone("0123456789abcdef", 1_700_000_000_000_000, 8, b"12345678")
    item = encode_tombstone(tombstone)
    assert decode(*WHERE, item) == tombstone
    assert item["x"] == 1_700_000_000 + 3_600


@pytest.mark.parametrize(
    "change",
    [{"v": 3}, {"v": "1"}, {"k": "z"}, {"u": 5}, {"r": "1"}, {"w": "text"}, {"a": b"{}"}],
    ids=str,
)
def test_an_unknown_format_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(UnknownItemFormatError):
        decode(*WHERE, {**encode(DEFINITION), **change})  # type: ignore[dict-item]


def test_the_data_plane_gets_defaults() -> None:
    queue = DEFINITION.to_queue(SECRET)
    assert (queue.delay_s, queue.visibility_timeout_s, queue.retention_s) == (5, 30, 345_600)
    assert (queue.message_bytes_max, queue.receive_wait_s) == (1_048_576, 0)
    assert (queue.purged_us, queue.version, queue.fifo) == (1_700_000_050_000_001, 7, False)
    assert queue.arn == "arn:aws:sqs:eu-west-1:123456789012:orders"
    assert replace(DEFINITION, attributes={"FifoQueue": "true"}).to_queue(SECRET).fifo


def test_queues_of_before_keep_their_digests() -> None:
    earlier = decode(*WHERE, {**encode(DEFINITION), "v": 1})
    assert isinstance(earlier, Definition)
    assert earlier.to_queue(SECRET).digest_version == DIGESTS_BY_UID
    # A change of one is no reason to hash its names in another way.
    assert encode(replace(earlier, version=8))["v"] == 1
    assert encode(DEFINITION)["v"] == 2
    assert DEFINITION.to_queue(SECRET).digest_version == DIGESTS_BY_SECRET
