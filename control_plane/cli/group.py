"""`tidegate group`: consumer groups of a server, and how far they are."""

import json
from collections.abc import Iterable
from typing import Any, Final

import click

from control_plane.cli.confirming import confirm
from control_plane.cli.connection import Connect, ConnectedGroup, connecting
from control_plane.cli.group_reset import reset
from control_plane.cli.group_shards import done, number_of, stream_of
from control_plane.cli.refusals import or_exit
from control_plane.cli.stream_position import PositionType, StreamPosition
from control_plane.cli.tables import Cell, json_option, tell
from control_plane.cli.times import day
from data_plane.core.limits import (
    GROUP_SESSION_S_DEFAULT,
    GROUP_SESSION_S_MAX,
    GROUP_SESSION_S_MIN,
)

_COLUMNS: Final = ("NAME", "STATE", "MEMBERS", "STREAMS")
_MEMBER_COLUMNS: Final = ("MEMBER", "INSTANCE", "SHARDS")
_SHARD_COLUMNS: Final = ("STREAM", "SHARD", "OWNER", "DONE", "UNREAD")
_LAG_COLUMNS: Final = ("STREAM", "SHARD", "OWNER", "UNREAD", "BEHIND S")
_SUM_COLUMNS: Final = ("GROUP", "STREAM", "UNREAD", "BEHIND S")
_MS_PER_S: Final = 1_000


@click.group(cls=ConnectedGroup)
@connecting
def group() -> None:
    """Create, list, describe and delete consumer groups; show their lag; reset them."""


group.add_command(reset)


@group.command("create")
@click.argument("name")
@click.argument("streams", nargs=-1, required=True, metavar="STREAM...")
@click.option(
    "--from",
    "start",
    type=PositionType(),
    metavar="POSITION",
    default="latest",
    help="Begin at trim-horizon, latest, or a time (UTC; 10m: so long ago).",
)
@click.option(
    "--session",
    type=click.IntRange(GROUP_SESSION_S_MIN, GROUP_SESSION_S_MAX),
    metavar="SECONDS",
    default=GROUP_SESSION_S_DEFAULT,
    help="After so long without a heartbeat a member is gone.",
)
@click.pass_obj
def create_group(
    connect: Connect, name: str, streams: tuple[str, ...], start: StreamPosition, session: int
) -> None:
    """Create a group that reads streams, and print its ARN."""
    if start.shard is not None:
        raise click.UsageError("--from: a sequence number is one of a single shard")

    def create() -> str:
        client = connect("kinesis")
        answer = client.tidegate_create_group(
            GroupName=name,
            StreamARNs=[_arn(client, stream) for stream in streams],
            StartingPosition=start.of_group,
            SessionTimeoutSeconds=session,
        )
        return str(answer["Group"]["GroupARN"])

    click.echo(or_exit(create))


def _arn(client: Any, stream: str) -> str:
    answer = client.describe_stream_summary(StreamName=stream)
    return str(answer["StreamDescriptionSummary"]["StreamARN"])


@group.command("list", short_help="List groups, their members and streams.")
@json_option
@click.pass_obj
def list_groups(connect: Connect, *, as_json: bool) -> None:
    """List groups with what they are at, how many members they have, and their streams."""

    def rows() -> list[tuple[Cell, ...]]:
        client = connect("kinesis")
        return [
            (
                one["GroupName"],
                found["State"],
                len(found["Members"]),
                list(map(stream_of, one["StreamARNs"])),
            )
            for one in _groups(client)
            for found in (_of(client, one["GroupName"], MaxResults=1),)
        ]

    tell(_COLUMNS, or_exit(rows), as_json=as_json)


def _groups(client: Any) -> list[dict[str, Any]]:
    pages = client.get_paginator("tidegate_list_groups").paginate()
    return [one for page in pages for one in page["Groups"]]


def _of(client: Any, name: str, **more: Any) -> dict[str, Any]:
    """A group as one call describes it."""
    answer: dict[str, Any] = client.tidegate_describe_group(GroupName=name, **more)
    return answer


def _described(client: Any, name: str) -> dict[str, Any]:
    """A group with all its shards; of the rest what the first page says."""
    first, *others = client.get_paginator("tidegate_describe_group").paginate(GroupName=name)
    shards = [*first["Shards"], *(shard for page in others for shard in page["Shards"])]
    told = {part: first[part] for part in ("Group", "State", "Members")}
    return {**told, "Shards": shards}


