"""The SDK's producer on a real server that is killed, over a network that is cut."""

import signal
from concurrent.futures import Future
from typing import Any

import pytest

from tests.integration.cut_network import cut_network
from tests.integration.sdk_site import FACT_S_MAX, program, records_of, sdk_client, wait_until
from tests.integration.server_process import ServerProcess
from tidegate_sdk import Producer, StoredRecord

STREAM = "clicks"
KEYS = 16

PROGRAM = """
import signal, sys
from tests.integration.sdk_site import sdk_client
from tidegate_sdk import Producer

class Stopped(Exception): pass

def stop(*_):
    raise Stopped

signal.signal(signal.SIGTERM, stop)
# Who starts this in the background may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
producer = Producer(sdk_client(sys.argv[1], "kinesis"), "clicks", linger_s=0.2)
number = 0
try:
    while True:
        producer.put(str(number).encode(), str(number % 16))
        number += 1
        if number == 1000:
            print("going", flush=True)
except (Stopped, KeyboardInterrupt):
    pass
print(number, flush=True)
"""
"""Puts until it is stopped, and leaves it to the exit to send what is there."""


class Puts:
    """Numbered records, of keys in turns."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.futures: list[Future[StoredRecord]] = []

    def put(self, count: int) -> None:
        for _ in range(count):
            number = len(self.futures)
            self.futures.append(self._producer.put(f"{number}".encode(), f"{number % KEYS}"))

    def acknowledged(self) -> int:
        return sum(future.done() for future in self.futures)


def check_ledger(kinesis: Any, futures: list[Future[StoredRecord]]) -> None:
    """Each record is where its future says, once, and those of a key are in their order."""
    shards = records_of(kinesis, STREAM)
    told = {
        int(record["Data"]): (shard, record["SequenceNumber"])
        for shard, records in shards.items()
        for record in records
    }
    assert sum(map(len, shards.values())) == len(futures) == len(told)
    assert told == {number: future.result(0) for number, future in enumerate(futures)}
    in_order = sorted(
        (record for records in shards.values() for record in records),
        key=lambda record: record["ApproximateArrivalTimestamp"],
    )
    for key in range(KEYS):
        numbers = [int(r["Data"]) for r in in_order if r["PartitionKey"] == f"{key}"]
        assert numbers == sorted(numbers)


def test_a_killed_server_and_a_split_lose_double_and_reorder_nothing(
    server: ServerProcess,
) -> None:
    kinesis = sdk_client(server.url, "kinesis")
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    with Producer(kinesis, STREAM, linger_s=0.01, batch_bytes_max=2_000) as producer:
        puts = Puts(producer)
        puts.put(1_000)
        wait_until(puts.acknowledged, "a first record")
        server.kill()
        puts.put(1_000)
        server.start()
        wait_until(lambda: puts.acknowledged() == 2_000, "all of before the split")
        kinesis.split_shard(
            StreamName=STREAM,
            ShardToSplit="shardId-000000000000",
            NewStartingHashKey=str(2**126),
        )
        puts.put(1_000)
        server.kill()
        server.start()
        assert producer.flush(FACT_S_MAX)
    check_ledger(kinesis, puts.futures)
    assert len({future.result(0).shard_id for future in puts.futures}) == 4


def test_a_network_that_is_cut_and_loses_answers_loses_and_doubles_nothing(
    server: ServerProcess,
) -> None:
    kinesis = sdk_client(server.url, "kinesis")
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    with cut_network(server.port) as network:
        far = sdk_client(network.url, "kinesis")
        with Producer(far, STREAM, linger_s=0.01, batch_bytes_max=2_000) as producer:
            puts = Puts(producer)
            for round_number in range(4):
                before = len(puts.futures)
                # Each attempt of boto3's own, and the first one of the next call.
                network.answers_lost = 3 * (round_number % 2)
                puts.put(500)
                if round_number % 2:
                    wait_until(lambda: network.answers_lost == 0, "lost answers")
                else:
                    wait_until(lambda at=before: puts.acknowledged() > at, "an answer")  # type: ignore[misc]
                    network.cut()
                    puts.put(100)
                    network.mend()
            assert producer.flush(FACT_S_MAX)
    check_ledger(kinesis, puts.futures)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_is_stopped_sends_what_it_has_taken_in(
    server: ServerProcess, number: signal.Signals
) -> None:
    kinesis = sdk_client(server.url, "kinesis")
    kinesis.create_stream(StreamName=STREAM, ShardCount=2)
    with program(PROGRAM, server.url) as started:
        assert started.said.readline() == "going\n"
        put = int(started.stop(number))
    numbers = [int(r["Data"]) for records in records_of(kinesis, STREAM).values() for r in records]
    # The signal may come when the last one is taken in, and not counted yet.
    assert put <= len(numbers) <= put + 1
    assert sorted(numbers) == list(range(len(numbers)))
