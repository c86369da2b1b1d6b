"""The stored definition of a queue, and what stays of a deleted one.

docs/storage.md names the attributes of the items. An item of a format or kind that is not known
here is refused, never guessed at.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from control_plane.core.attribute_documents import redrive_policy
from control_plane.core.item_field import UnknownItemFormatError, integer, octets, text
from control_plane.core.queue_attributes import default_of
from data_plane.core.queue import (
    DIGESTS_BY_SECRET,
    DIGESTS_BY_UID,
    FIRST_GENERATION,
    KINESIS_MARK,
    Generation,
    Queue,
    RedrivePolicy,
)
from data_plane.core.sealing import derive
from data_plane.ports import Attributes, Value

FORMAT: Final = 1
TOMBSTONE_KEPT_S: Final = 3_600
"""A tombstone outlives the rule that reads it by far, in case clocks disagree."""

OVER_STREAM: Final = 3
"""Format of a queue that reads a stream; its names are hashed by the secret."""

OF_KINESIS: Final = 4
"""Format of a queue of the Kinesis API, which reads a stream, too."""

DIES_AFTER: Final = "MaxReceiveCount"
"""Attribute of those: after how many receives a record is a dead letter; 0: never."""

_LIVE: Final = "q"
_DELETED: Final = "d"
_FORMATS: Final[Mapping[Value | None, tuple[int, ...]]] = {
    _LIVE: (DIGESTS_BY_UID, DIGESTS_BY_SECRET, OVER_STREAM, OF_KINESIS),
    _DELETED: (FORMAT,),
}
"""A definition's format says how names are hashed: nobody reads one who would do it otherwise."""


_OVER_STREAMS: Final = (OVER_STREAM, OF_KINESIS)


@dataclass(frozen=True, slots=True)
class Definition:
    """A queue as the control plane knows it.

    `attributes` holds those that were set, as they were let pass; `version` counts its changes, and
    `nonce` (8 bytes) names the write that stored it. `stream_uid` is that of the stream that a
    queue reads which has no messages of its own.
    """

    account: str
    region: str
    name: str
    uid: str
    cell: str
    created_s: int
    modified_s: int
    version: int = 1
    purged_us: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    nonce: bytes = b""
    generations: tuple[Generation, ...] = (FIRST_GENERATION,)
    digest_version: int = DIGESTS_BY_SECRET
    stream_uid: str = ""

    @property
    def fifo(self) -> bool:
        """Whether it is a FIFO queue."""
        return self.attributes.get("FifoQueue") == "true"

    @property
    def is_log(self) -> bool:
        """Whether its copies are a chain: those of FIFO queues, and of queues over streams."""
        return self.fifo or bool(self.stream_uid)

    @property
    def is_kinesis(self) -> bool:
        """Whether it is a queue of the Kinesis API."""
        return self.name.startswith(KINESIS_MARK)

    @property
    def redrive(self) -> RedrivePolicy | None:
        """Its redrive policy, if it has one."""
        policy = self.attributes.get("RedrivePolicy")
        return redrive_policy(policy) if policy else None

    @property
    def dead_letter_queue(self) -> str:
        """Name of its dead-letter queue, which is of its account and region; "" for none."""
        policy = self.redrive
        return policy.dead_letter_queue if policy is not None else ""

    def to_queue(self, registry_secret: bytes) -> Queue:
        """What the data plane must know, with defaults applied, and the queue's own secret."""
        return Queue(
            account=self.account,
            region=self.region,
            name=self.name,
            uid=self.uid,
            cell=self.cell,
            version=self.version,
            created_s=self.created_s,
            modified_s=self.modified_s,
            fifo=self.fifo,
            visibility_timeout_s=self._number("VisibilityTimeout"),
            delay_s=self._number("DelaySeconds"),
            message_bytes_max=self._number("MaximumMessageSize"),
            retention_s=self._number("MessageRetentionPeriod"),
            receive_wait_s=self._number("ReceiveMessageWaitTimeSeconds"),
            purged_us=self.purged_us,
            attributes=self.attributes,
            tags=self.tags,
            redrive=self.redrive,
            generations=self.generations,
            secret=derive(registry_secret, "queue", self.uid),
            digest_version=self.digest_version,
            stream_uid=self.stream_uid,
            dies_after=int(self.attributes.get(DIES_AFTER, "0")) if self.is_kinesis else 0,
        )

    def _number(self, name: str) -> int:
        return int(self.attributes.get(name, default_of(name)))


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What stays of a deleted queue for as long as its name must not be used again."""

    uid: str
    deleted_us: int
    version: int
    nonce: bytes = b""


def queues_partition(account: str, region: str) -> str:
    """The partition of the queues of an account in a region, under their names."""
    return f"Q|{account}|{region}"


def encode(definition: Definition) -> Attributes:
    """The definition as the attributes of an item; account, region and name are in its key."""
    item: dict[str, int | str | bytes | frozenset[int]] = {
        "v": definition.digest_version,
        "k": _LIVE,
        "w": definition.nonce,
        "r": definition.version,
        "u": definition.uid,
        "c": definition.cell,
        "b": definition.created_s,
        "m": definition.modified_s,
        "p": definition.purged_us,
        "a": _canonical_json(definition.attributes),
        "g": _canonical_json(definition.tags),
    }
    if definition.fifo:
        item["l"] = json.dumps(definition.generations, separators=(",", ":"))
    if definition.stream_uid:
        version = OF_KINESIS if definition.is_kinesis else OVER_STREAM
        item |= {"v": version, "n": definition.stream_uid}
    return item


def encode_tombstone(tombstone: Tombstone) -> Attributes:
    """The tombstone as the attributes of the item that was the definition's."""
    return {
        "v": FORMAT,
        "k": _DELETED,
        "w": tombstone.nonce,
        "r": tombstone.version,
        "u": tombstone.uid,
        "t": tombstone.deleted_us,
        "x": tombstone.deleted_us // 1_000_000 + TOMBSTONE_KEPT_S,
    }


def decode(account: str, region: str, name: str, item: Attributes) -> Definition | Tombstone:
    """Read what `encode` or `encode_tombstone` wrote.

    Raises UnknownItemFormatError for anything else.
    """
    if item.get("v") not in _FORMATS.get(item.get("k"), ()):
        raise UnknownItemFormatError(
            f"queue {account}/{region}/{name}: format {item.get('v')!r}, kind {item.get('k')!r}"
        )
    if item["k"] == _DELETED:
        return Tombstone(
            uid=text(item, "u"),
            deleted_us=integer(item, "t"),
            version=integer(item, "r"),
            nonce=octets(item, "w"),
        )
    return Definition(
        account=account,
        region=region,
        name=name,
        uid=text(item, "u"),
        cell=text(item, "c"),
        created_s=integer(item, "b"),
        modified_s=integer(item, "m"),
        version=integer(item, "r"),
        purged_us=integer(item, "p"),
        attributes=json.loads(text(item, "a")),
        tags=json.loads(text(item, "g")),
        nonce=octets(item, "w"),
        generations=read_generations(item),
        digest_version=min(integer(item, "v"), DIGESTS_BY_SECRET),
        stream_uid=text(item, "n") if item["v"] in _OVER_STREAMS else "",
    )


def read_generations(item: Attributes) -> tuple[Generation, ...]:
    """A FIFO queue's generations; others have none of their own."""
    if "l" not in item:
        return (FIRST_GENERATION,)
    return tuple(Generation(*fields) for fields in json.loads(text(item, "l")))


def _canonical_json(mapping: Mapping[str, str]) -> str:
    return json.dumps(mapping, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
