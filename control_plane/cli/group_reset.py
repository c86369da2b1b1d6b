"""`tidegate group reset`: let a group begin elsewhere, after a look at what that would mean."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import click

from control_plane.cli.confirming import confirm
from control_plane.cli.connection import Connect
from control_plane.cli.group_shards import done, number_of, stream_of
from control_plane.cli.refusals import or_exit
from control_plane.cli.stream_position import PositionType, ShardType, StreamPosition, now
from control_plane.cli.tables import Cell, json_option, tell
from control_plane.cli.times import day

_COLUMNS: Final = (
    *("STREAM", "SHARD", "DONE", "DONE THEN"),
    *("UNREAD", "UNREAD THEN", "FIRST TO READ"),
)
_NOT_READ: Final = "not read"


@click.command(short_help="Let a group begin elsewhere; shows before what that means.")
@click.argument("name")
@click.option(
    "--to",
    "start",
    type=PositionType(),
    metavar="POSITION",
    required=True,
    help="Begin at trim-horizon, latest, a time (UTC; 10m: so long ago), or a sequence number.",
)
@click.option(
    "--shard",
    "shards",
    type=ShardType(),
    metavar="SHARD",
    multiple=True,
    show_default="all",
    help="One shard, by its number or id; may be repeated.",
)
@click.option(
    "--stream",
    metavar="STREAM",
    show_default="the only one that the group reads",
    help="The stream of --shard, or of the sequence number.",
)
@click.option("--dry-run", is_flag=True, help="Show it, and do nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def reset(  # noqa: PLR0913 - one for each option
    connect: Connect,
    name: str,
    *,
    start: StreamPosition,
    shards: tuple[str, ...],
    stream: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Let a group without members begin elsewhere, in all its shards or in some.

    Shows before, shard by shard, how far the group is (DONE: the number of the last record that is
    committed) and what it would read then, and asks.
    """
    if as_json and not (dry_run or yes):
        raise click.UsageError("--json needs --dry-run or --yes: nobody is asked")
    if stream and not (shards or start.shard):
        raise click.UsageError("--stream needs --shard, or a sequence number")
    client = connect("kinesis")

    def named() -> dict[str, Any]:
        wanted = shards or ((start.shard,) if start.shard else ())
        if not wanted:
            return {}
        arn = _stream_arn(client, name, stream)
        return {"Shards": [{"StreamARN": arn, "ShardId": shard} for shard in wanted]}

    asked = {"GroupName": name, "StartingPosition": start.of_group, **or_exit(named)}
    foreseen = or_exit(lambda: _foreseen(client, asked))
    tell(_COLUMNS, map(_row, foreseen), as_json=as_json)
    if not as_json:
        click.echo(_said(foreseen, "It would" if dry_run or not yes else "It will"))
    if dry_run:
        return
    if not yes:
        confirm(f"Reset group {name}?")
    or_exit(lambda: client.tidegate_reset_offsets(**asked))
    if not as_json:
        click.echo(f"Reset {name}.")


def _foreseen(client: Any, asked: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What would become of each shard. Raises ValueError where there is none."""
    found: list[dict[str, Any]] = client.tidegate_reset_offsets(**asked, DryRun=True)["Shards"]
    if not found:
        raise ValueError(
            f"group {asked['GroupName']} has nothing to read: were its streams deleted?"
        )
    return found


def _stream_arn(client: Any, group: str, stream: str | None) -> str:
    """The ARN of this stream of the group. Raises ValueError where it is not clear which."""
    arns = client.tidegate_describe_group(GroupName=group, MaxResults=1)["Group"]["StreamARNs"]
    found = [arn for arn in arns if stream is None or stream_of(arn) == stream]
    if len(found) == 1:
        return str(found[0])
    if stream is not None:
        raise ValueError(f"group {group} does not read stream {stream}")
    names = ", ".join(map(stream_of, arns))
    raise ValueError(f"group {group} reads {names}: say which one by --stream")


def _row(shard: Mapping[str, Any]) -> tuple[Cell, ...]:
    position = shard.get("Position")
    then = _NOT_READ if position is None else done(position.get("StartingSequenceNumber"))
    first = None
    if shard["LagRecordsAfter"]:
        arrived = now() - timedelta(milliseconds=shard["MillisBehindLatestAfter"])
        first = day(round(arrived.timestamp()))
    return (
        stream_of(shard["StreamARN"]),
        number_of(shard["ShardId"]),
        done(shard.get("SequenceNumber")),
        then,
        shard["LagRecords"],
        shard["LagRecordsAfter"],
        first,
    )


def _said(shards: Iterable[Mapping[str, Any]], it: str) -> str:
    """What a reset amounts to."""
    changes = [shard["LagRecordsAfter"] - shard["LagRecords"] for shard in shards]
    again = sum(change for change in changes if change > 0)
    skipped = -sum(change for change in changes if change < 0)
    return f"{it} read {_records(again)} again, and skip {_records(skipped)}."


def _records(count: int) -> str:
    return f"{count:,} record{'' if count == 1 else 's'}"
