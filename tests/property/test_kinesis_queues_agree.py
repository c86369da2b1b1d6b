"""A queue of the Kinesis API against a model: front ends that crash, lost replies, reshards.

What was acknowledged never comes back, no record dies before its time or lives beyond it, a restore
counts once, and in the end all that was not acknowledged is there, and was counted. Each planted
bug is found.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from data_plane.core.message import Delivery
from data_plane.core.receipt_handle import decode
from data_plane.core.settling import ACKNOWLEDGE, HIDE, RESTORE, Wish
from data_plane.log import claims, reader, receiving, settling
from data_plane.log.dead_letters import with_fate
from data_plane.log.engine import Log
from data_plane.ports import CellUnavailableError
from data_plane.stored import counting, lease
from data_plane.stored.lease import Lease
from tests.unit.data_plane.streams.queue_bench import QueueBench

KEYS = ("ann", "bob", "cyd")
RECEIVES = 2
"""So often a record is received before it dies."""
VISIBILITY_S = 30

KINDS = (
    *("put", "put few", "put few", "crash", "lose", "split", "merge", "wait", "sweep"),
    *("receive", "receive", "receive", "receive dead", "receive dead"),
    *("hide", "hide", "hide", "hide dead", "acknowledge", "acknowledge dead"),
    *("restore", "restore", "restore", "kill", "kill"),
)
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 1), st.integers(1, 10)),
    min_size=20,
    max_size=80,
)


@dataclass
class Record:
    """What is known of one: by calls that were answered, and by those that were not.

    `lives` are its receives since it was restored for sure, `lives_at_least` since it may have
    been. Its last `handle` that was answered is the only one that may be good.
    """

    lives: int = 0
    lives_at_least: int = 0
    handle: str = ""
    hidden_until_s: float = 0
    is_acknowledged: bool = False
    may_be_acknowledged: bool = False


@dataclass
class Run:
    """One run: the bench, two consumers, and all handles that they ever had."""

    bench: QueueBench = field(default_factory=QueueBench)
    records: dict[str, Record] = field(default_factory=dict)
    lost_receives: int = 0
    handles: dict[bool, list[Delivery]] = field(default_factory=lambda: {False: [], True: []})

    def __post_init__(self) -> None:
        self.logs = [self.bench.consumer(), self.bench.consumer()]
        alive = self.bench.over("!work", dies_after=RECEIVES)
        self.seen = {False: alive, True: replace(alive, of_dead=True)}

    @property
    def now_s(self) -> float:
        return self.bench.clock.now_us() / 1_000_000

    async def step(self, kind: str, which: int, count: int) -> None:
        log = self.logs[which]
        act, _, side = kind.partition(" ")
        match act:
            case "receive":
                await self.receive(log, count, dead=bool(side))
            case "kill":
                for _ in range(RECEIVES):
                    for delivery in await self.receive(log, count, dead=False):
                        await self.settle(log, HIDE, delivery, dead=False)
            case "acknowledge" | "hide" | "restore":
                dead = bool(side) or act == RESTORE
                if handles := self.handles[dead]:
                    # One of the last, which may be good no more.
                    await self.settle(log, act, handles[-min(count, len(handles))], dead=dead)
            case "crash":
                self.logs[which] = self.bench.consumer()
            case "sweep":
                self.bench.cell.lost = 0
                await log.sweep()
            case _:
                await self.meanwhile(kind, count)

    async def meanwhile(self, kind: str, count: int) -> None:
        """What others do, and what befalls all."""
        bench = self.bench
        match kind:
            case "put" | "put few":
                few = min(count, 3)
                await self.put(KEYS[count % len(KEYS)], 7 * count if kind == "put" else few)
            case "lose":
                bench.cell.lost = 1 + count % 2
            case "split" if len(bench.stream.shards) < 12:
                await bench.split(bench.stream.open_shards[0].number)
            case "merge":
                await bench.merge_all()
            case "wait":
                bench.clock.advance(4 * count)

    async def put(self, key: str, count: int) -> None:
        texts = [f"{key}:{len(self.records) + n}" for n in range(count)]
        await self.bench.put_for(key, *texts)
        self.records |= {text: Record() for text in texts}

    async def receive(self, log: Log, count: int, *, dead: bool) -> list[Delivery]:
        lost = self.bench.cell.lost
        try:
            found = await log.receive_records(
                self.seen[dead], count=count, visibility_s=VISIBILITY_S, until_us=0
            )
        except CellUnavailableError:
            found = []
        self.lost_receives += lost - self.bench.cell.lost
        for delivery in found:
            self.check(delivery, dead=dead)
        self.handles[dead] += found
        return found

    def check(self, delivery: Delivery, *, dead: bool) -> None:
        """Whether the record may be received so, by all that is known of it."""
        text = delivery.message.body
        record = self.records[text]
        assert not record.is_acknowledged, f"{text} was acknowledged"
        record.handle = delivery.receipt_handle
        if dead:
            assert record.lives + self.lost_receives >= RECEIVES, f"{text} died before its time"
            assert self.now_s >= record.hidden_until_s, f"{text} died while it was in flight"
            assert delivery.receive_count > RECEIVES, f"{text} was received before it died"
            return
        record.lives += 1
        record.lives_at_least += 1
        told = delivery.receive_count
        assert record.lives_at_least <= told <= RECEIVES, f"{text} lives beyond its time"
        assert told <= record.lives + self.lost_receives, f"{text} was not received so often"
        record.hidden_until_s = self.now_s + VISIBILITY_S

    async def settle(self, log: Log, act: str, delivery: Delivery, *, dead: bool) -> None:
        """Do it with the handle of a delivery, and note what became of it."""
        wish = Wish(decode(delivery.receipt_handle, self.seen[dead]), act)
        try:
            (outcome,) = await log.settle(self.seen[dead], [wish])
        except CellUnavailableError as error:
            outcome = error
        record = self.records[delivery.message.body]
        if outcome is not None and not isinstance(outcome, CellUnavailableError):
            return
        if outcome is None:
            is_last = delivery.receipt_handle == record.handle
            is_repeated = act == ACKNOWLEDGE and record.may_be_acknowledged
            assert is_last or is_repeated, f"a handle of before was good for {act}"
        if act == ACKNOWLEDGE:
            record.may_be_acknowledged = True
            record.is_acknowledged |= outcome is None
        elif act == HIDE:
            record.hidden_until_s = self.now_s
        else:
            record.lives_at_least = 0
            if outcome is None:
                record.lives = 0

    async def end(self) -> None:
        """After all leases, who begins anew finds what was not acknowledged, alive or dead."""
        self.bench.cell.lost = 0
        self.bench.clock.advance(60)
        fresh = self.bench.consumer()
        found: list[str] = []
        counts = await fresh.counts(self.seen[False])
        assert counts.in_flight == 0
        for dead, counted in ((False, counts.visible), (True, counts.dead)):
            before = len(found)
            while deliveries := await self.receive(fresh, 10, dead=dead):
                queue = self.seen[dead]
                wishes = [Wish(decode(d.receipt_handle, queue), ACKNOWLEDGE) for d in deliveries]
                assert set(await fresh.settle(queue, wishes)) == {None}
                found += [delivery.message.body for delivery in deliveries]
            assert len(found) - before == counted, "it was not counted so"
        counts = await fresh.counts(self.seen[False])
        assert (counts.visible, counts.dead) == (0, 0)
        assert len(found) == len(set(found))
        missing = self.records.keys() - set(found)
        assert all(self.records[text].may_be_acknowledged for text in missing)


def all_of(steps: list[tuple[str, Any, int]]) -> None:
    run = Run()

    async def every() -> None:
        for step in steps:
            await run.step(*step)
        await run.end()

    run.bench.run(every())


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_a_queue_of_the_kinesis_api_agrees_with_the_model(
    steps: list[tuple[str, Any, int]],
) -> None:
    all_of(steps)


def _with_fates(patch: pytest.MonkeyPatch, other: Callable[..., Lease]) -> None:
    patch.setattr(claims, "with_fate", other)


def _dies_early(patch: pytest.MonkeyPatch) -> None:
    _with_fates(patch, lambda queue, *rest: with_fate(replace(queue, dies_after=1), *rest))


def _never_dies(patch: pytest.MonkeyPatch) -> None:
    _with_fates(patch, lambda queue, *rest: with_fate(replace(queue, dies_after=0), *rest))


def _forgives_nothing(patch: pytest.MonkeyPatch) -> None:
    _with_fates(patch, lambda queue, _prior, new: with_fate(queue, None, new))


def _restores_twice(patch: pytest.MonkeyPatch) -> None:
    good: Callable[..., Any] = settling._refusal
    patch.setattr(
        settling,
        "_refusal",
        lambda at, wish, *rest, **more: (
            None if wish.act == RESTORE else good(at, wish, *rest, **more)
        ),
    )


def _acknowledges_nothing(patch: pytest.MonkeyPatch) -> None:
    good: Callable[..., Any] = settling._decide
    patch.setattr(settling, "_decide", lambda *args: good(*args)._replace(done=[]))


def _dies_in_flight(patch: pytest.MonkeyPatch) -> None:
    """A dead letter may be received while its last lease lasts."""
    good: Callable[..., int] = reader.Reader.free_ms
    patch.setattr(
        reader.Reader,
        "free_ms",
        lambda self, queue, message: 0 if queue.of_dead else good(self, queue, message),
    )
    patch.setattr(receiving, "_free_ms", lambda *_: 0)


def _is_received_dead_and_alive(patch: pytest.MonkeyPatch) -> None:
    for module in (reader, receiving):
        patch.setattr(module, "is_seen_by", lambda _queue, _message: True)
    patch.setattr(lease, "is_of_dead", lambda _stored: False)


def _counts_restored_as_dead(patch: pytest.MonkeyPatch) -> None:
    good: Callable[..., Any] = counting.doomed

    def bad(queue: Any, before: Any, changes: Any, now_ms: int) -> Any:
        restored = [one for one in changes if one[2] is None or one[2].fate != lease.RESTORED]
        return good(queue, before, restored, now_ms)

    patch.setattr(counting, "doomed", bad)


BUGS = (
    _dies_early,
    _never_dies,
    _forgives_nothing,
    _restores_twice,
    _acknowledges_nothing,
    _dies_in_flight,
    _is_received_dead_and_alive,
    _counts_restored_as_dead,
)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__[1:])
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    @settings(
        max_examples=500,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
    )
    @given(STEPS)
    def looked_for(steps: list[tuple[str, Any, int]]) -> None:
        all_of(steps)

    with pytest.raises(AssertionError):
        looked_for()
