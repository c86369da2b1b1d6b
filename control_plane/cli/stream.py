"""`tidegate stream`: streams of a server, and their records."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from control_plane.cli.confirming import confirm
from control_plane.cli.connection import Connect, ConnectedGroup, connecting
from control_plane.cli.refusals import or_exit
from control_plane.cli.shard_walk import parents_of, shards_of
from control_plane.cli.stream_position import ShardType
from control_plane.cli.stream_put import put
from control_plane.cli.stream_records import get, tail
from control_plane.cli.tables import json_option, tell
from data_plane.core.limits import STREAM_RETENTION_HOURS_MAX, STREAM_RETENTION_HOURS_MIN
from data_plane.core.stream import HASH_KEY_MAX

_COLUMNS: Final = ("NAME", "STATUS", "MODE", "SHARDS", "RETENTION HOURS")
_SHARD_COLUMNS: Final = ("SHARD", "STATE", "PARENTS", "HASH KEYS")


@click.group(cls=ConnectedGroup)
@connecting
def stream() -> None:
    """Create, list, describe and delete streams; put and read records; split and merge shards."""


for _command in (put, get, tail):
    stream.add_command(_command)


@stream.command("create")
@click.argument("name")
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="COUNT",
    show_default="on demand: 4, which cannot be split",
    help="How many shards it has.",
)
@click.option(
    "--retention",
    type=click.IntRange(STREAM_RETENTION_HOURS_MIN, STREAM_RETENTION_HOURS_MAX),
    metavar="HOURS",
    default=STREAM_RETENTION_HOURS_MIN,
    help="For how long records are kept.",
)
@click.pass_obj
def create_stream(connect: Connect, name: str, shards: int | None, retention: int) -> None:
    """Create a stream and print its ARN."""

    def create() -> str:
        client = connect("kinesis")
        client.create_stream(StreamName=name, **({"ShardCount": shards} if shards else {}))
        if retention > STREAM_RETENTION_HOURS_MIN:
            client.increase_stream_retention_period(StreamName=name, RetentionPeriodHours=retention)
        return str(_summary(client, name)["StreamARN"])

    click.echo(or_exit(create))


@stream.command("list")
@json_option
@click.pass_obj
def list_streams(connect: Connect, *, as_json: bool) -> None:
    """List streams with their open shards."""

    def rows() -> list[tuple[str | int, ...]]:
        client = connect("kinesis")
        pages = client.get_paginator("list_streams").paginate()
        found = [_summary(client, name) for page in pages for name in page["StreamNames"]]
        return [
            (
                one["StreamName"],
                one["StreamStatus"],
                one["StreamModeDetails"]["StreamMode"],
                one["OpenShardCount"],
                one["RetentionPeriodHours"],
            )
            for one in found
        ]

    tell(_COLUMNS, or_exit(rows), as_json=as_json)


@stream.command("describe", short_help="Show a stream and its shards.")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as AWS spells it.")
@click.pass_obj
def describe_stream(connect: Connect, name: str, *, as_json: bool) -> None:
    """Show a stream and its shards, also those that are closed and still have records."""

    def described() -> tuple[dict[str, Any], list[dict[str, Any]]]:
        client = connect("kinesis")
        return _summary(client, name), shards_of(client, name)

    summary, shards = or_exit(described)
    if as_json:
        click.echo(json.dumps({**summary, "Shards": shards}, indent=2, default=str))
        return
    mode = {"StreamMode": summary["StreamModeDetails"]["StreamMode"]}
    plain = {name: told for name, told in summary.items() if isinstance(told, str | int)}
    rows = sorted((name, str(told)) for name, told in (plain | mode).items())
    tell(("ATTRIBUTE", "VALUE"), rows, as_json=False)
    click.echo()
    _tell_shards(shards)


@stream.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_stream(connect: Connect, name: str, *, yes: bool) -> None:
    """Delete a stream and all records in it."""
    client = connect("kinesis")
    or_exit(lambda: _summary(client, name))
    if not yes:
        confirm(f"Delete stream {name} and all records in it?")
    or_exit(lambda: client.delete_stream(StreamName=name))
    click.echo(f"Deleted {name}.")


@stream.command("split", short_help="Split a shard in two.")
@click.argument("name")
@click.argument("shard", type=ShardType())
@click.option(
    "--at",
    "hash_key",
    metavar="HASH_KEY",
    show_default="the middle",
    help="First hash key of the upper one of the two.",
)
@click.pass_obj
def split_shard(connect: Connect, name: str, shard: str, hash_key: str | None) -> None:
    """Split a shard in two, and show them; it takes no more records, and keeps those that it has.

    SHARD is a number or an id.
    """

    def split() -> list[dict[str, Any]]:
        client = connect("kinesis")
        at = hash_key or _middle(one for one in shards_of(client, name) if one["ShardId"] == shard)
        client.split_shard(StreamName=name, ShardToSplit=shard, NewStartingHashKey=at)
        return _children(client, name, shard)

    _tell_shards(or_exit(split))


@stream.command("merge", short_help="Merge two shards that are neighbours.")
@click.argument("name")
@click.argument("shard", type=ShardType())
@click.argument("neighbour", type=ShardType())
@click.pass_obj
def merge_shards(connect: Connect, name: str, shard: str, neighbour: str) -> None:
    """Merge two shards that are neighbours, in any order, and show what they became.

    SHARD and NEIGHBOUR are numbers or ids.
    """

    def merge() -> list[dict[str, Any]]:
        client = connect("kinesis")
        starts = {one["ShardId"]: _range(one)[0] for one in shards_of(client, name)}
        lower, upper = sorted((shard, neighbour), key=lambda one: starts.get(one, 0))
        client.merge_shards(StreamName=name, ShardToMerge=lower, AdjacentShardToMerge=upper)
        return _children(client, name, lower)

    _tell_shards(or_exit(merge))


def _summary(client: Any, name: str) -> dict[str, Any]:
    answer = client.describe_stream_summary(StreamName=name)
    return dict(answer["StreamDescriptionSummary"])


def _children(client: Any, name: str, shard: str) -> list[dict[str, Any]]:
    return [one for one in shards_of(client, name) if shard in parents_of(one)]


def _range(shard: Mapping[str, Any]) -> tuple[int, int]:
    keys = shard["HashKeyRange"]
    return int(keys["StartingHashKey"]), int(keys["EndingHashKey"])


def _middle(shards: Iterable[Mapping[str, Any]]) -> str:
    """The hash key that halves the only one of the shards; of none, any: it will be refused."""
    first, last = next(map(_range, shards), (0, HASH_KEY_MAX))
    return str((first + last + 1) // 2)


def _tell_shards(shards: Iterable[Mapping[str, Any]]) -> None:
    """Print shards; their hash keys as shares of all there are, which show their sizes."""
    rows = []
    for one in shards:
        first, last = _range(one)
        is_open = "EndingSequenceNumber" not in one["SequenceNumberRange"]
        parents = ", ".join(str(int(parent.rpartition("-")[2])) for parent in parents_of(one))
        keys = f"{_percent(first)} to {_percent(last + 1)} %"
        rows.append((one["ShardId"], "open" if is_open else "closed", parents, keys))
    tell(_SHARD_COLUMNS, rows, as_json=False)


def _percent(hash_key: int) -> str:
    hundredths = 10_000 * hash_key // (HASH_KEY_MAX + 1)
    return f"{hundredths // 100}.{hundredths % 100:02}"
