"""Every answered send is one request, and every message that it stored is one message.

By the ledger where something was stored, else by the answer: whatever of a batch is a duplicate, in
whichever partition, lane or segment it lies, and whoever sends the same at the same time.
"""

import asyncio
import json
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.bag.engine import Bag
from data_plane.core.queue import Queue
from data_plane.engine import Engine
from data_plane.frontend.front_end import FrontEnd
from data_plane.frontend.settings import FrontEndSettings
from data_plane.log.engine import Log
from data_plane.memory.cell import MemoryCell
from data_plane.operations.catalog import message_operations
from data_plane.protocol.sqs import sqs
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import ledger
from data_plane.usage.totals import Counting
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.data_plane.log.conftest import GROUP_SCOPE, HIGH_THROUGHPUT
from tests.unit.data_plane.wire import ACCOUNT, REGION, json_request
from tests.unit.repeatable import HandClock, SeededEntropy

STANDARD = replace(QUEUE, account=ACCOUNT, region=REGION)
FIFO = replace(
    STANDARD,
    name="orders.fifo",
    uid="00112233445566bb",
    fifo=True,
    attributes=GROUP_SCOPE,
    generations=HIGH_THROUGHPUT,
)
UNIT_BYTES = 65_536

Answers = Counter[tuple[str, str]]
"""By operation, and what is counted."""


class House:
    """Two front ends over one cell with a ledger, and what they answered."""

    def __init__(self) -> None:
        self.clock, self.entropy = HandClock(), SeededEntropy()
        self.cell = MemoryCell(self.clock)
        self.counting = Counting({"a"})
        self.front_ends = [self._front_end() for _ in range(2)]
        self.answered: Answers = Counter()

    def _front_end(self) -> FrontEnd:
        ports = ({"a": self.cell}, self.clock, self.entropy, EventLoopWaits(self.clock))
        return FrontEnd(
            (sqs(message_operations(Engine(Bag(*ports), Log(*ports)))),),
            self,
            self.clock,
            self.entropy,
            FrontEndSettings(),
            self.counting.served,
        )

    async def find(self, account: str, _region: str, name: str) -> Queue | None:
        assert account == ACCOUNT
        return {STANDARD.name: STANDARD, FIFO.name: FIFO}[name]

    async def send(
        self, queue: Queue, which: int, entries: list[dict[str, Any]], headers: dict[str, str]
    ) -> None:
        url = f"http://sqs.example/{ACCOUNT}/{queue.name}"
        operation, params = "SendMessage", {"QueueUrl": url, **entries[0]}
        if len(entries) > 1:
            numbered = [{"Id": str(number), **one} for number, one in enumerate(entries)]
            operation, params = "SendMessageBatch", {"QueueUrl": url, "Entries": numbered}
        request = json_request(operation, params, headers)
        response = await self.front_ends[which].answer(request)
        assert response.status == 200, response.body
        assert "Failed" not in json.loads(response.body)
        size = sum(len(entry["MessageBody"]) for entry in entries)
        self.answered[operation, "requests"] += 1
        self.answered[operation, "units"] += max(1, -(-size // UNIT_BYTES))

    def counted(self) -> Answers:
        """By ledger and answers together."""
        sums: Answers = Counter()
        for item in self.cell.items():
            if item.key.partition == ledger.PARTITION:
                row = ledger.read_row(item)
                operation = "SendMessageBatch" if row.batch else "SendMessage"
                sums[operation, "requests"] += row.calls
                sums[operation, "units"] += row.units
                sums["", "messages"] += row.messages
                sums["", "bytes"] += row.size_bytes
        for record in self.counting.take().records("0" * 16, 1):
            sums[record.operation, "requests"] += record.requests
            sums[record.operation, "units"] += record.units
            sums["", "messages"] += record.messages
            sums["", "bytes"] += record.bytes
        return +sums


FIFO_ENTRY = st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from([1, 40_000]))
FIFO_CALLS = st.lists(
    st.tuples(st.integers(0, 1), st.lists(FIFO_ENTRY, min_size=1, max_size=6)),
    min_size=1,
    max_size=4,
)


@settings(deadline=None)
@given(st.lists(FIFO_CALLS, max_size=6))
def test_sends_to_fifo_queues(rounds: list[list[tuple[int, list[tuple[int, int, int]]]]]) -> None:
    house = House()
    sent: dict[tuple[int, int], set[int]] = {}

    async def story() -> None:
        for calls in rounds:
            sends = []
            for which, messages in calls:
                for group, name, size in messages:
                    sent.setdefault((group, name), set()).add(size)
                entries = [
                    {
                        "MessageBody": "x" * size,
                        "MessageGroupId": str(group),
                        "MessageDeduplicationId": str(name),
                    }
                    for group, name, size in messages
                ]
                sends.append(house.send(FIFO, which, entries, {}))
            await asyncio.gather(*sends)
            house.clock.advance(1)

    asyncio.run(story())
    counted = house.counted()
    assert counted.pop(("", "messages"), 0) == len(sent)
    size = counted.pop(("", "bytes"), 0)
    assert sum(map(min, sent.values())) <= size <= sum(map(max, sent.values()))
    assert counted == house.answered


STANDARD_ENTRY = st.tuples(
    st.sampled_from([0, 0, 5]), st.sampled_from(["", "", "g"]), st.sampled_from([1, 40_000])
)
STANDARD_CALLS = st.lists(
    st.tuples(st.lists(STANDARD_ENTRY, min_size=1, max_size=6), st.lists(st.integers(0, 1))),
    max_size=6,
)


@settings(deadline=None)
@given(STANDARD_CALLS)
def test_sends_to_standard_queues(
    calls: list[tuple[list[tuple[int, str, int]], list[int]]],
) -> None:
    """Each call, and then its repetitions by one front end or the other."""
    house = House()

    async def story() -> None:
        for number, (messages, repeated_by) in enumerate(calls):
            entries = [
                {
                    "MessageBody": "x" * size,
                    "DelaySeconds": delay_s,
                    **({"MessageGroupId": group} if group else {}),
                }
                for delay_s, group, size in messages
            ]
            for attempt, which in enumerate([0, *repeated_by], start=1):
                headers = {
                    "amz-sdk-invocation-id": str(number),
                    "amz-sdk-request": f"attempt={attempt}",
                }
                await house.send(STANDARD, which, entries, headers)
                house.clock.advance(1)

    asyncio.run(story())
    counted = house.counted()
    sizes = [size for messages, _ in calls for _, _, size in messages]
    assert counted.pop(("", "messages"), 0) == len(sizes)
    assert counted.pop(("", "bytes"), 0) == sum(sizes)
    assert counted == house.answered
