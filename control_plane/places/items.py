"""Placements, cells and heartbeats as items of the registry (docs/storage.md, "Placements").

An item of another format is refused, never guessed at.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from control_plane.core.item_field import (
    UnknownItemFormatError,
    check_format,
    integer,
    octets,
    text,
)
from control_plane.core.stream_definition import STREAM
from control_plane.places.groups import own_group
from data_plane.ports import Attributes, Key
from data_plane.replication.placement import Member, Placement

FORMAT: Final = 1
FORMAT_WITH_OWN: Final = 2
"""Of placements in which queues alone, or chosen cells, are named: who does not know it refuses."""

FORMAT_OF_STREAMS: Final = 2
"""Of streams in the list of a group: who does not know it would make a copy without them full."""

PLACEMENTS: Final = "P|"
CELLS: Final = "C|"
HEARTBEATS: Final = "Y|"
REMOVAL: Final = Key("M|removal", b"\0")

EMBEDDED: Final = "embedded"
DYNAMODB: Final = "dynamodb"

ACTIVE: Final = "active"
DRAINING: Final = "draining"
FULL: Final = "full"
FAILED: Final = "failed"
REMOVED: Final = "removed"
STATES: Final = (ACTIVE, DRAINING, FULL, FAILED, REMOVED)

HEARTBEAT_KEPT_S: Final = 22 * 86_400
"""Longer than states of blocks: what a front end kept to itself matters for as long as they do."""


@dataclass(frozen=True, slots=True)
class StoredPlacement:
    """A placement, the copies that its group is to have, and the write that stored it.

    `alone` are queues that have left the group for one of their own, by their uids: where each of
    them began. To the `chosen` cells an operator wants the group moved.
    """

    placement: Placement
    factor: int
    nonce: bytes
    alone: Mapping[str, Placement] = field(default_factory=dict)
    chosen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CellRecord:
    """A cell as the registry knows it; `address` says where it is, by kind.

    `state` is one of STATES, since `since_us`.
    """

    name: str
    kind: str
    address: Mapping[str, str]
    state: str = ACTIVE
    since_us: int = 0
    created_s: int = 0
    nonce: bytes = b""


class CellSeen(NamedTuple):
    """What a front end sees of a cell, which answers, or fails, since `since_us`."""

    answers: bool
    since_us: int
    latency_us: int = 0
    used_bytes: int = 0
    full: bool = False
    requests_per_s: float = 0.0
    lag_us: int = 0


class FifoAppends(NamedTuple):
    """How much is sent to a FIFO queue through one front end."""

    account: str
    region: str
    name: str
    appends_per_s: float


class PlacedQueue(NamedTuple):
    """A queue that has its messages in a group, or had: who looks finds out by its definition.

    A stream, with its records, where it `is_stream`.
    """

    account: str
    region: str
    name: str
    uid: str
    is_stream: bool = False


class Removal(NamedTuple):
    """The cell that groups lost last because it failed, when, and the write that says so."""

    cell: str
    at_us: int
    nonce: bytes


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What a front end sees, by its own clock.

    `lag_us` has the groups of which copies are behind, `epochs` the epoch of each group that the
    front end goes by. What it did to standard queues before `told_us` all their copies know.
    """

    front_end: str
    time_us: int
    cells: Mapping[str, CellSeen]
    requests_per_s: float = 0.0
    appends: tuple[FifoAppends, ...] = ()
    lag_us: Mapping[str, int] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    told_us: int | None = None


def placement_key(group: str) -> Key:
    """Where a group's placement lies."""
    return Key(PLACEMENTS, group.encode())


def cell_key(name: str) -> Key:
    """Where what is known of a cell lies."""
    return Key(CELLS, name.encode())


def heartbeat_key(front_end: str) -> Key:
    """Where a front end says that it lives."""
    return Key(HEARTBEATS, front_end.encode())


def queues_partition(group: str) -> str:
    """Where the queues of a group are listed, by their uids."""
    return f"W|{group}"


def encode_placed_queue(queue: PlacedQueue) -> Attributes:
    """The attributes of an item; group and uid are in its key."""
    item: Attributes = {"v": FORMAT, "a": queue.account, "e": queue.region, "q": queue.name}
    return {**item, "v": FORMAT_OF_STREAMS, "k": STREAM} if queue.is_stream else item


def decode_placed_queue(uid: str, item: Attributes) -> PlacedQueue:
    """What `encode_placed_queue` wrote. Raises UnknownItemFormatError for anything else."""
    is_stream = item.get("v") == FORMAT_OF_STREAMS and item.get("k") == STREAM
    if not is_stream:
        check_format(f"queue {uid} of a group", item, FORMAT)
    return PlacedQueue(text(item, "a"), text(item, "e"), text(item, "q"), uid, is_stream)


def encode_members(members: tuple[Member, ...]) -> str:
    """As a JSON list."""
    listed = [[member.cell, member.incarnation, int(member.full)] for member in members]
    return json.dumps(listed, separators=(",", ":"))


def decode_members(text: str) -> tuple[Member, ...]:
    """What `encode_members` wrote."""
    return tuple(Member(cell, number, bool(full)) for cell, number, full in json.loads(text))


