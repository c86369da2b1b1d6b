"""Usage is the sum of what was served, however it is cut into records, and whatever is cut off."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from data_plane.frontend.served import Served
from data_plane.ports import CellUnavailableError
from data_plane.usage.record import Mark, Record, Tail, UsageRecord
from data_plane.usage.sends import SendRecords
from data_plane.usage.writer import UsageWriter
from tests.unit.data_plane.bag.conftest import Bench
from tests.unit.data_plane.http.test_metrics import served
from tests.unit.repeatable import HandClock, SeededEntropy

CELL = "a"
SENDS = ("SendMessage", "SendMessageBatch")


class Place:
    """Keeps what is put, each identity once.

    Of the next puts `failures` says which fail: those with a truth value, which says whether they
    are stored all the same.
    """

    def __init__(self) -> None:
        self.records: dict[tuple[type[Record], str, int], Record] = {}
        self.marks: dict[str, Mark] = {}
        self.failures: list[bool | None] = []

    async def put(self, records: Sequence[Record]) -> None:
        stored = self.failures.pop(0) if self.failures else None
        if stored is not False:
            for record in records:
                identity = (type(record), record.writer, record.number)
                assert self.records.setdefault(identity, record) == record
        if stored is not None:
            raise CellUnavailableError("cut off")

    async def put_mark(self, mark: Mark) -> None:
        self.marks[mark.writer] = mark

    async def put_tail(self, _writer: str, tail: Callable[[], Tail]) -> None:
        tail()

    async def remove_tail(self, _writer: str) -> None:
        pass

    def usage(self) -> list[UsageRecord]:
        return [record for record in self.records.values() if isinstance(record, UsageRecord)]


def totals(records: list[UsageRecord]) -> Counter[tuple[Any, ...]]:
    sums: Counter[tuple[Any, ...]] = Counter()
    for r in records:
        key = (r.minute, r.queue, r.operation, r.status)
        amounts = (r.requests, r.units, r.messages, r.bytes, r.failed_entries)
        sums.update({(*key, place): amount for place, amount in enumerate(amounts)})
    return +sums


def singles(answers: list[Served]) -> Counter[tuple[Any, ...]]:
    sums: Counter[tuple[Any, ...]] = Counter()
    for one in answers:
        if one.cell == CELL and one.counted and one.operation in SENDS:
            continue
        key = (one.finished_us // 60_000_000, one.queue, one.operation, f"{one.status // 100}xx")
        units = max(1, (one.bytes + 65_535) // 65_536)
        messages, size = one.messages - one.duplicates, one.bytes - one.duplicate_bytes
        if one.cell == CELL and one.operation in SENDS:
            messages = size = 0
        amounts = (1, units, messages, size, one.failed_entries)
        sums.update({(*key, place): amount for place, amount in enumerate(amounts)})
    return +sums


ANSWERS = st.builds(
    served,
    st.sampled_from([*SENDS, "ReceiveMessage", "DeleteMessage"]),
    queue=st.sampled_from(["", "q", "r"]),
    status=st.sampled_from([200, 400, 403, 503]),
    finished_us=st.integers(0, 180_000_000),
    messages=st.integers(5, 10),
    bytes=st.integers(5, 1 << 20),
    duplicates=st.integers(-5, 5).map(lambda many: max(many, 0)),
    duplicate_bytes=st.integers(0, 5),
    counted=st.booleans(),
    failed_entries=st.integers(0, 10),
    cell=st.sampled_from(["", CELL]),
    client=st.sampled_from(["10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"]),
)


@given(st.lists(ANSWERS | st.none() | st.booleans(), max_size=60))
def test_records_are_the_sum_of_what_was_served(events: list[Served | bool | None]) -> None:
    """None writes; a truth value does not get through, and says whether it was stored."""
    place = Place()
    writer = UsageWriter(place, HandClock(), SeededEntropy(), {CELL})  # type: ignore[arg-type]

    async def story() -> None:
        for event in events:
            if isinstance(event, Served):
                writer.served(event)
                continue
            place.failures = [] if event is None else [event]
            try:
                await writer.write()
            except CellUnavailableError:
                continue
        place.failures = []
        await writer.close()

    asyncio.run(story())
    assert totals(place.usage()) == singles([e for e in events if isinstance(e, Served)])
    numbers = sorted(record.number for record in place.usage())
    assert numbers == list(range(1, place.marks[writer.name].records + 1))
    accesses = sum(r.requests for r in place.records.values() if not isinstance(r, UsageRecord))
    assert accesses == sum(isinstance(event, Served) for event in events)


CUTS: tuple[tuple[bool | None, ...], ...] = (
    *((), (True,), (False,)),
    *((None, True), (None, False), (None, None, False)),
)

STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("wait"), st.integers(1, 70), st.booleans()),
    st.tuples(st.just("write"), st.sampled_from(CUTS), st.booleans()),
    st.tuples(st.just("crash"), st.none(), st.booleans()),
)


@given(st.lists(STEPS, max_size=40))
def test_a_ledger_becomes_records_once_whatever_is_cut_off(
    steps: list[tuple[str, Any, bool]],
) -> None:
    bench, place = Bench(), Place()
    sent: Counter[bool] = Counter()

    def opened() -> SendRecords:
        # One row at a time: so what is cut off lies between two steps, too.
        return SendRecords(bench.cell, place, bench.entropy, rows_per_step=1)  # type: ignore[arg-type]

    async def story() -> None:
        sends = opened()
        for step, amount, flag in steps:
            if step == "send":
                bodies = ["x"] * (amount if flag else 1)
                await bench.send(*bodies, batch=flag)
                sent[flag] += len(bodies)
            elif step == "wait":
                bench.clock.advance(amount)
            elif step == "write":
                place.failures = list(amount)
                try:
                    await sends.write()
                except CellUnavailableError:
                    continue
            else:
                if flag:  # it was stopped, and nothing was sent any more
                    place.failures = []
                    await sends.write_last()
                sends, bench.bag = opened(), bench.front_end()
        place.failures = []
        await sends.write_last()

    asyncio.run(story())
    found: Counter[bool] = Counter()
    for record in place.usage():
        assert record.status == "2xx"
        if record.operation == SENDS[0]:
            assert record.requests == record.messages
        found[record.operation == SENDS[1]] += record.messages
    assert found == sent
    numbers = sorted(number for _, _, number in place.records)
    assert numbers == list(range(1, len(numbers) + 1))
