"""The shards that a member of a consumer group has: what to read, commit and give up next.

Nothing here does I/O or looks at a clock. A shard is read and handled by one worker at a time. One
that is taken away is given up once no handler works on it. One that is lost is forgotten at once;
whoever works on it finds it gone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from tidegate_sdk.option_checks import check_seconds

SHARD_END: Final = "SHARD_END"
_NEVER_S: Final = float("inf")


class GroupShard(NamedTuple):
    """A shard of one of a group's streams."""

    stream_arn: str
    shard_id: str


class CommitPolicy(NamedTuple):
    """When a member says how far it is; see COMMIT_AFTER and its like."""

    before: bool = False
    manual: bool = False
    every_s: float = 0.0


COMMIT_AFTER: Final = CommitPolicy()
"""After each batch: what is not committed is handled again, by whoever comes next."""

COMMIT_BEFORE: Final = CommitPolicy(before=True)
"""Before each batch is handled: what is committed is never handled again, though it may be lost."""

COMMIT_MANUALLY: Final = CommitPolicy(manual=True)
"""Where the handler, or whoever has the batch, calls its `commit`."""


def commit_every(seconds: float) -> CommitPolicy:
    """After so much time what was handled until then, and when a shard is given up."""
    check_seconds("commit_every", seconds)
    if not seconds:
        raise ValueError("commit_every is above 0; COMMIT_AFTER commits after each batch")
    return CommitPolicy(every_s=seconds)


class Activity(Enum):
    """What a worker does with a shard."""

    NOTHING = "nothing"
    READS = "reads"
    HANDLES = "handles"


@dataclass(slots=True, eq=False)
class HeldShard:
    """A shard that the member has, under an assignment epoch, read on from `position`."""

    name: GroupShard
    epoch: int
    position: Mapping[str, Any]
    """As GetShardIterator takes it."""
    iterator: str = ""
    activity: Activity = Activity.NOTHING
    read_s: float = _NEVER_S
    """Not read before; not at all before the program knows that it has come."""
    commit_s: float = 0.0
    """What is done is committed then, where that goes by time."""
    keep_s: float = 0.0
    """Neither committed nor given up before: that has failed."""
    last_read: str = ""
    done: str = ""
    committed: str = ""
    """Sequence numbers: of the last record that was read, done, and told."""
    is_read: bool = False
    """Whether it was read to its end."""
    is_revoked: bool = False
    is_told: bool = False
    """Whether the program knows that it goes: it is given up, or was read to its end."""
    is_kept: bool = False
    """Whether a call that commits or gives up is under way."""
    failures: int = 0

    @property
    def to_commit(self) -> str:
        """The sequence number to commit: the end, where nothing is left; nothing: there is none.

        The end comes after the program knows of it, and has done what it does then.
        """
        is_over = self.is_read and self.is_told and self.done == self.last_read
        number = SHARD_END if is_over else self.done
        return "" if number == self.committed else number

    def has_committed(self, number: str) -> bool:
        """Whether this record was told as done, or one behind it."""
        if self.committed == SHARD_END:
            return True
        return bool(self.committed) and number != SHARD_END and int(number) <= int(self.committed)

    @property
    def address(self) -> dict[str, Any]:
        """As the members of actions call it."""
        return {
            "StreamARN": self.name.stream_arn,
            "ShardId": self.name.shard_id,
            "AssignmentEpoch": self.epoch,
        }


