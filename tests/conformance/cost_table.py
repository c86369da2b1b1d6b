"""What a million messages cost on a DynamoDB cell: the table of docs/cost.md.

`python -m tests.conformance.cost_table` prints it.
"""

import asyncio
import base64
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from control_plane.core.price_list import PRICES
from data_plane.bag.engine import Bag
from data_plane.core.message import Outgoing, SendCall
from data_plane.core.receipt_handle import decode
from data_plane.ports import Cell, Clock
from data_plane.runtime.event_loop import EventLoopWaits
from tests.conformance.capacity_cell import CapacityCell
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.repeatable import HandClock, SeededEntropy

MESSAGES: Final = 640
WRITES: Final = ("put_item", "update_item", "delete_item")
USD_PER_MILLION_WRITE_UNITS: Final = float(PRICES["write unit"].first)
USD_PER_MILLION_READ_UNITS: Final = float(PRICES["read unit"].first)

BETWEEN_CALLS_S: Final = 0.02
BEHIND_S: Final = 5


@dataclass(frozen=True, slots=True)
class Case:
    """Messages of a size, sent, received and deleted so many at a time."""

    body_bytes: int
    batch: int


@dataclass(frozen=True, slots=True)
class Cost:
    """Units for one message, by what was done: sending, receiving, deleting."""

    writes: Mapping[str, float]
    reads: Mapping[str, float]

    @property
    def usd_per_million(self) -> float:
        """Price of a million messages that are sent, received once and deleted."""
        return (
            sum(self.writes.values()) * USD_PER_MILLION_WRITE_UNITS
            + sum(self.reads.values()) * USD_PER_MILLION_READ_UNITS
        )


CASES: Final = (Case(1024, 1), Case(1024, 10), Case(100, 1), Case(100, 10))


def bodies(case: Case, messages: int) -> list[str]:
    """Random text of 64 different characters, of which compression takes off a quarter."""
    random = Random(case.body_bytes)
    return [
        base64.b64encode(random.randbytes(case.body_bytes))[: case.body_bytes].decode()
        for _ in range(messages)
    ]


async def work(
    cell: Cell, units: Counter[str], clock: Clock, case: Case, messages: int
) -> dict[str, Counter[str]]:
    """Do it on a cell that counts in `units`: what each step spent, by DynamoDB's request.

    The consumer is a few seconds behind the producer, and polls until nothing is left.
    """
    pass_s = clock.advance if isinstance(clock, HandClock) else lambda _seconds: None
    bag = Bag({QUEUE.cell: cell}, clock, SeededEntropy(), EventLoopWaits(clock))
    spent: dict[str, Counter[str]] = {}
    before = units.copy()

    def note(step: str) -> None:
        nonlocal before
        spent.setdefault(step, Counter()).update(units - before)
        before = units.copy()

    texts = bodies(case, messages)
    for start in range(0, messages, case.batch):
        chunk = [Outgoing(body=text, size=len(text)) for text in texts[start : start + case.batch]]
        await bag.send(QUEUE, SendCall(QUEUE.account, chunk))
        pass_s(BETWEEN_CALLS_S)
    note("send")
    pass_s(BEHIND_S)
    while True:
        deliveries = await bag.receive(QUEUE, count=case.batch, visibility_s=30, until_us=0)
        note("receive")
        if not deliveries:
            break
        pass_s(BETWEEN_CALLS_S)
        await bag.delete(QUEUE, [decode(each.receipt_handle, QUEUE) for each in deliveries])
        note("delete")
    return spent


def cost_of(case: Case) -> Cost:
    """Units for one message, counted from the sizes of items."""
    clock = HandClock()
    cell = CapacityCell(clock)
    spent = asyncio.run(work(cell, cell.units, clock, case, MESSAGES))
    return Cost(
        writes={
            step: sum(units[name] for name in WRITES) / MESSAGES for step, units in spent.items()
        },
        reads={
            step: sum(count for name, count in units.items() if name not in WRITES) / MESSAGES
            for step, units in spent.items()
        },
    )


def table() -> str:
    """The table, in Markdown."""
    columns = (
        "messages",
        "at a time",
        "send, writes",
        "receive, writes",
        "receive, reads",
        "delete, writes",
        "USD per million",
    )
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for case in CASES:
        cost = cost_of(case)
        size = "1 KB" if case.body_bytes == 1024 else f"{case.body_bytes} B"
        lines.append(
            f"| {size} | {case.batch} | {cost.writes['send']:.2f} |"
            f" {cost.writes['receive']:.2f} | {cost.reads['receive']:.2f} |"
            f" {cost.writes['delete']:.2f} | {cost.usd_per_million:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
