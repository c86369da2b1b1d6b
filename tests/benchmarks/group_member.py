"""A member of a consumer group in a process of its own, as the benchmark of groups starts it.

It tells on standard output what it reads: `time shard records`, a line for each page with records,
of which each is committed. SIGTERM lets it leave.
"""

import json
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.benchmarks.server_process import Line, ServerError
from tests.benchmarks.wire import STREAMS, request, response_body

WAIT_S: Final = 20
PAUSE_S: Final = 0.05
"""Between two looks at the shards: so much is what is measured too long at most."""

JOINS: Final = 0
LEAVES: Final = -1
_LIMIT: Final = 1_000
_TRIES: Final = 20
_BUSY: Final = " 503 "
_BUSY_S: Final = 0.1


def call(line: Line, port: int, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Make a call on streams, again where the server is busy. Raises as Line.exchange."""
    asked = request(port, operation, params, service=STREAMS)
    for left in reversed(range(_TRIES)):
        try:
            body = response_body(line.exchange(asked))
        except ServerError as error:
            if not left or _BUSY not in str(error):
                raise
            time.sleep(_BUSY_S)  # as an SDK waits
        else:
            break
    answer: dict[str, Any] = json.loads(body) if body else {}
    return answer


@dataclass(slots=True)
class Member:
    """What a member was told: `owned` are its shards with their epochs, and where it reads on."""

    port: int
    group: str
    id: str = ""
    epoch: int = JOINS
    owned: dict[str, dict[str, Any]] = field(default_factory=dict)
    iterators: dict[str, str] = field(default_factory=dict)

    def beat(self, line: Line, wait_s: int = 0) -> None:
        """Come once, and take over what it is told."""
        params: dict[str, Any] = {"GroupName": self.group, "MemberEpoch": self.epoch}
        if self.id:
            params["MemberId"] = self.id
        if self.epoch != JOINS:
            owned = [
                {name: one[name] for name in ("StreamARN", "ShardId", "AssignmentEpoch")}
                for one in self.owned.values()
            ]
            params |= {"OwnedShards": owned, "WaitTimeSeconds": wait_s}
        told = call(line, self.port, "TidegateGroupHeartbeat", params)
        self.id, self.epoch = told["MemberId"], told["MemberEpoch"]
        shards = {one["ShardId"]: one for one in told["Assignment"]}
        for shard, one in shards.items():
            if "Position" in one:
                asked = {"StreamARN": one["StreamARN"], "ShardId": shard, **one["Position"]}
                answer = call(line, self.port, "GetShardIterator", asked)
                self.iterators[shard] = answer["ShardIterator"]
        self.owned = shards

    def begin_anew(self) -> None:
        """It was taken for dead, or for another one: it has nothing, and joins again."""
        self.epoch, self.owned = JOINS, {}

    def read(self, line: Line, shard: str) -> int:
        """Read a page of a shard, and commit it: how many records it had."""
        one, iterator = self.owned.get(shard), self.iterators.get(shard)
        if one is None or iterator is None:
            return 0
        page = call(line, self.port, "GetRecords", {"ShardIterator": iterator, "Limit": _LIMIT})
        self.iterators[shard] = page["NextShardIterator"]
        records = page["Records"]
        if records:
            named = {name: one[name] for name in ("StreamARN", "ShardId", "AssignmentEpoch")}
            entry = {**named, "SequenceNumber": records[-1]["SequenceNumber"]}
            entries = {"GroupName": self.group, "MemberId": self.id, "Entries": [entry]}
            call(line, self.port, "TidegateCommitOffsets", entries)
        return len(records)

    def leave(self, line: Line) -> None:
        """Go for good."""
        params = {"GroupName": self.group, "MemberEpoch": LEAVES, "MemberId": self.id}
        call(line, self.port, "TidegateGroupHeartbeat", params)


def work(port: int, group: str) -> None:
    """Be a member until SIGTERM."""
    member, stop = Member(port, group), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def beats() -> None:
        with Line(port) as line:
            while not stop.is_set():
                try:
                    member.beat(line, WAIT_S)
                except ServerError as error:
                    if stop.is_set():
                        return
                    # Somebody took it for dead, as a loaded machine makes it look.
                    print(f"lost {error}", file=sys.stderr, flush=True)
                    member.begin_anew()

    with Line(port) as line:
        member.beat(line)
        threading.Thread(target=beats, daemon=True).start()
        while not stop.is_set():
            for shard in list(member.owned):
                count = member.read(line, shard)
                if count:
                    print(f"{time.perf_counter():.4f} {shard} {count}", flush=True)
            stop.wait(PAUSE_S)
        member.leave(line)


if __name__ == "__main__":
    work(int(sys.argv[1]), sys.argv[2])