@group.command("describe")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, as the API spells it.")
@click.pass_obj
def describe_group(connect: Connect, name: str, *, as_json: bool) -> None:
    """Show a group, its members, and how far it is in its shards.

    DONE is the number that the last record that is committed has in its shard.
    """
    found = or_exit(lambda: _described(connect("kinesis"), name))
    if as_json:
        click.echo(json.dumps(found, indent=2, default=str))
        return
    shown = {
        "StreamARNs": ", ".join(found["Group"]["StreamARNs"]),
        "State": found["State"],
        "GroupCreationTimestamp": day(int(found["Group"]["GroupCreationTimestamp"].timestamp())),
    }
    rows = sorted((part, str(told)) for part, told in (found["Group"] | shown).items())
    tell(("ATTRIBUTE", "VALUE"), rows, as_json=False)
    if found["Members"]:
        owners = [shard.get("OwnerMemberId") for shard in found["Shards"]]
        members = [
            (one["MemberId"], one.get("InstanceId"), owners.count(one["MemberId"]))
            for one in found["Members"]
        ]
        click.echo()
        tell(_MEMBER_COLUMNS, members, as_json=False)
    click.echo()
    shards = [
        (*_place(shard), done(shard.get("SequenceNumber")), shard["LagRecords"])
        for shard in found["Shards"]
    ]
    tell(_SHARD_COLUMNS, shards, as_json=False)
    _note_absent([found])


def _note_absent(groups: Iterable[dict[str, Any]]) -> None:
    """Say which streams of groups have nothing that those could read."""
    absent: dict[str, None] = {}
    for found in groups:
        read = {shard["StreamARN"] for shard in found["Shards"]}
        absent |= dict.fromkeys(arn for arn in found["Group"]["StreamARNs"] if arn not in read)
    for arn in absent:
        name = stream_of(arn)
        click.echo(f"There is nothing to read of stream {name}: was it deleted?", err=True)


def _place(shard: dict[str, Any]) -> tuple[str, int, str | None]:
    stream = stream_of(shard["StreamARN"])
    return stream, number_of(shard["ShardId"]), shard.get("OwnerMemberId")


@group.command("lag", short_help="Show what groups have not read yet.")
@click.argument("name", required=False)
@json_option
@click.pass_obj
def lag(connect: Connect, name: str | None, *, as_json: bool) -> None:
    """Show what a group has not read yet, shard by shard; without a NAME all groups, by streams.

    UNREAD are records, BEHIND S is for how many seconds the first of them has been there.
    """
    client = connect("kinesis")
    if name is not None:
        found = or_exit(lambda: _described(client, name))
        rows = [
            (*_place(shard), shard["LagRecords"], _seconds(shard["MillisBehindLatest"]))
            for shard in found["Shards"]
        ]
        tell(_LAG_COLUMNS, rows, as_json=as_json)
        _note_absent([found])
        return
    every = or_exit(lambda: [_described(client, one["GroupName"]) for one in _groups(client)])
    sums = [
        (one["Group"]["GroupName"], stream_of(arn), *_sum(arn, one["Shards"]))
        for one in every
        for arn in one["Group"]["StreamARNs"]
    ]
    tell(_SUM_COLUMNS, sums, as_json=as_json)
    _note_absent(every)


def _sum(arn: str, shards: Iterable[dict[str, Any]]) -> tuple[int, float]:
    """Of a stream: all that is unread, and the age of the oldest of it."""
    own = [shard for shard in shards if shard["StreamARN"] == arn]
    behind_ms = max((shard["MillisBehindLatest"] for shard in own), default=0)
    return sum(shard["LagRecords"] for shard in own), _seconds(behind_ms)


def _seconds(milliseconds: int) -> float:
    return round(milliseconds / _MS_PER_S, 1)


@group.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete_group(connect: Connect, name: str, *, yes: bool) -> None:
    """Delete a group without members, and how far it is."""
    client = connect("kinesis")
    or_exit(lambda: _of(client, name, MaxResults=1))
    if not yes:
        confirm(f"Delete group {name}, and how far it is in its streams?")
    or_exit(lambda: client.tidegate_delete_group(GroupName=name))
    click.echo(f"Deleted {name}.")
