"""Members as clients are: they read, commit, stand still, come late, leave, and die."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from data_plane.core.sequence_number import parse
from data_plane.operations.stream_address import shard_id
from tests.simulation.groups.world import GroupWorld
from tests.simulation.history import OK

GROUP = "readers"
SHARD_END = "SHARD_END"
JOIN_AGAIN = ("TidegateUnknownMember", "TidegateFencedMember", "TidegateUnreleasedInstance")


class Told(NamedTuple):
    """A member was told to read a shard from behind this offset on."""

    time_us: int
    member: str
    shard: int
    epoch: int
    offset: int
    parents_ended: bool


class Committed(NamedTuple):
    """A commit was acknowledged."""

    member: str
    shard: int
    epoch: int
    offset: int


class Ledger:
    """What was told, read and committed, by all members."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.read: dict[int, set[int]] = {}
        self.committed: list[Committed] = []
        self.assigned: dict[tuple[int, int], set[str]] = {}
        self.calm = False
        """From now on members do as they should."""


class Reader:
    """One member. What it has in `at` it has read up to that offset."""

    def __init__(self, world: GroupWorld, ledger: Ledger, name: str, instance: str = "") -> None:
        self.world, self.ledger, self.name = world, ledger, name
        self.instance = instance
        self.alive = True
        self.forget()

    def forget(self) -> None:
        """Drop all, to join anew."""
        self.id, self.epoch = "", 0
        self.owned: dict[int, int] = {}
        self.at: dict[int, int] = {}
        self._said: dict[int, tuple[int, int]] = {}

    async def live(self, until_us: int) -> None:
        """Read until then, or until it dies or leaves for good."""
        random = self.world.random
        while self.alive and self.world.scheduler.now_us < until_us:
            await self._heartbeat()
            self._read()
            if self._stands_still():
                await self.world.scheduler.pause(random.randrange(100_000, 30_000_000))
            await self._commit()
            if not self.ledger.calm and random.random() < 0.02:
                await self._leave()
            await self.world.scheduler.pause(random.randrange(1_000, 300_000))

    def _stands_still(self) -> bool:
        plan = self.world.group_plan
        return not self.ledger.calm and self.world.random.random() < plan.zombies

    async def call(self, operation: str, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Call as SDKs do; None where no answer came, or none that says anything."""
        world = self.world
        call = world.history.call(self.name, operation, GROUP, {"GroupName": GROUP, **params})
        for _ in range(3):
            slot = world.random.choice(world.group_slots)
            attempt = world.history.invoke(world.scheduler.now_us, call, slot.name)
            answer = await world.request(attempt, slot, 25_000_000)
            if answer is not None and answer[0] in (OK, 400):
                if answer[0] == OK:
                    return answer[1]
                if answer[1]["__type"] in JOIN_AGAIN:
                    self.forget()
                return None
            await world.scheduler.pause(world.random.randrange(50_000, 500_000))
        return None

    async def _heartbeat(self) -> None:
        params: dict[str, Any] = {"MemberEpoch": self.epoch}
        if self.instance:
            params["InstanceId"] = self.instance
        if self.id:
            params |= {
                "MemberId": self.id,
                "OwnedShards": [
                    {"StreamARN": self._arn, "ShardId": shard_id(shard), "AssignmentEpoch": epoch}
                    for shard, epoch in self.owned.items()
                ],
                "WaitTimeSeconds": 20,
            }
        answer = await self.call("TidegateGroupHeartbeat", params)
        if answer is None:
            return
        self.id, self.epoch = answer["MemberId"], answer["MemberEpoch"]
        told = {parse_shard(one["ShardId"]): one for one in answer["Assignment"]}
        for shard, one in told.items():
            self._note_told(shard, one)
        lingers = not self.ledger.calm and self.world.random.random() < 0.3
        for shard in [shard for shard in self.owned if shard not in told]:
            if not lingers:
                await self._commit_one(shard)
                self.owned.pop(shard, None)
                self.at.pop(shard, None)

    def _note_told(self, shard: int, one: Mapping[str, Any]) -> None:
        epoch = one["AssignmentEpoch"]
        self.ledger.assigned.setdefault((shard, epoch), set()).add(self.id)
        if "Position" in one:
            number = one["Position"].get("StartingSequenceNumber")
            offset = parse(number).offset if number else 0
            parents = self._shard(shard).parents
            ended = self.world.witness.ended >= set(parents)
            now_us = self.world.scheduler.now_us
            self.ledger.told.append(Told(now_us, self.id, shard, epoch, offset, ended))
            self.at[shard] = offset
        elif self.owned.get(shard) != epoch:
            return  # It was told by an answer that is lost; the next one says where.
        self.owned[shard] = epoch

    def _read(self) -> None:
        for shard in self.owned:
            records = self.world.shards.records[shard]
            start = min(self.at[shard], len(records))
            until = min(len(records), start + self.world.random.randrange(1, 10))
            self.ledger.read.setdefault(shard, set()).update(range(start + 1, until + 1))
            self.at[shard] = max(self.at[shard], until)

    async def _commit(self) -> None:
        for shard in list(self.owned):
            await self._commit_one(shard)

    async def _commit_one(self, shard: int) -> None:
        known, offset, epoch = self._shard(shard), self.at[shard], self.owned[shard]
        ends = not known.is_open and offset >= len(self.world.shards.records[shard])
        if not ends and not offset:
            return
        if not ends and self.ledger.calm and self._said.get(shard) == (epoch, offset):
            return
        if not ends and not self.ledger.calm and self.world.random.random() < 0.1:
            offset = self.world.random.randint(1, offset)  # Another thread was faster.
        text = SHARD_END if ends else self.world.shards.number(known, offset)
        entry = {
            "StreamARN": self._arn,
            "ShardId": shard_id(shard),
            "AssignmentEpoch": epoch,
            "SequenceNumber": text,
        }
        member = self.id
        answer = await self.call("TidegateCommitOffsets", {"MemberId": member, "Entries": [entry]})
        if answer is not None and answer["Successful"]:
            self.ledger.committed.append(Committed(member, shard, epoch, offset))
            self._said[shard] = (epoch, offset)
            if ends:
                self.owned.pop(shard, None)

    async def _leave(self) -> None:
        """Leave for good, or for a while; or die without a word."""
        how = self.world.random.choice((-1, -2, 0))
        member, epoch = self.id, self.epoch
        if how and member:
            await self._commit()
            params = {"MemberEpoch": how, "MemberId": member}
            await self.call("TidegateGroupHeartbeat", params)
        self.world.note(f"{self.name} ({member}) is gone: {how}")
        self.forget()
        await self.world.scheduler.pause(self.world.random.randrange(1, 20_000_000))
        if how == -2 and member:
            # The former process comes once more, when another one has its place.
            await self._heartbeat()
            former = Reader(self.world, self.ledger, f"{self.name}-former")
            params = {"MemberEpoch": epoch, "MemberId": member, "OwnedShards": []}
            await former.call("TidegateGroupHeartbeat", params)

    @property
    def _arn(self) -> str:
        return self.world.shards.now.arn

    def _shard(self, number: int) -> Any:
        return self.world.shards.now.shard(number)


def parse_shard(text: str) -> int:
    """The number in a shard's id."""
    return int(text.rpartition("-")[2])
