"""`tidegate stream get / tail`: the records of a stream."""

import base64
import errno
import json
import os
import select
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, timedelta
from typing import Any, Final

import click

from control_plane.cli.connection import Connect
from control_plane.cli.refusals import or_exit
from control_plane.cli.shard_walk import Record, ShardWalk, follow, stored
from control_plane.cli.start import INTERRUPTED
from control_plane.cli.stream_position import (
    LATEST,
    OLDEST,
    PositionType,
    ShardType,
    StreamPosition,
    now,
    since,
)
from control_plane.cli.tables import printable
from control_plane.cli.times import day
from data_plane.core.limits import GET_RECORDS_MAX

_ROW: Final = "{:<20}  {:>5}  {:<12}  {}"
_KEY_CHARS: Final = 12
_BESIDE_DATA_CHARS: Final = 43
_DATA_CHARS_MIN: Final = 20
_WINDOWS_S: Final = (60, 3_600, 86_400)
_STDOUT: Final = 1

Printed = Callable[[str, Record], None]


def _reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that reads records the options of all of them."""
    options = (
        click.option(
            "--shard",
            type=ShardType(),
            metavar="SHARD",
            show_default="all",
            help="One shard, by its number or id, and those that it became.",
        ),
        click.option("--raw", is_flag=True, help="The data alone, as it was put, a line each."),
        click.option("--json", "as_json", is_flag=True, help="One JSON object a line."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command(short_help="Print the records that a stream has.")
@click.argument("name")
@click.option(
    "--from",
    "start",
    type=PositionType(),
    metavar="POSITION",
    default="trim-horizon",
    help="Begin at trim-horizon, latest, a time (UTC; 10m: so long ago), or a sequence number.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=100,
    metavar="COUNT",
    help="How many records to print at most.",
)
@_reading
@click.pass_obj
def get(  # noqa: PLR0913 - one for each option
    connect: Connect,
    name: str,
    start: StreamPosition,
    limit: int,
    *,
    shard: str | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Print the records that a stream has, shard by shard, and end.

    Records of a shard come in their order. `stream tail -f` goes on with what comes later.
    """
    client = connect("kinesis")

    def found() -> Iterator[tuple[str, Record]]:
        walk = ShardWalk(client, name, start, shard)
        return stored(walk, page_max=min(limit + 1, GET_RECORDS_MAX))

    records = or_exit(found)
    tell = _printer(raw=raw, as_json=as_json)
    for _ in range(limit):
        one = or_exit(lambda: next(records, None))
        if one is None:
            return
        tell(*one)
    if or_exit(lambda: next(records, None)) is not None:
        click.echo(f"tidegate: there are more than {limit}; --limit shows more", err=True)


@click.command(short_help="Print the last records of a stream, and with -f what comes.")
@click.argument("name")
@click.option(
    "-f", "--follow", "follows", is_flag=True, help="Go on with what comes, until Ctrl-C."
)
@click.option(
    "-n",
    "last",
    type=click.IntRange(min=0),
    default=10,
    metavar="COUNT",
    help="How many of the records that are there to begin with.",
)
@click.option(
    "--from",
    "start",
    type=PositionType(),
    metavar="POSITION",
    show_default="the last COUNT records",
    help="Begin at trim-horizon, latest, a time (UTC; 10m: so long ago), or a sequence number.",
)
@_reading
@click.pass_obj
def tail(  # noqa: PLR0913 - one for each option
    connect: Connect,
    name: str,
    *,
    follows: bool,
    last: int,
    start: StreamPosition | None,
    shard: str | None,
    raw: bool,
    as_json: bool,
) -> None:
    """Print the last records of a stream, or those from a position on; with -f what comes later.

    All shards are followed, and those that they become by splits and merges. While the server is
    away, as for a restart, it is asked again.
    """
    client = connect("kinesis")
    try:
        if start is None:
            walk, records = or_exit(lambda: _last(client, name, shard, last))
            tell = _printer(raw=raw, as_json=as_json)
            for one in records:
                tell(*one)
        else:
            walk = or_exit(lambda: ShardWalk(client, name, start, shard))
            tell = _printer(raw=raw, as_json=as_json)
            found = stored(walk, page_max=GET_RECORDS_MAX)
            while (first := or_exit(lambda: next(found, None))) is not None:
                tell(*first)
        if follows:
            or_exit(lambda: _follow(walk, tell))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _last(
    client: Any, stream: str, shard: str | None, count: int
) -> tuple[ShardWalk, list[tuple[str, Record]]]:
    """The records that arrived last, and the walk that has come behind them.

    A shard is read forwards alone: so from a minute ago, and from earlier where that is too few.
    """
    if not count:
        return ShardWalk(client, stream, LATEST, shard), []
    begun = now()
    for position in (*(since(begun - timedelta(seconds=one)) for one in _WINDOWS_S), OLDEST):
        walk = ShardWalk(client, stream, position, shard)
        kept: dict[str, deque[tuple[str, Record]]] = {}
        for one, record in stored(walk, page_max=GET_RECORDS_MAX):
            kept.setdefault(one, deque(maxlen=count)).append((one, record))
        found = [pair for records in kept.values() for pair in records]
        if len(found) >= count:
            break
    found.sort(key=lambda pair: pair[1]["ApproximateArrivalTimestamp"])
    return walk, found[-count:]


def _follow(walk: ShardWalk, tell: Printed) -> None:
    """Print what comes, until nobody reads it any more, or Ctrl-C."""
    # All is printed by then. Threads that wait for answers are not to hold up an orderly end.
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    reader = select.poll()
    reader.register(_STDOUT, 0)
    away = False
    for got in follow(walk):
        # What is printed tells by itself that nobody reads it.
        unread = any(seen & select.POLLERR for _, seen in reader.poll(0))
        if unread and not (got is not None and got.records):
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        if got is None:
            continue
        if got.failure is not None and not away:
            said = " ".join(str(got.failure).split())
            click.echo(f"tidegate: {said}; it is asked again", err=True)
        away = got.failure is not None
        for record in got.records:
            tell(got.shard, record)


def _printer(*, raw: bool, as_json: bool) -> Printed:
    if raw and as_json:
        raise click.UsageError("--raw and --json: one of them")
    if raw:
        return lambda _shard, record: click.echo(record["Data"])
    if as_json:
        return lambda shard, record: click.echo(_as_json(shard, record))
    columns = shutil.get_terminal_size().columns
    chars = max(_DATA_CHARS_MIN, columns - _BESIDE_DATA_CHARS)
    click.echo(_ROW.format("ARRIVED", "SHARD", "KEY", "DATA"))
    return lambda shard, record: click.echo(_as_row(shard, record, chars))


def _as_row(shard: str, record: Record, data_chars: int) -> str:
    # Enough bytes for so many characters.
    data = record["Data"][: 4 * data_chars + 4].decode(errors="replace")
    return _ROW.format(
        day(int(record["ApproximateArrivalTimestamp"].timestamp())),
        int(shard.removeprefix("shardId-")),
        printable(record.get("PartitionKey", ""), _KEY_CHARS),
        printable(data, data_chars),
    ).rstrip()


def _as_json(shard: str, record: Record) -> str:
    arrived = record["ApproximateArrivalTimestamp"].astimezone(UTC)
    told = {
        "ShardId": shard,
        **record,
        "ApproximateArrivalTimestamp": arrived.isoformat(timespec="milliseconds"),
        "Data": base64.b64encode(record["Data"]).decode(),
    }
    return json.dumps(told)