class HeldShards:
    """All shards of a member."""

    def __init__(self, policy: CommitPolicy) -> None:
        self._policy = policy
        self._held: dict[GroupShard, HeldShard] = {}
        self._handled: set[GroupShard] = set()
        """What handlers work on, be it lost by now: nobody reads it beside them."""

    def __len__(self) -> int:
        return len(self._held)

    def has(self, shard: HeldShard) -> bool:
        """Whether the member still has it, under the same epoch."""
        return self._held.get(shard.name) is shard

    @property
    def owned(self) -> list[dict[str, Any]]:
        """As a heartbeat tells them."""
        return [shard.address for shard in self._held.values()]

    @property
    def is_giving_up(self) -> bool:
        """Whether something is to be given up yet."""
        return any(shard.is_revoked for shard in self._held.values())

    def told(
        self, assignment: Iterable[Mapping[str, Any]], now_s: float, *, takes: bool
    ) -> tuple[list[HeldShard], list[HeldShard]]:
        """Mark what is to be given up, and take what is new, or not: what is new, what is lost."""
        new: list[HeldShard] = []
        lost: list[HeldShard] = []
        wanted: set[GroupShard] = set()
        for each in assignment:
            name = GroupShard(each["StreamARN"], each["ShardId"])
            wanted.add(name)
            known = self._held.get(name)
            if known is not None and known.epoch == each["AssignmentEpoch"]:
                continue
            if known is not None:
                lost.append(self._held.pop(name))
            # Without a position it was told before, and read to its end or given up since.
            if takes and "Position" in each:
                self._held[name] = HeldShard(
                    name,
                    each["AssignmentEpoch"],
                    dict(each["Position"]),
                    commit_s=now_s + self._policy.every_s,
                )
                new.append(self._held[name])
        self.revoke(self._held.keys() - wanted)
        return new, lost

    def were_told(self, shards: Iterable[HeldShard], now_s: float, *, goes: bool) -> None:
        """The program knows that these have come, and are read from now; or that they go."""
        for shard in shards:
            shard.read_s, shard.is_told = now_s, goes

    def begin(self, shard: HeldShard) -> bool:
        """A handler is to work on what was read; whether it may."""
        may_handle = self.has(shard) and not shard.is_revoked
        if may_handle:
            shard.activity = Activity.HANDLES
            self._handled.add(shard.name)
        return may_handle

    def finish(self, shard: HeldShard) -> None:
        """No worker works on it any more."""
        if shard.activity is Activity.HANDLES:
            self._handled.remove(shard.name)
        shard.activity = Activity.NOTHING

    def revoke(self, names: Iterable[GroupShard] | None = None) -> None:
        """These are to be given up; None: all."""
        for name in list(self._held) if names is None else names:
            self._held[name].is_revoked = True

    def drop(self, shard: HeldShard) -> bool:
        """The member does not have it any more; whether it had."""
        return self.has(shard) and self._held.pop(shard.name, None) is not None

    def drop_all(self) -> list[HeldShard]:
        """The member has none of them any more."""
        shards = list(self._held.values())
        self._held.clear()
        return shards

    def next_to_read(self, now_s: float) -> HeldShard | None:
        """The shard to read now, which counts as being read; None: there is none."""
        ready = [shard for shard in self._readable() if shard.read_s <= now_s]
        if not ready:
            return None
        shard = min(ready, key=lambda each: each.read_s)
        shard.activity = Activity.READS
        return shard

    def next_to_tell(self) -> HeldShard | None:
        """A shard that goes, and that no handler works on: the program is to know; None: none."""
        for shard in self._held.values():
            goes = (shard.is_revoked or shard.is_read) and not shard.is_told
            if goes and shard.activity is not Activity.HANDLES:
                return shard
        return None

    def next_to_keep(self, now_s: float) -> HeldShard | None:
        """The shard to give up, or to commit, now; None: there is none."""
        for shard in self._held.values():
            if self._keep_s(shard) <= now_s:
                shard.is_kept = True
                return shard
        return None

    def next_read_s(self) -> float | None:
        """When a shard is to be read that is not now."""
        times_s = [shard.read_s for shard in self._readable()]
        return min((time_s for time_s in times_s if time_s != _NEVER_S), default=None)

    def next_keep_s(self) -> float | None:
        """When a shard is to be committed or given up that is not now."""
        times_s = [self._keep_s(shard) for shard in self._held.values()]
        return min((time_s for time_s in times_s if time_s != _NEVER_S), default=None)

    def _readable(self) -> list[HeldShard]:
        return [
            shard
            for shard in self._held.values()
            if shard.activity is Activity.NOTHING
            and not shard.is_read
            and not shard.is_revoked
            and shard.name not in self._handled
        ]

    def _keep_s(self, shard: HeldShard) -> float:
        """When the shard is given up or committed by who does so beside the workers."""
        if shard.is_kept or (shard.activity is Activity.HANDLES and not self._policy.every_s):
            return _NEVER_S
        ends = shard.is_told if shard.is_revoked else shard.to_commit == SHARD_END
        if ends and shard.activity is not Activity.HANDLES:
            return shard.keep_s
        if self._policy.every_s and shard.to_commit:
            return max(shard.commit_s, shard.keep_s)
        return _NEVER_S


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Records of one shard, in their order, as GetRecords has them."""

    shard: GroupShard
    records: Sequence[Mapping[str, Any]]
    behind_ms: int
    """So long ago what lies behind them arrived; 0: nothing does."""
    group: str
    """The consumer group that has the shard."""
    assignment_epoch: int
    """Under which it has it: higher with each member that gets the shard, whoever that is."""
    _commit: Callable[[str], None] = field(repr=False)

    def commit(self, sequence_number: str | None = None) -> None:
        """Say that all up to this record is done; without a number, the whole batch.

        May be called from any thread, and late. It repeats what fails by the network. Raises
        ShardLostError where somebody else may have the shard by now, and ValueError or TypeError
        where the number is none of the batch.
        """
        last = str(self.records[-1]["SequenceNumber"])
        if sequence_number is None:
            sequence_number = last
        if not isinstance(sequence_number, str):
            raise TypeError(f"a sequence number is a text, as the record has it: {sequence_number}")
        is_number = sequence_number.isascii() and sequence_number.isdecimal()
        first = int(self.records[0]["SequenceNumber"])
        if not is_number or not first <= int(sequence_number) <= int(last):
            raise ValueError(f"this is no record of the batch: {sequence_number!r}")
        self._commit(sequence_number)


class ShardLostError(Exception):
    """The shard is not the member's any more: whoever has it handles what is not committed."""
