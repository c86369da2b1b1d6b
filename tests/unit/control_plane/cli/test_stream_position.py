from datetime import UTC, datetime, timedelta, timezone

import click
import pytest

from control_plane.cli.stream_position import (
    LATEST,
    OLDEST,
    PositionType,
    ShardType,
    StreamPosition,
    position_of,
    since,
)
from data_plane.core.sequence_number import sequence_number
from data_plane.core.stream import HASH_KEY_MAX, Shard

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
SHARD = Shard(17, 0, HASH_KEY_MAX, made_s=1_790_000_000)
NUMBER = sequence_number(SHARD, 42, 1_790_000_060_000_000)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("trim-horizon", OLDEST),
        ("TRIM_HORIZON", OLDEST),
        ("latest", LATEST),
        ("10m", since(NOW - timedelta(minutes=10))),
        ("2d", since(NOW - timedelta(days=2))),
        ("999999999d", OLDEST),
        ("2026-11-25", since(datetime(2026, 11, 25, tzinfo=UTC))),
        ("2026-11-26T10:00", since(datetime(2026, 11, 26, 10, tzinfo=UTC))),
        ("2026-11-26T10:00:00Z", since(datetime(2026, 11, 26, 10, tzinfo=UTC))),
        (
            "2026-11-26T10:00+02:00",
            since(datetime(2026, 11, 26, 10, tzinfo=timezone(timedelta(hours=2)))),
        ),
    ],
)
def test_what_is_typed_is_a_position(text: str, position: StreamPosition) -> None:
    assert position_of(text, NOW) == position


def test_a_sequence_number_names_its_shard() -> None:
    position = position_of(NUMBER, NOW)
    assert position.shard == "shardId-000000000017"
    assert position.iterator == {
        "ShardIteratorType": "AT_SEQUENCE_NUMBER",
        "StartingSequenceNumber": NUMBER,
    }


@pytest.mark.parametrize("text", ["", "soon", "10", "10w", "-5m", "1" * 56, "2026-13-01"])
def test_what_is_no_position_is_told_what_would_be_one(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not trim-horizon, latest, a time"):
        PositionType().convert(text, None, None)


def test_a_number_will_do_for_a_shard() -> None:
    for text in ("5", "shardId-000000000005", "shardId-5"):
        assert ShardType().convert(text, None, None) == "shardId-000000000005"
    for text in ("", "x", "shardId-", "-5", "1234567890123", "²"):
        with pytest.raises(click.BadParameter, match="is not a shard"):
            ShardType().convert(text, None, None)
