"""The stored definition of a stream, and of a change of its shards that is under way.

docs/storage.md names the attributes of the items. An item of a format or kind that is not known
here is refused, never guessed at.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import msgspec

from control_plane.core.definition import FORMAT
from control_plane.core.item_field import UnknownItemFormatError, integer, octets, text
from data_plane.core.partitions import arn_of
from data_plane.core.sealing import derive
from data_plane.core.stream import Shard, Stream
from data_plane.ports import Attributes, Key, Value

PROVISIONED: Final = "PROVISIONED"
ON_DEMAND: Final = "ON_DEMAND"
ACTIVE: Final = "ACTIVE"
CREATING: Final = "CREATING"
UPDATING: Final = "UPDATING"
STREAM: Final = "t"
"""What an item says that is about a stream."""

_HOUR_S: Final = 3_600
_HASH_BYTES: Final = 16
_TRIMMED_HOURS: Final = 24
"""More than what is stored stays behind its time, and than front ends know what was before."""


class Resharding(NamedTuple):
    """A change of shards that is under way: these end, and then those begin."""

    parents: tuple[int, ...]
    children: tuple[Shard, ...]


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """A stream as the control plane knows it.

    `created_ms` is when it was made. Records are stored for `kept_hours` at least, so that the
    retention can be raised up to that; `raised_ms` says since when what was stored before is to
    stay for longer (0: nothing is), `trimmed_until_ms` until when what was stored may stay for
    longer than it is to (0: it does not). Records with stamps up to `expired_us` had expired when
    the retention was raised last (0: it was not). Clients of a test bed are told that it is
    CREATING, and UPDATING, until then (0: they are not). `mode` is PROVISIONED or ON_DEMAND.
    `version` counts its changes, and `nonce` (8 bytes) names the write that stored it.
    """

    account: str
    region: str
    name: str
    uid: str
    cell: str
    created_ms: int
    mode: str
    shards: tuple[Shard, ...]
    version: int = 1
    retention_hours: int = 24
    kept_hours: int = 0
    raised_ms: int = 0
    trimmed_until_ms: int = 0
    expired_us: int = 0
    creating_until_ms: int = 0
    updating_until_ms: int = 0
    record_kib_max: int = 1024
    spreads: bool = False
    master_key_id: str = ""
    policy: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    resharding: Resharding | None = None
    nonce: bytes = b""

    @property
    def arn(self) -> str:
        """Amazon Resource Name."""
        return arn_of("kinesis", self.region, self.account, f"stream/{self.name}")

    @property
    def hours_kept(self) -> int:
        """For how long records are stored."""
        return max(self.retention_hours, self.kept_hours)

    def status_at(self, now_us: int) -> str:
        """A stream is there as soon as it is made, and a change of its shards takes a moment."""
        if self.creating_until_ms * 1_000 > now_us:
            return CREATING
        is_changing = self.resharding is not None or self.updating_until_ms * 1_000 > now_us
        return UPDATING if is_changing else ACTIVE

    @property
    def shards_since_us(self) -> int:
        """When its first shards were made, in whole seconds."""
        return self.created_ms // 1_000 * 1_000_000

    @property
    def next_shard(self) -> int:
        """The number of the next shard, which none had before."""
        made = [shard.number for shard in self.shards]
        planned = self.resharding.children if self.resharding is not None else ()
        return max((*made, *(shard.number for shard in planned))) + 1

    def to_stream(self, registry_secret: bytes) -> Stream:
        """What the data plane must know, and the stream's own secret."""
        return Stream(
            account=self.account,
            region=self.region,
            name=self.name,
            uid=self.uid,
            cell=self.cell,
            version=self.version,
            retention_s=self.retention_hours * _HOUR_S,
            kept_s=self.hours_kept * _HOUR_S,
            record_bytes_max=self.record_kib_max * 1024,
            shards=self.shards,
            spreads=self.spreads,
            master_key_id=self.master_key_id,
            creating_until_us=self.creating_until_ms * 1_000,
            expired_us=self.expired_us,
            policy=self.policy,
            secret=derive(registry_secret, "stream", self.uid),
        )


def key_of_stream(account: str, region: str, name: str) -> Key:
    """Where the definition of a stream lies."""
    return Key(f"A|{account}|{region}", name.encode())


