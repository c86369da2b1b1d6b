"""A FIFO queue over a stream against a model: front ends that crash, lost replies, reshards.

What was deleted is never delivered again, each record is delivered in the order of its key, and in
the end all that was not deleted is there.
"""

from collections import defaultdict
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from data_plane.core.message import Delivery
from data_plane.ports import CellUnavailableError
from tests.unit.data_plane.streams.queue_bench import QueueBench

KEYS = ("ann", "bob", "cyd")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(KEYS), st.integers(1, 70)),
        st.tuples(st.just("receive"), st.integers(0, 1), st.integers(1, 10)),
        st.tuples(st.just("delete"), st.integers(0, 1), st.integers(1, 10)),
        st.tuples(st.just("crash"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("lose"), st.just(0), st.integers(1, 2)),
        st.tuples(st.just("split"), st.just(0), st.just(0)),
        st.tuples(st.just("merge"), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.integers(1, 40)),
        st.tuples(st.just("sweep"), st.integers(0, 1), st.just(0)),
    ),
    max_size=60,
)


class Model:
    """What was put by key, what is deleted for sure, and what may be."""

    def __init__(self) -> None:
        self.put: dict[str, list[str]] = defaultdict(list)
        self.deleted: set[str] = set()
        self.doubtful: set[str] = set()

    def check(self, deliveries: list[Delivery]) -> None:
        """Nothing that is deleted, and nothing before what it has to wait for."""
        shown: set[str] = set()
        for delivery in deliveries:
            body = delivery.message.body
            assert body not in self.deleted, f"{body} was deleted"
            of_key = self.put[body.partition(":")[0]]
            before = set(of_key[: of_key.index(body)])
            assert before <= self.deleted | self.doubtful | shown, f"{body} came too early"
            shown.add(body)


class Run:
    """One run: the bench, two consumers, and what they hold."""

    def __init__(self) -> None:
        self.bench = QueueBench()
        self.logs = [self.bench.consumer(), self.bench.consumer()]
        self.held: list[Delivery] = []
        self.model = Model()
        self.number = 0

    async def step(self, kind: str, which: Any, count: int) -> None:
        bench = self.bench
        if kind == "put":
            texts = [f"{which}:{self.number + n}" for n in range(count)]
            self.number += count
            await bench.put_for(which, *texts)
            self.model.put[which] += texts
        elif kind == "receive":
            await self._receive(which, count)
        elif kind == "delete" and self.held:
            await self._delete(which, count)
        elif kind == "crash":
            self.logs[which] = bench.consumer()
        elif kind == "lose":
            bench.cell.lost = count
        elif kind == "split" and len(bench.stream.shards) < 12:
            await bench.split(bench.stream.open_shards[0].number)
        elif kind == "merge":
            await bench.merge_all()
        elif kind == "wait":
            bench.clock.advance(count)
        elif kind == "sweep":
            with suppress(CellUnavailableError):
                await self.logs[which].sweep()

    async def _receive(self, which: int, count: int) -> None:
        try:
            deliveries = await self.bench.receive(count, self.logs[which])
        except CellUnavailableError:
            return
        self.model.check(deliveries)
        self.held += deliveries

    async def _delete(self, which: int, count: int) -> None:
        taken, self.held = self.held[:count], self.held[count:]
        try:
            done = await self.bench.delete(taken, self.logs[which])
        except CellUnavailableError:
            self.model.doubtful.update(one.message.body for one in taken)
        else:
            self.model.deleted.update(done)

    async def end(self) -> None:
        """After all leases, who begins anew finds what was not deleted, in order."""
        self.bench.cell.lost = 0
        self.bench.clock.advance(60)
        found = await self.bench.drain(self.bench.consumer())
        assert len(found) == len(set(found))
        for key, texts in self.model.put.items():
            of_key = [text for text in found if text.partition(":")[0] == key]
            assert of_key == [text for text in texts if text in set(of_key)]
            missing = set(texts) - set(of_key)
            assert self.model.deleted & set(texts) <= missing
            assert missing <= self.model.deleted | self.model.doubtful


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_queue_over_a_stream_agrees_with_the_model(steps: list[tuple[str, Any, int]]) -> None:
    run = Run()

    async def all_steps() -> None:
        for step in steps:
            await run.step(*step)
        await run.end()

    run.bench.run(all_steps())
