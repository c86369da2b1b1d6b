"""Where in a stream to begin to read, and which of its shards is meant, as people type it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import click

from data_plane.core.sequence_number import DIGITS, parse
from data_plane.operations.stream_address import shard_id
from data_plane.system import SystemClock

_SHARD_DIGITS: Final = 12
_ago: Final = re.compile(r"([0-9]{1,9})([smhd])").fullmatch
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def now() -> datetime:
    """The time of this machine."""
    return datetime.fromtimestamp(SystemClock().now_us() / 1_000_000, UTC)


class StreamPosition(NamedTuple):
    """A place in each shard, as GetShardIterator takes it; or in one `shard` alone."""

    iterator: dict[str, Any]
    shard: str | None = None

    @property
    def is_latest(self) -> bool:
        """Whether it is behind all that is stored now."""
        return bool(self.iterator["ShardIteratorType"] == "LATEST")

    @property
    def of_group(self) -> dict[str, Any]:
        """The same, as operations on consumer groups take it."""
        names = {"ShardIteratorType": "Type", "StartingSequenceNumber": "SequenceNumber"}
        return {names.get(name, name): told for name, told in self.iterator.items()}


OLDEST: Final = StreamPosition({"ShardIteratorType": "TRIM_HORIZON"})
LATEST: Final = StreamPosition({"ShardIteratorType": "LATEST"})


def since(time: datetime) -> StreamPosition:
    """The first record that arrived then or later."""
    return StreamPosition({"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": time})


def position_of(text: str, now: datetime) -> StreamPosition:
    """The place that a text means. Raises ValueError for one that means none."""
    named = {"trim-horizon": OLDEST, "latest": LATEST}.get(text.lower().replace("_", "-"))
    if named is not None:
        return named
    if text.isdigit() and len(text) == DIGITS:
        at = {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": text}
        return StreamPosition(at, shard_id(parse(text).shard))
    ago = _ago(text)
    if ago is not None:
        try:
            return since(now - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
        except OverflowError:
            return OLDEST
    time = datetime.fromisoformat(text)
    return since(time if time.tzinfo is not None else time.replace(tzinfo=UTC))


class PositionType(click.ParamType[StreamPosition]):
    """An option that is a position."""

    name = "position"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> StreamPosition:
        """The position that was typed."""
        try:
            return position_of(value, now())
        except ValueError:
            self.fail(
                f"{value!r} is not trim-horizon, latest, a time such as 10m or 2026-11-26T12:00Z,"
                " or a sequence number",
                param,
                ctx,
            )


class ShardType(click.ParamType[str]):
    """The id of a shard; its number will do."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The id, as AWS spells it."""
        digits = str(value).removeprefix("shardId-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= _SHARD_DIGITS):
            self.fail(f"{value!r} is not a shard, such as 0 or shardId-000000000000", param, ctx)
        return shard_id(int(digits))