def with_retention_lowered(
    definition: StreamDefinition, hours: int, now_ms: int
) -> StreamDefinition:
    """The definition with a lower retention, and nothing kept for longer.

    Slots say how long slots before them stay, so new ones may, too, until the former time is over.
    """
    lowered = replace(definition, retention_hours=hours, kept_hours=hours)
    former_hours = definition.hours_kept
    if hours == former_hours:
        return lowered
    until_ms = now_ms + (former_hours + _TRIMMED_HOURS) * _HOUR_S * 1_000
    return replace(lowered, trimmed_until_ms=max(until_ms, definition.trimmed_until_ms))


def encode(definition: StreamDefinition) -> Attributes:
    """The definition as the attributes of an item; account, region and name are in its key."""
    item: dict[str, Value] = {
        "v": FORMAT,
        "k": STREAM,
        "w": definition.nonce,
        "r": definition.version,
        "u": definition.uid,
        "c": definition.cell,
        "b": definition.created_ms,
        "m": definition.mode,
        "h": definition.retention_hours,
        "i": definition.kept_hours,
        "j": definition.raised_ms,
        "z": definition.record_kib_max,
        "d": int(definition.spreads),
        "e": definition.master_key_id,
        "p": definition.policy,
        "g": json.dumps(definition.tags, separators=(",", ":"), sort_keys=True, ensure_ascii=False),
        "s": _pack(definition.shards),
    }
    if definition.creating_until_ms:
        item["a"] = definition.creating_until_ms
    if definition.updating_until_ms:
        item["y"] = definition.updating_until_ms
    if definition.trimmed_until_ms:
        item["o"] = definition.trimmed_until_ms
    if definition.expired_us:
        item["f"] = definition.expired_us
    if definition.resharding is not None:
        parents, children = definition.resharding
        item["l"] = msgspec.msgpack.encode((parents, _pack(children)))
    return item


def decode(account: str, region: str, name: str, item: Attributes) -> StreamDefinition:
    """Read what `encode` wrote. Raises UnknownItemFormatError for anything else."""
    if item.get("v") != FORMAT or item.get("k") != STREAM:
        raise UnknownItemFormatError(
            f"stream {account}/{region}/{name}: format {item.get('v')!r}, kind {item.get('k')!r}"
        )
    resharding = None
    if "l" in item:
        parents, children = msgspec.msgpack.decode(
            octets(item, "l"), type=tuple[tuple[int, ...], bytes]
        )
        resharding = Resharding(parents, _unpack(children))
    return StreamDefinition(
        account=account,
        region=region,
        name=name,
        uid=text(item, "u"),
        cell=text(item, "c"),
        created_ms=integer(item, "b"),
        mode=text(item, "m"),
        shards=_unpack(octets(item, "s")),
        version=integer(item, "r"),
        retention_hours=integer(item, "h"),
        kept_hours=integer(item, "i"),
        raised_ms=integer(item, "j"),
        creating_until_ms=integer(item, "a") if "a" in item else 0,
        updating_until_ms=integer(item, "y") if "y" in item else 0,
        trimmed_until_ms=integer(item, "o") if "o" in item else 0,
        expired_us=integer(item, "f") if "f" in item else 0,
        record_kib_max=integer(item, "z"),
        spreads=bool(integer(item, "d")),
        master_key_id=text(item, "e"),
        policy=text(item, "p"),
        tags=json.loads(text(item, "g")),
        resharding=resharding,
        nonce=octets(item, "w"),
    )


_Packed = tuple[int, bytes, bytes, int, int, int, int]


def _pack(shards: Sequence[Shard]) -> bytes:
    return msgspec.msgpack.encode(
        [
            (
                shard.number,
                shard.first_hash.to_bytes(_HASH_BYTES, "big"),
                shard.last_hash.to_bytes(_HASH_BYTES, "big"),
                *shard[3:],
            )
            for shard in shards
        ]
    )


def _unpack(packed: bytes) -> tuple[Shard, ...]:
    return tuple(
        Shard(number, int.from_bytes(first, "big"), int.from_bytes(last, "big"), *rest)
        for number, first, last, *rest in msgspec.msgpack.decode(packed, type=list[_Packed])
    )
