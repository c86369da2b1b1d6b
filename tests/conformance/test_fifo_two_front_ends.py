"""FIFO queues through two front ends at a time: order and single delivery hold between them."""

import threading
import time
from functools import partial
from typing import Any

from tests.conformance.fifo_calls import Fifo, by_group
from tests.conformance.in_process import InProcessServer
from tests.conformance.long_polls import LIMIT_S, begin

GROUPS = "abcd"
PER_GROUP = 15


def both_sides(server: InProcessServer, **attributes: str) -> tuple[Fifo, Fifo]:
    fifo = Fifo(server.client("json"), **attributes)
    return fifo, fifo.through(server.another().client("query"))


def check_concurrent_work(both: tuple[Fifo, Fifo]) -> None:
    """Both are sent to and drained at the same time; a body is its group and its number there."""
    bodies = {group: [f"{group}{n:02}" for n in range(PER_GROUP)] for group in GROUPS}
    delivered: list[str] = []
    lock = threading.Lock()
    deadline_s = time.monotonic() + LIMIT_S

    def send(mine: Fifo, groups: str) -> None:
        for mixed in zip(*(bodies[group] for group in groups), strict=True):
            assert "Failed" not in mine.send_batch(*({"MessageBody": body} for body in mixed))

    def drain(mine: Fifo) -> None:
        while len(delivered) < len(GROUPS) * PER_GROUP and time.monotonic() < deadline_s:
            messages = mine.receive(3)
            with lock:
                delivered.extend(message["Body"] for message in messages)
            mine.delete(*messages)

    work: list[Any] = [partial(send, both[0], GROUPS[:2]), partial(send, both[1], GROUPS[2:])]
    work += [partial(drain, mine) for mine in both]
    for answer in [begin(call) for call in work]:
        answer()
    assert by_group(delivered) == bodies


def test_work_of_both_at_the_same_time(server: InProcessServer) -> None:
    check_concurrent_work(both_sides(server))


def test_work_of_both_in_high_throughput_mode(server: InProcessServer) -> None:
    mode = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    check_concurrent_work(both_sides(server, **mode))


def test_a_duplicate_is_one_whichever_was_first(server: InProcessServer) -> None:
    both = both_sides(server)
    sends = [begin(partial(mine.send, "a1")) for mine in both for _ in range(4)]
    answers = [send() for send in sends]
    assert len({(one["MessageId"], one["SequenceNumber"]) for one in answers}) == 1
    assert both[0].drain() == ["a1"]


def test_sequence_numbers_grow_whoever_sends(server: InProcessServer) -> None:
    both = both_sides(server)
    numbers = [both[n % 2].send(f"a{n}")["SequenceNumber"] for n in range(10)]
    assert numbers == sorted(set(numbers))
    assert both[1].drain() == [f"a{n}" for n in range(10)]


def test_what_one_holds_the_other_does_not_get(server: InProcessServer) -> None:
    first, second = both_sides(server)
    for body in ("a1", "a2", "b1"):
        first.send(body)
    (held,) = first.receive(1)
    assert second.bodies() == ["b1"]
    server.clock.advance(10)
    assert second.bodies() == []
    first.change(held, 60)
    server.clock.advance(59)
    assert second.bodies(VisibilityTimeout=0) == ["b1"]
    # The leases of another front end last a little longer: clocks may differ.
    server.clock.advance(2)
    assert by_group(second.bodies()) == {"a": ["a1", "a2"], "b": ["b1"]}
    assert first.refused_as_expired(held)


def test_a_purge_reaches_the_other(server: InProcessServer) -> None:
    first, second = both_sides(server)
    sent = first.send("a1")
    assert second.bodies(VisibilityTimeout=0) == ["a1"]
    first.sqs.purge_queue(QueueUrl=first.url)
    again = second.send("a1")
    assert again["MessageId"] != sent["MessageId"]
    # A definition is looked at anew within 60 seconds, the purge's stamp with it.
    server.clock.advance(61)
    assert second.drain() == ["a1"]
    assert first.bodies() == []
