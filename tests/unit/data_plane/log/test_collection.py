"""What is deleted stays away when others collect it under a reader's hands."""

from collections.abc import Sequence

import pytest

from data_plane.core.message import Delivery
from data_plane.log import bounds, reading
from data_plane.log.desk import access_of
from data_plane.ports import Attributes, Key
from tests.unit.data_plane.log.conftest import Bench, bodies

LATER_S = bounds.COLLECT_AFTER_US // 1_000_000 + 1


async def consumed(bench: Bench) -> None:
    """A full block of messages, deleted by now, and one behind it."""
    await bench.send("held:0")
    (held,) = await bench.receive(visibility_s=43_200)
    await consumed_behind(bench, held)


async def consumed_behind(bench: Bench, held: Delivery) -> None:
    """As `consumed`, behind a first message that is held till then."""
    for start in range(0, 63, 9):
        await bench.send(*(f"g{n}:{n}" for n in range(start + 1, start + 10)))
    await bench.send("last:last")
    while deliveries := await bench.receive(visibility_s=43_200):
        await bench.delete([d for d in deliveries if d.message.body != "last"])
    await bench.delete([held])


def test_a_block_that_is_collected_while_it_is_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    get_many = bench.cell.get_many

    async def collected_before(
        keys: Sequence[Key], *, strong: bool = True
    ) -> dict[Key, Attributes]:
        await bench.log.sweep()
        return await get_many(keys, strong=strong)

    async def story() -> None:
        await consumed(bench)
        behind = bench.front_end()
        await behind.receive(bench.queue, count=1, visibility_s=0, until_us=0)
        (partition,) = behind._desk.partitions.values()
        partition.reader.start_at(0, [])
        bench.clock.advance(LATER_S)
        monkeypatch.setattr(bench.cell, "get_many", collected_before)
        assert bodies(await bench.receive(log=behind)) == []

    bench.run(story())


@pytest.mark.parametrize("is_touched", [False, True])
@pytest.mark.parametrize("is_cut", [False, True], ids=["read on", "partly passed over"])
def test_a_block_that_is_collected_while_the_rest_of_it_is_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, is_cut: bool, is_touched: bool
) -> None:
    """Another receive has learnt that it is gone, and may have forgotten it, when the rest comes.

    What others have done behind a message that is held is passed over, and cuts the block.
    """
    get_many = bench.cell.get_many

    async def story() -> None:
        await bench.send("held:0")
        held = await bench.receive(visibility_s=43_200) if is_touched else []
        behind = bench.front_end()
        at = access_of(behind._desk, bench.queue, 0, 0)
        with monkeypatch.context() as patch:
            patch.setattr(reading, "FETCH_ITEMS_MAX", 1)
            while not (reader := at.partition.reader).blocks:
                await reading.fetch(at)
        reader.ranges = [(reader.cursor + 1, reader.cursor + 1)] if is_cut else []
        held = held or await bench.receive(visibility_s=43_200)
        await consumed_behind(bench, *held)
        bench.clock.advance(LATER_S)

        async def meanwhile(keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
            monkeypatch.undo()
            await bench.log.sweep()
            if is_touched:
                assert await reading.refresh(at)
            else:
                assert await bench.receive(1, log=behind) == []
            return await get_many(keys, strong=strong)

        monkeypatch.setattr(bench.cell, "get_many", meanwhile)
        assert await reading.fetch(at)
        assert bodies(await bench.receive(log=behind)) == []

    bench.run(story())


def test_a_block_that_is_collected_while_some_of_it_is_known(bench: Bench) -> None:
    """Its state is gone; so is what nobody had received when this front end looked last."""

    async def story() -> None:
        await bench.send("a:1", "a:2", "b:3")
        behind = bench.front_end()
        (one,) = await bench.receive(1)
        assert bodies(await bench.receive(1, log=behind)) == ["3"]
        (partition,) = behind._desk.partitions.values()
        (block,) = partition.reader.blocks.values()
        bench.cell.expire([partition.state_key(block.first), partition.slot_key(block.first)])
        bench.clock.advance(1)
        assert bodies(await bench.receive(log=behind)) == []
        assert partition.reader.pending_count == 0
        assert one.receive_count == 1

    bench.run(story())


def test_a_block_whose_state_is_collected_before_its_slots(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1", "b:2")
        await bench.delete(await bench.receive(1))
        behind = bench.front_end()
        at = access_of(behind._desk, bench.queue, 0, 0)
        await reading.fetch(at)
        (block,) = at.partition.reader.blocks.values()
        assert (block.done, block.leases) == ({0}, {})
        await bench.delete(await bench.receive(1))
        bench.cell.expire([at.partition.state_key(block.first)])
        bench.clock.advance(60)
        assert bodies(await bench.receive(log=behind)) == []
        assert at.partition.reader.pending_count == 0

    bench.run(story())


def test_a_slot_that_vanishes_takes_all_of_its_messages_along(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1", "b:2", "c:3")
        assert bodies(await bench.receive(1)) == ["1"]
        (partition,) = bench.log._desk.partitions.values()
        (block,) = partition.reader.blocks.values()
        partition.reader.held.let_go()
        bench.cell.expire([partition.slot_key(block.first)])
        assert bodies(await bench.receive()) == []
        assert [message.index for message in block.pending.values()] == [0]

    bench.run(story())


def test_a_slot_that_vanishes_leaves_the_others_of_its_block(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("a:1")
        await bench.send("b:2")
        at = access_of(bench.log._desk, bench.queue, 0, 0)
        await reading.fetch(at)
        (block,) = at.partition.reader.blocks.values()
        at.partition.reader.held.let_go()
        bench.cell.expire([at.partition.slot_key(block.first)])
        assert bodies(await bench.receive()) == ["2"]

    bench.run(story())


def test_bodies_at_hand_are_not_delivered_by_a_state_that_was_collected(bench: Bench) -> None:
    """A front end stood still for longer than what is done is kept."""

    async def story() -> None:
        for text in ("a:1", "b:2", "c:3"):
            await bench.send(text)
        behind = bench.front_end()
        at = access_of(behind._desk, bench.queue, 0, 0)
        await reading.fetch(at)
        slots = [
            message.key
            for block in at.partition.reader.blocks.values()
            for message in block.pending.values()
        ]
        (first,) = at.partition.reader.blocks
        await bench.delete(await bench.receive())
        bench.cell.expire([at.partition.state_key(first), *slots])
        bench.clock.advance(LATER_S)
        assert bodies(await bench.receive(1, log=behind)) == []
        assert at.partition.reader.pending_count == 0

    bench.run(story())


@pytest.mark.parametrize("visibility_s", [0, 60])
def test_a_change_of_visibility_tells_that_the_block_was_collected(
    bench: Bench, *, visibility_s: int
) -> None:
    """Others have deleted all of it, also what this front end takes for held."""
    behind = bench.front_end()

    async def story() -> None:
        await bench.send(*(f"g{n}:{n}" for n in range(bounds.BLOCK_FULL_MESSAGES)))
        (held,) = await bench.receive(1, visibility_s=43_200, log=behind)
        await bench.drain()
        await bench.delete([held])
        await bench.send("last:last")
        assert bodies(await bench.receive(visibility_s=43_200)) == ["last"]
        bench.clock.advance(LATER_S)
        await bench.log.sweep()
        change = (bench.handle(held), visibility_s)
        (refusal,) = await behind.change_visibility(bench.queue, [change])
        assert refusal is not None
        assert await bench.receive(log=behind) == []

    bench.run(story())
