"""Members of a consumer group on a real server that is killed, over a network that is cut."""

import contextlib
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.integration.cut_network import cut_network
from tests.integration.sdk_site import FACT_S_MAX, program, sdk_client, wait_until
from tests.integration.server_process import ServerProcess
from tidegate_sdk import (
    COMMIT_BEFORE,
    COMMIT_MANUALLY,
    CommitPolicy,
    GroupConsumer,
    GroupShard,
    Producer,
    RecordBatch,
    commit_every,
)

STREAM, GROUP = "clicks", "readers"
KEYS = 8

LONG_SESSION_S = 60
"""No member is taken for gone because the machine is slow."""

SHORT_SESSION_S = 3

PROGRAM = """
import sys, time
from tests.integration.sdk_site import sdk_client
from tidegate_sdk import GroupConsumer

def handle(batch):
    time.sleep(0.05)  # its work
    lines = [record["Data"].decode() + "\\n" for record in batch.records]
    sys.stdout.write("".join(lines))
    sys.stdout.flush()

client = sdk_client(sys.argv[1], "kinesis")
GroupConsumer(client, sys.argv[2], handle, records_max=5).run()
"""


class Ledger:
    """What handlers have seen, in order of their beginning."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self._lock = threading.Lock()
        self.assigned: list[GroupShard] = []
        self.lost: list[GroupShard] = []

    def handle(self, batch: RecordBatch) -> None:
        with self._lock:
            self.numbers += [int(record["Data"]) for record in batch.records]

    def lose(self, shards: Sequence[GroupShard]) -> None:
        self.lost += shards

    def note(self, shards: Sequence[GroupShard]) -> None:
        self.assigned += shards

    def check_order(self) -> None:
        """Records of a key came first in their order, whatever came again."""
        first_times = list(dict.fromkeys(self.numbers))
        for key in range(KEYS):
            of_key = [number for number in first_times if number % KEYS == key]
            assert of_key == sorted(of_key)


@pytest.fixture
def kinesis(server: ServerProcess) -> Any:
    client = sdk_client(server.url, "kinesis")
    client.create_stream(StreamName=STREAM, ShardCount=2)
    make_group(client, GROUP, LONG_SESSION_S)
    return client


def make_group(client: Any, name: str, session_s: int) -> None:
    told = client.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
    client.tidegate_create_group(
        GroupName=name,
        StreamARNs=[told["StreamARN"]],
        StartingPosition={"Type": "TRIM_HORIZON"},
        SessionTimeoutSeconds=session_s,
    )


def put(kinesis: Any, first: int, end: int) -> None:
    with Producer(kinesis, STREAM, linger_s=0) as producer:
        for number in range(first, end):
            producer.put(f"{number}".encode(), f"{number % KEYS}")


def lag(kinesis: Any, group: str = GROUP) -> int:
    return sum(
        shard.get("LagRecords", 0)
        for shard in kinesis.tidegate_describe_group(GroupName=group)["Shards"]
    )


def members(kinesis: Any) -> int:
    return len(kinesis.tidegate_describe_group(GroupName=GROUP)["Members"])


@contextlib.contextmanager
def running(*consumers: GroupConsumer) -> Iterator[None]:
    threads = [threading.Thread(target=each.run, daemon=True) for each in consumers]
    for thread in threads:
        thread.start()
    yield
    for each in consumers:
        each.stop()
    for thread in threads:
        thread.join(FACT_S_MAX)
        assert not thread.is_alive()


@pytest.mark.parametrize("commits", [CommitPolicy(), commit_every(0.3)], ids=["after", "every"])
def test_members_share_a_stream_whose_server_is_killed_and_shards_are_split(
    server: ServerProcess, kinesis: Any, commits: CommitPolicy
) -> None:
    ledger = Ledger()
    options: Any = {"commits": commits, "records_max": 20, "on_assigned": ledger.note}
    consumers = [GroupConsumer(kinesis, GROUP, ledger.handle, **options) for _ in range(2)]
    with running(*consumers):
        put(kinesis, 0, 500)
        wait_until(lambda: len(ledger.numbers) > 100, "some records")
        server.kill()
        server.start()
        kinesis.split_shard(
            StreamName=STREAM,
            ShardToSplit="shardId-000000000000",
            NewStartingHashKey=str(2**126),
        )
        put(kinesis, 500, 1_000)
        wait_until(lambda: set(ledger.numbers) == set(range(1_000)), "all records")
        wait_until(lambda: not lag(kinesis), "all commits")
    ledger.check_order()
    assert {shard.shard_id[-1] for shard in ledger.assigned} == {"0", "1", "2", "3"}
    assert members(kinesis) == 0, "they have left"


def test_a_member_that_joins_and_leaves_doubles_nothing(kinesis: Any) -> None:
    ledger, other = Ledger(), Ledger()
    put(kinesis, 0, 100)
    with running(GroupConsumer(kinesis, GROUP, ledger.handle, records_max=10)):
        wait_until(lambda: len(ledger.numbers) == 100, "all records")
        with running(
            GroupConsumer(
                kinesis, GROUP, other.handle, on_assigned=other.note, instance_id="second"
            )
        ):
            wait_until(lambda: other.assigned, "a shard of the first one")
            put(kinesis, 100, 200)
            wait_until(lambda: len(ledger.numbers) + len(other.numbers) == 200, "all records")
            assert other.numbers
    assert sorted(ledger.numbers + other.numbers) == list(range(200))


def test_a_stream_that_is_made_anew_at_once_is_read_from_its_beginning(kinesis: Any) -> None:
    ledger = Ledger()
    put(kinesis, 0, 100)
    # Whether a heartbeat comes in between decides which of the two is told.
    consumer = GroupConsumer(
        kinesis, GROUP, ledger.handle, on_lost=ledger.lose, on_revoked=ledger.lose
    )
    with running(consumer):
        wait_until(lambda: len(ledger.numbers) == 100, "all records")
        kinesis.delete_stream(StreamName=STREAM)
        kinesis.create_stream(StreamName=STREAM, ShardCount=2)
        put(kinesis, 100, 200)
        wait_until(lambda: set(ledger.numbers) == set(range(200)), "all records of the new one")
        wait_until(lambda: not lag(kinesis), "all commits")
        wait_until(lambda: ledger.lost, "that the former shards are gone")


@pytest.mark.parametrize(
    "commits", [CommitPolicy(), COMMIT_BEFORE], ids=["at least once", "at most once"]
)
def test_a_member_that_is_cut_off_for_its_session_drops_all_and_joins_again(
    server: ServerProcess, kinesis: Any, commits: CommitPolicy
) -> None:
    ledger = Ledger()
    make_group(kinesis, "cut-off", SHORT_SESSION_S)
    put(kinesis, 0, 200)
    with cut_network(server.port) as network:
        far = sdk_client(network.url, "kinesis")
        with running(
            GroupConsumer(
                far, "cut-off", ledger.handle, commits=commits, on_lost=ledger.lose, records_max=10
            )
        ):
            wait_until(lambda: len(ledger.numbers) > 50, "some records")
            network.cut()
            wait_until(lambda: ledger.lost, "the end of its session")
            put(kinesis, 200, 300)
            network.mend()
            wait_until(lambda: not lag(kinesis, "cut-off"), "all commits")
    seen = Counter(ledger.numbers)
    if commits.before:
        assert max(seen.values()) == 1
        assert len(seen) >= 300 - 2 * 10, "a batch of each shard may be lost"
    else:
        assert set(seen) == set(range(300))
        ledger.check_order()


def test_a_program_ends_with_its_session_where_the_network_swallows_all(
    server: ServerProcess, kinesis: Any
) -> None:
    make_group(kinesis, "swallowed", SHORT_SESSION_S)
    put(kinesis, 0, 300)
    with (
        cut_network(server.port) as network,
        program(PROGRAM, network.url, "swallowed") as started,
    ):
        done = {int(started.said.readline()) for _ in range(20)}
        network.swallows = True
        # boto3 would wait two minutes for each call.
        rest = started.stop_within(signal.SIGTERM, 10 * SHORT_SESSION_S)
    done |= set(map(int, rest.splitlines()))
    ledger = Ledger()
    with running(GroupConsumer(kinesis, "swallowed", ledger.handle)):
        wait_until(lambda: done | set(ledger.numbers) == set(range(300)), "what is not committed")


def test_a_handler_that_commits_itself_is_asked_before_a_shard_goes(kinesis: Any) -> None:
    batches: dict[GroupShard, RecordBatch] = {}

    def handle(batch: RecordBatch) -> None:
        batches[batch.shard] = batch

    def commit(shards: Sequence[GroupShard]) -> None:
        for shard in shards:
            batches.pop(shard).commit()

    put(kinesis, 0, 100)
    consumer = GroupConsumer(
        kinesis, GROUP, handle, commits=COMMIT_MANUALLY, on_revoked=commit, records_max=1_000
    )
    with running(consumer):
        wait_until(lambda: sum(len(each.records) for each in batches.values()) == 100, "all")
        assert lag(kinesis) == 100
    assert lag(kinesis) == 0


def test_a_program_that_is_stopped_commits_what_it_has_done(
    server: ServerProcess, kinesis: Any
) -> None:
    put(kinesis, 0, 300)
    with program(PROGRAM, server.url, GROUP) as started:
        done = [int(started.said.readline()) for _ in range(20)]
        done += [int(line) for line in started.stop(signal.SIGTERM).splitlines()]
    assert lag(kinesis) == 300 - len(done) > 0
    assert members(kinesis) == 0
    ledger = Ledger()
    with running(GroupConsumer(kinesis, GROUP, ledger.handle)):
        wait_until(lambda: len(done) + len(ledger.numbers) >= 300, "the rest")
    assert sorted(done + ledger.numbers) == list(range(300))


def test_a_stop_ends_whose_callbacks_take_longer_than_heartbeats_are_apart(kinesis: Any) -> None:
    ledger = Ledger()
    make_group(kinesis, "slow", SHORT_SESSION_S)

    def take_long(shards: Sequence[GroupShard]) -> None:
        ledger.lose(shards)
        threading.Event().wait(SHORT_SESSION_S / 2)

    consumer = GroupConsumer(
        kinesis, "slow", ledger.handle, on_assigned=ledger.note, on_revoked=take_long
    )
    with running(consumer):
        wait_until(lambda: len(ledger.assigned) == 2, "both shards")
    assert sorted(ledger.lost) == sorted(ledger.assigned)
    assert kinesis.tidegate_describe_group(GroupName="slow")["Members"] == []


def test_a_group_that_is_not_there_ends_its_member(kinesis: Any) -> None:
    with pytest.raises(ClientError, match="ResourceNotFound"):
        GroupConsumer(kinesis, "others", lambda _: None).run()
