"""Changes of visibility whose reply or marker is lost, or whose answer comes late: none hides."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from data_plane.bag.block import Block
from data_plane.bag.bounds import (
    BLOCK_FULL_MESSAGES,
    COLLECT_AFTER_US,
    OVERTAKEN_US_MAX,
    READY_AGE_US_MAX,
)
from data_plane.bag.engine import Bag
from data_plane.core.message import Delivery
from data_plane.ports import Attributes, CellUnavailableError, Key, Written
from data_plane.stored.lease import Lease
from tests.unit.data_plane.bag.conftest import Bench
from tests.unit.data_plane.room_asked_for import let_others_run

LONG_S = 600


async def change(
    bench: Bench,
    delivery: Delivery,
    visibility_s: int,
    bag: Bag | None = None,
    *,
    repeated: bool = False,
) -> None:
    changes = [(bench.handle(delivery), visibility_s)]
    outcomes = await (bag or bench.bag).change_visibility(bench.queue, changes, repeated=repeated)
    assert outcomes == [None]


@pytest.mark.parametrize("is_elsewhere", [False, True])
@pytest.mark.parametrize("visibility_s", [0, 5])
@pytest.mark.parametrize("lost", ["update", "append"])
def test_a_repeated_change_is_told_to_all(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
    visibility_s: int,
    *,
    is_elsewhere: bool,
) -> None:
    """It finds the lease as it should be; the first attempt came to no end behind its write.

    Who repeats a call need not say so where it comes to the front end of the first attempt.
    """
    write = getattr(bench.cell, lost)

    async def without_reply(*args: Any) -> Any:
        monkeypatch.undo()
        if lost == "update":
            await write(*args)
        raise CellUnavailableError("the reply was lost")

    async def story() -> None:
        receiver = bench.front_end() if is_elsewhere else bench.bag
        await bench.send("m")
        (delivery,) = await bench.receive(visibility_s=LONG_S, bag=receiver)
        monkeypatch.setattr(bench.cell, lost, without_reply)
        with pytest.raises(CellUnavailableError):
            await change(bench, delivery, visibility_s)
        bench.clock.advance(0.5)
        await change(bench, delivery, visibility_s, repeated=is_elsewhere)
        bench.clock.advance(visibility_s + 0.5)
        assert await bench.receive(bag=receiver)

    bench.run(story())


def test_a_repeated_change_that_comes_after_the_visibility_is_told_to_all(bench: Bench) -> None:
    async def story() -> None:
        receiver = bench.front_end()
        await bench.send("m")
        (delivery,) = await bench.receive(visibility_s=LONG_S, bag=receiver)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bench.cell, "append", _lost)
            with pytest.raises(CellUnavailableError):
                await change(bench, delivery, 5)
        bench.clock.advance(6)
        assert not await bench.receive(bag=receiver)
        await change(bench, delivery, 5, repeated=True)
        assert await bench.receive(bag=receiver)

    bench.run(story())


async def _lost(*_: Any) -> Any:
    raise CellUnavailableError("lost")


def test_a_late_change_costs_a_read_alone(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("m")
        (delivery,) = await bench.receive(visibility_s=5)
        bench.clock.advance(6)
        assert await bench.cost_of(lambda: change(bench, delivery, 0)) == ({"get": 1}, 1)

    bench.run(story())


def test_an_answer_that_a_shorter_visibility_has_overtaken_hides_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat is stored first, and answered after the message was given back, and taken."""
    update, get_many = bench.cell.update, bench.cell.get_many
    answer = asyncio.Event()

    async def answered_late(*args: Any) -> Written:
        monkeypatch.setattr(bench.cell, "update", update)
        written = await update(*args)
        await answer.wait()
        return written

    async def story() -> None:
        await bench.send("m")
        (delivery,) = await bench.receive(visibility_s=30)
        monkeypatch.setattr(bench.cell, "update", answered_late)
        heartbeat = asyncio.ensure_future(change(bench, delivery, LONG_S))
        await let_others_run()
        bench.clock.advance(0.1)
        await change(bench, delivery, 1)
        bench.clock.advance(1.5)

        async def meanwhile(wanted: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
            found = await get_many(wanted, strong=strong)
            if wanted[0].partition.startswith("B|"):
                answer.set()
                await heartbeat
            return found

        monkeypatch.setattr(bench.cell, "get_many", meanwhile)
        assert [*await bench.receive(visibility_s=0), *await bench.receive(visibility_s=0)]

    bench.run(story())


def test_a_state_that_was_asked_for_before_a_message_was_given_back_hides_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere, so that a marker tells; the late answer comes when that has been read."""
    get_many = bench.cell.get_many
    answer = asyncio.Event()

    async def answered_late(wanted: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        monkeypatch.setattr(bench.cell, "get_many", get_many)
        found = await get_many(wanted, strong=strong)
        await answer.wait()
        return found

    async def story() -> None:
        await bench.send("m")
        await bench.send("n")
        (delivery,) = await bench.receive(1, visibility_s=LONG_S)
        bench.clock.advance(READY_AGE_US_MAX / 1_000_000 + 1)
        monkeypatch.setattr(bench.cell, "get_many", answered_late)
        other = asyncio.ensure_future(bench.receive(1, visibility_s=LONG_S))
        await let_others_run()
        bench.clock.advance(0.1)
        await change(bench, delivery, 0, bench.front_end())
        bench.clock.advance(0.1)

        async def meanwhile(wanted: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
            found = await get_many(wanted, strong=strong)
            if wanted[0].partition.startswith("B|"):
                answer.set()
                assert [one.message.body for one in await other] == ["n"]
            return found

        monkeypatch.setattr(bench.cell, "get_many", meanwhile)
        taken = [*await bench.receive(visibility_s=0), *await bench.receive(visibility_s=0)]
        assert {one.message.body for one in taken} == {"m"}

    bench.run(story())


def test_a_late_change_does_not_know_what_became_of_its_block_meanwhile(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It writes nothing; what it has read may be older than the collection of the block."""
    get = bench.cell.get
    other = bench.front_end()

    async def meanwhile(key: Key, *, strong: bool = True) -> Attributes | None:
        monkeypatch.undo()
        found = await get(key, strong=strong)
        assert len(await bench.drain(other)) == BLOCK_FULL_MESSAGES
        bench.clock.advance(COLLECT_AFTER_US / 1_000_000 + 1)
        await other.sweep()
        return found

    async def story() -> None:
        await bench.send(*(f"{number}" for number in range(BLOCK_FULL_MESSAGES)))
        (delivery,) = await bench.receive(1, visibility_s=LONG_S)
        await change(bench, delivery, 5, other)
        bench.clock.advance(6)
        monkeypatch.setattr(bench.cell, "get", meanwhile)
        await change(bench, delivery, 0)
        assert await bench.receive(1) == []

    bench.run(story())


def lease(visible_ms: int, receive_count: int = 1) -> bytes:
    return Lease(visible_ms, receive_count, 20_000, 20_000, 0, b"token".ljust(13)).to_bytes()


@pytest.mark.parametrize(
    ("stored", "asked_us", "is_taken"),
    [
        (lease(60_000), 2, True),
        (lease(60_000), 1, False),
        (lease(40_000), 1, True),
        (lease(60_000), 2 - OVERTAKEN_US_MAX, False),
        (lease(60_000), 1 - OVERTAKEN_US_MAX, True),
        (lease(60_000, receive_count=2), 1, True),
        (lease(40_000, receive_count=0), 3, False),
    ],
)
def test_which_of_two_leases_holds(stored: bytes, asked_us: int, *, is_taken: bool) -> None:
    block = Block(bytes(10))
    block.learn({"v": 1, "m0": lease(50_000)}, 2)
    block.learn({"v": 1, "m0": stored}, asked_us)
    assert block.leases[0] == (stored if is_taken else lease(50_000))
