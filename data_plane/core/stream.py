"""What the data plane must know of a stream; the control plane writes it."""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from data_plane.core.limits import KMS_DATA_KEY_REUSE_S_DEFAULT, STREAM_NAME_CHARS_MAX
from data_plane.core.partitions import arn_of
from data_plane.core.queue import DIGESTS_BY_SECRET

HASH_KEY_MAX: Final = 2**128 - 1
"""Hash keys are 0 to this: MD5 of a partition key, as a big-endian number (Kinesis)."""

NO_SHARD: Final = -1

DATA_KEY_KEPT_S: Final = 400 * 86_400
"""Records are stored for 365 days at most, also where that was not asked for when they came."""


class Shard(NamedTuple):
    """A part of a stream, for hash keys from `first_hash` to `last_hash`.

    `made_s` is when it was made; it was split or merged at the stamp `closed_us` (0: it is open).
    A shard made by a split has a `parent`, one made by a merge an `adjacent` parent, too.
    """

    number: int
    first_hash: int
    last_hash: int
    made_s: int
    parent: int = NO_SHARD
    adjacent: int = NO_SHARD
    closed_us: int = 0

    @property
    def is_open(self) -> bool:
        """Whether records are put into it."""
        return not self.closed_us

    @property
    def was_never_open(self) -> bool:
        """Whether it was made closed, on the way to others: it has no record, and no log to end."""
        return self.closed_us == self.made_s * 1_000_000

    @property
    def parents(self) -> tuple[int, ...]:
        """The shards whose records come before its own."""
        return tuple(number for number in (self.parent, self.adjacent) if number != NO_SHARD)


@dataclass(frozen=True)
class Stream:
    """A stream's definition as of some version.

    `uid` names this incarnation and is 16 hexadecimal digits. Records are readable for
    `retention_s`, and stored for `kept_s`, as long at least. `shards` are in order of their
    numbers. Records with stamps up to `expired_us` have expired, whatever the retention is now. A
    stream that `spreads` takes turns of its open shards, whatever the partition keys.
    `master_key_id` is the KMS key that records are sealed under ("": the service's own),
    `policy` its resource policy ("": none). Until `creating_until_us` clients are told that there
    is none yet. From
    `secret` (32 bytes) follow the keys of all that is sealed or hashed for this incarnation.
    """

    account: str
    region: str
    name: str
    uid: str
    cell: str
    version: int
    retention_s: int
    kept_s: int
    record_bytes_max: int
    shards: tuple[Shard, ...]
    spreads: bool = False
    master_key_id: str = ""
    creating_until_us: int = 0
    expired_us: int = 0
    policy: str = ""
    secret: bytes = field(default=b"", repr=False)

    @property
    def arn(self) -> str:
        """Amazon Resource Name."""
        return arn_of("kinesis", self.region, self.account, f"stream/{self.name}")

    @property
    def digest_version(self) -> int:
        """How names are hashed: by the secret, as with every queue since there are such."""
        return DIGESTS_BY_SECRET

    @property
    def key_context(self) -> Mapping[str, str]:
        """What its data keys are wrapped for."""
        return {"tidegate:account": self.account, "tidegate:stream": self.arn}

    @property
    def data_key_kept_s(self) -> int:
        """For how long a data key is stored."""
        return DATA_KEY_KEPT_S

    @property
    def is_sealed(self) -> bool:
        """Records are sealed wherever there are keys."""
        return bool(self.secret)

    @property
    def data_key_reuse_s(self) -> int:
        """For how long a data key of KMS's serves: a stream has no setting for it."""
        return KMS_DATA_KEY_REUSE_S_DEFAULT

    @cached_property
    def open_shards(self) -> tuple[Shard, ...]:
        """Those that take records, in order of their hash keys: together they have all of those."""
        return tuple(sorted((one for one in self.shards if one.is_open), key=_first_hash))

    @cached_property
    def _first_hashes(self) -> Sequence[int]:
        return [shard.first_hash for shard in self.open_shards]

    def shard_of(self, hash_key: int) -> Shard:
        """The open shard that a hash key belongs to."""
        return self.open_shards[bisect_right(self._first_hashes, hash_key) - 1]

    def shard(self, number: int) -> Shard | None:
        """The shard with this number, or None."""
        return next((shard for shard in self.shards if shard.number == number), None)

    def children_of(self, number: int) -> tuple[Shard, ...]:
        """The shards that go on where this one ends."""
        return tuple(shard for shard in self.shards if number in shard.parents)


_name: Final = re.compile(f"[a-zA-Z0-9_.-]{{1,{STREAM_NAME_CHARS_MAX}}}").fullmatch
_arn: Final = re.compile(
    r"arn:aws[^:]*:kinesis:([^:]+):([0-9]{12}):stream/([a-zA-Z0-9_.-]{1,128})"
).fullmatch


def is_stream_name(name: str) -> bool:
    """Whether a stream may have this name."""
    return _name(name) is not None


def read_stream_arn(arn: str) -> tuple[str, str, str] | None:
    """Account, region and name of the stream with this ARN; None for what is no stream's."""
    parts = _arn(arn)
    return None if parts is None else (parts[2], parts[1], parts[3])


def hash_key_of(partition_key: str) -> int:
    """Where a partition key lies among the hash keys."""
    digest = hashlib.md5(partition_key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest, "big")


def _first_hash(shard: Shard) -> int:
    return shard.first_hash