def encode_placement(stored: StoredPlacement) -> Attributes:
    """The attributes of an item; the group is in its key."""
    placement = stored.placement
    item: Attributes = {
        "v": FORMAT_WITH_OWN if stored.alone or stored.chosen else FORMAT,
        "w": stored.nonce,
        "e": placement.epoch,
        "m": encode_members(placement.members),
        "f": stored.factor,
        "s": placement.since_us,
    }
    if stored.alone:
        began = [
            [uid, at.epoch, at.since_us, encode_members(at.members)]
            for uid, at in sorted(stored.alone.items())
        ]
        item = {**item, "o": json.dumps(began, separators=(",", ":"))}
    if stored.chosen:
        item = {**item, "c": json.dumps(stored.chosen, separators=(",", ":"))}
    return item


def decode_placement(group: str, item: Attributes) -> StoredPlacement:
    """What `encode_placement` wrote. Raises UnknownItemFormatError for anything else."""
    if item.get("v") != FORMAT_WITH_OWN:
        check_format(f"placement {group}", item, FORMAT)
    placement = Placement(
        group, integer(item, "e"), decode_members(text(item, "m")), integer(item, "s")
    )
    began = json.loads(text(item, "o")) if "o" in item else ()
    alone = {
        uid: Placement(own_group(group, uid), epoch, decode_members(members), since_us)
        for uid, epoch, since_us, members in began
    }
    chosen = json.loads(text(item, "c")) if "c" in item else ()
    return StoredPlacement(placement, integer(item, "f"), octets(item, "w"), alone, tuple(chosen))


def with_own(placements: Mapping[str, StoredPlacement]) -> dict[str, StoredPlacement]:
    """Placements with those of queues alone that were not changed since they began."""
    whole = dict(placements)
    for held in placements.values():
        for began in held.alone.values():
            whole.setdefault(began.group, as_it_began(held, began))
    return whole


def as_it_began(common: StoredPlacement, began: Placement) -> StoredPlacement:
    """The own group of a queue, of which there is no item yet: the common one's says it all."""
    return StoredPlacement(began, common.factor, common.nonce)


def encode_cell(cell: CellRecord) -> Attributes:
    """The attributes of an item; the name is in its key."""
    return {
        "v": FORMAT,
        "w": cell.nonce,
        "t": cell.kind,
        "a": json.dumps(dict(cell.address), separators=(",", ":"), sort_keys=True),
        "q": 0,  # version 0.1 reads it
        "z": cell.state,
        "s": cell.since_us,
        "b": cell.created_s,
    }


def decode_cell(name: str, item: Attributes) -> CellRecord:
    """What `encode_cell` wrote. Raises UnknownItemFormatError for anything else."""
    check_format(f"cell {name}", item, FORMAT)
    if item.get("z") not in STATES:
        raise UnknownItemFormatError(f"cell {name}: state {item.get('z')!r}")
    return CellRecord(
        name,
        text(item, "t"),
        json.loads(text(item, "a")),
        text(item, "z"),
        integer(item, "s"),
        integer(item, "b"),
        octets(item, "w"),
    )


def encode_heartbeat(beat: Heartbeat) -> Attributes:
    """The attributes of an item; the front end is in its key."""
    seen = {
        "cells": {
            name: [
                int(one.answers),
                *one[1:4],
                int(one.full),
                round(one.requests_per_s, 1),
                one.lag_us,
            ]
            for name, one in beat.cells.items()
        },
        "requests": round(beat.requests_per_s, 1),
        "appends": [[*one[:3], round(one.appends_per_s, 1)] for one in beat.appends],
        "lag": dict(beat.lag_us),
        "epochs": dict(beat.epochs),
        "told": beat.time_us if beat.told_us is None else beat.told_us,
    }
    return {
        "v": FORMAT,
        "t": beat.time_us,
        "x": beat.time_us // 1_000_000 + HEARTBEAT_KEPT_S,
        "j": json.dumps(seen, separators=(",", ":"), sort_keys=True),
    }


def decode_heartbeat(front_end: str, item: Attributes) -> Heartbeat:
    """What `encode_heartbeat` wrote. Raises UnknownItemFormatError for anything else."""
    check_format(f"heartbeat of {front_end}", item, FORMAT)
    seen = json.loads(text(item, "j"))
    cells = {
        name: CellSeen(bool(answers), since_us, latency_us, used_bytes, bool(full), *rates)
        for name, (answers, since_us, latency_us, used_bytes, full, *rates) in (
            seen["cells"].items()
        )
    }
    return Heartbeat(
        front_end,
        integer(item, "t"),
        cells,
        seen["requests"],
        tuple(FifoAppends(*fields) for fields in seen["appends"]),
        seen["lag"],
        seen["epochs"],
        seen.get("told", integer(item, "t")),
    )


def encode_removal(removal: Removal) -> Attributes:
    """The attributes of the item REMOVAL."""
    return {"v": FORMAT, "w": removal.nonce, "n": removal.cell, "t": removal.at_us}


def decode_removal(item: Attributes) -> Removal:
    """What `encode_removal` wrote. Raises UnknownItemFormatError for anything else."""
    check_format("last removal", item, FORMAT)
    return Removal(text(item, "n"), integer(item, "t"), octets(item, "w"))
