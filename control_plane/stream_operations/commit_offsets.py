"""TidegateCommitOffsets: how far a member is in the shards that it has."""

from typing import NamedTuple

from control_plane.consumer_groups.commits import CommitOf
from control_plane.consumer_groups.groups import ConsumerGroups
from control_plane.core.consumer_group import ConsumerGroup
from control_plane.core.group_offset import END_OFFSET, SHARD_END, Commit
from control_plane.stream_operations.grouped import (
    key_of,
    offset_of,
    operation,
    shard_named,
    told_offset,
)
from data_plane.core.errors import INTERNAL_FAILURE, INVALID_ARGUMENT, RefusedError
from data_plane.core.stream import Shard, Stream
from data_plane.operations.stream_address import shard_id
from data_plane.ports import CellUnavailableError
from data_plane.protocol.group_shapes import COMMIT_OFFSETS_INPUT, COMMIT_OFFSETS_OUTPUT
from data_plane.protocol.operation import Call, Operation, Params


def commit_offsets(groups: ConsumerGroups) -> Operation:
    """The operation on these groups: each entry succeeds or fails by itself."""

    async def perform(call: Call) -> Params:
        entries = call.params["Entries"]
        name = call.params["GroupName"]
        group = await groups.registry.recent(call.account, call.region, name)
        # Side by side, so that they share a write to the disk. Ends change the group: in turns.
        ends = [entry for entry in entries if entry["SequenceNumber"] == SHARD_END]
        others = [entry for entry in entries if entry["SequenceNumber"] != SHARD_END]
        outcomes = await groups.offsets.all_of(
            [_outcome(groups, group, call, entry) for entry in others]
        )
        outcomes += [await _outcome(groups, group, call, entry) for entry in ends]
        away = [one.failure for one in outcomes if one.failure is not None]
        if len(away) == len(outcomes):
            raise away[0]
        return {
            "Successful": [one.told for one in outcomes if "ErrorCode" not in one.told],
            "Failed": [one.told for one in outcomes if "ErrorCode" in one.told],
        }

    return operation("TidegateCommitOffsets", COMMIT_OFFSETS_INPUT, COMMIT_OFFSETS_OUTPUT, perform)


class _Outcome(NamedTuple):
    """What is told of an entry; `failure` where the cell was not there for it."""

    told: dict[str, str]
    failure: CellUnavailableError | None = None


async def _outcome(
    groups: ConsumerGroups, group: ConsumerGroup, call: Call, entry: Params
) -> _Outcome:
    shard = {"StreamARN": entry["StreamARN"], "ShardId": entry["ShardId"]}
    try:
        return _Outcome(shard | await _commit(groups, group, call, entry))
    except RefusedError as refusal:
        return _Outcome({**shard, "ErrorCode": refusal.fault.code, "ErrorMessage": refusal.message})
    except CellUnavailableError as error:
        why = {"ErrorCode": INTERNAL_FAILURE.code, "ErrorMessage": "Internal Service Failure"}
        return _Outcome(shard | why, error)


async def _commit(
    groups: ConsumerGroups, group: ConsumerGroup, call: Call, entry: Params
) -> dict[str, str]:
    stream, shard = await shard_named(groups, call, entry)
    key_of(group, stream, shard)
    text = entry["SequenceNumber"]
    if text == SHARD_END:
        stream, shard = await _ended(groups, stream, shard)
        offset = END_OFFSET
    else:
        offset = offset_of(stream, shard, text)
    commit = Commit(
        call.params["MemberId"],
        entry["AssignmentEpoch"],
        offset,
        "" if offset == END_OFFSET else text,
        entry.get("Metadata", ""),
    )
    wanted = CommitOf(stream.name, stream.uid, shard.number, commit)
    known = await groups.commits.commit(group, wanted)
    return told_offset(shard, known)


async def _ended(groups: ConsumerGroups, stream: Stream, shard: Shard) -> tuple[Stream, Shard]:
    """The shard, which is closed. Raises RefusedError where it is not."""
    if shard.is_open:
        # Another server may have closed it a moment ago.
        stream = await groups.streams.renewed(stream)
        shard = stream.shard(shard.number) or shard
    if shard.is_open:
        raise RefusedError(
            INVALID_ARGUMENT,
            f"Shard {shard_id(shard.number)} in stream {stream.name} under account"
            f" {stream.account} is open: it has no end to commit.",
        )
    return stream, shard
