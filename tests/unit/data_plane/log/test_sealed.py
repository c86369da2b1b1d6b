"""FIFO queues whose messages are sealed: swapped slots, KMS keys, and keys that are away."""

from dataclasses import replace

import pytest

from data_plane.core.errors import KMS_DISABLED, RefusedError
from data_plane.ports import Attributes, CellUnavailableError, Item, MasterKeysError, Update
from data_plane.stored import keys
from data_plane.stored.data_keys import QueueKeys
from data_plane.stored.segment import Sealing
from data_plane.stored.superfluous import stripped
from tests.unit.data_plane.log.conftest import HIGH_THROUGHPUT, QUEUE, Bench, bodies
from tests.unit.data_plane.sealed_queues import KmsLogBench

FIFO = {"FifoQueue": "true"}


@pytest.fixture
def kms() -> KmsLogBench:
    return KmsLogBench()


async def slots(bench: Bench) -> list[Item]:
    found = await bench.cell.query(keys.slots(QUEUE.uid, 0, 0), limit=100)
    return [item for item in found if item.attributes["k"] == "s"]


def bytes_of(item: Item) -> Attributes:
    """What is sealed, and how, with the nonce that it is bound to."""
    return {name: item.attributes[name] for name in ("e", "q", "z", "n", "w", "u")}


def test_bytes_swapped_between_slots_are_never_delivered(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("g:one")
        await bench.send("g:two")
        await bench.send("h:three")
        first, second, _ = await slots(bench)
        await bench.cell.update(first.key, Update(assign=dict(bytes_of(second))))
        await bench.cell.update(second.key, Update(assign=dict(bytes_of(first))))
        log = bench.front_end()
        assert await bench.drain(log) == ["three"]
        assert log.damaged_segments == 2

    bench.run(story())


def test_a_slot_of_another_write_is_never_delivered(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("g:one")
        (slot,) = await slots(bench)
        await bench.cell.update(slot.key, Update(assign={"w": b"another write"}))
        log = bench.front_end()
        assert await bench.drain(log) == []
        assert log.damaged_segments == 1

    bench.run(story())


def test_what_a_purge_has_emptied_is_passed_over(bench: Bench) -> None:
    """By whoever goes by the definition of before the purge still."""

    async def story() -> None:
        await bench.send("g:one")
        (slot,) = await slots(bench)
        await bench.cell.put(slot.key, stripped(slot.attributes))
        for log in (bench.front_end(), bench.log):
            assert await bench.drain(log) == []
            assert log.damaged_segments == 0
        await bench.send("g:two")
        assert await bench.drain(bench.front_end()) == ["two"]

    bench.run(story())


def test_encryption_that_is_switched_holds_for_what_is_sent_from_then_on(bench: Bench) -> None:
    async def story() -> None:
        for body, more in (("a", {}), ("b", {"SqsManagedSseEnabled": "false"}), ("c", {})):
            bench.queue = replace(QUEUE, attributes={**FIFO, **more})
            await bench.send(f"g:{body}")
        assert [item.attributes["e"] for item in await slots(bench)] == [16, 0, 16]
        assert await bench.drain(bench.front_end()) == ["a", "b", "c"]

    bench.run(story())


# Queues with a KMS key


def test_a_kms_queue_costs_the_same_at_its_cell_and_little_elsewhere(kms: KmsLogBench) -> None:
    async def story() -> None:
        await kms.send("g:first")
        assert kms.asked() == {"query": 1, "generate": 1, "put": 1}
        requests, _ = await kms.cost_of(lambda: kms.send("g:second"))
        assert requests == {"put": 1}
        assert bodies(await kms.receive()) == ["first", "second"]
        assert kms.asked() == {}
        kms.clock.advance(31)
        assert bodies(await kms.receive(log=kms.front_end())) == ["first", "second"]
        assert kms.asked() == {"get": 1, "unwrap": 1}

    kms.run(story())


def test_a_send_is_refused_as_kms_refuses_and_stores_nothing(kms: KmsLogBench) -> None:
    async def story() -> None:
        kms.master_keys.failure = MasterKeysError("Throttling", "Slower.")
        with pytest.raises(RefusedError, match="Slower") as refusal:
            await kms.send("g:a")
        assert refusal.value.fault.shape == "KmsThrottled"
        kms.master_keys.failure = CellUnavailableError("KMS: away")
        with pytest.raises(CellUnavailableError):
            await kms.send("g:a")
        kms.master_keys.failure = None
        await kms.send("g:a")
        assert await kms.drain() == ["a"]

    kms.run(story())


def test_a_receive_is_refused_as_kms_refuses_and_claims_nothing(kms: KmsLogBench) -> None:
    async def story() -> None:
        await kms.send("g:a", "g:b")
        kms.master_keys.failure = MasterKeysError("NotFound", "No such key.")
        log = kms.front_end()
        for _ in range(2):
            with pytest.raises(RefusedError) as refusal:
                await kms.receive(log=log)
            assert refusal.value.fault.shape == "KmsNotFound"
        with pytest.raises(RefusedError):
            await log.browse(kms.queue, count=1)
        kms.master_keys.failure = CellUnavailableError("KMS: away")
        with pytest.raises(CellUnavailableError):
            await kms.receive(log=log)
        kms.master_keys.failure = None
        deliveries = await kms.receive(log=log)
        assert [(d.message.body, d.receive_count) for d in deliveries] == [("a", 1), ("b", 1)]

    kms.run(story())


def test_a_message_that_does_not_open_keeps_its_group_waiting_and_no_other(
    kms: KmsLogBench,
) -> None:
    async def story() -> None:
        await kms.send("g:a")
        kms.queue = QUEUE
        await kms.send("g:b")
        await kms.send("h:c")
        kms.master_keys.failure = MasterKeysError("Disabled", "No.")
        log = kms.front_end()
        assert bodies(await kms.receive(log=log)) == ["c"]
        kms.master_keys.failure = None
        assert bodies(await kms.receive(log=log)) == ["a", "b"]

    kms.run(story())


def test_what_is_behind_a_message_that_does_not_open_alone_is_told_why(kms: KmsLogBench) -> None:
    async def story() -> None:
        await kms.send("g:a")
        kms.queue = QUEUE
        await kms.send("g:b")
        kms.master_keys.failure = MasterKeysError("Disabled", "No.")
        log = kms.front_end()
        for _ in range(2):
            with pytest.raises(RefusedError):
                await kms.receive(log=log)
        kms.master_keys.failure = None
        assert bodies(await kms.receive(log=log)) == ["a", "b"]

    kms.run(story())


@pytest.mark.parametrize("groups", [12, 150])
def test_groups_that_do_not_open_keep_those_behind_them_waiting_for_nothing(
    kms: KmsLogBench, groups: int
) -> None:
    """However few messages a receive asks for, and however few it reads at once."""

    async def story() -> None:
        for group in range(groups):
            await kms.send(f"g{group}:{group}")
        kms.queue = QUEUE
        await kms.send("h:managed")
        kms.master_keys.failure = MasterKeysError("Disabled", "No.")
        log, refused = kms.front_end(), 0
        while True:
            kms.clock.advance(10)
            try:
                (delivery,) = await kms.receive(1, log=log)
            except RefusedError:
                refused += 1
            else:
                break
        assert delivery.message.body == "managed"
        assert refused <= groups // 20
        await kms.delete([delivery], log=log)
        kms.master_keys.failure = None
        kms.clock.advance(10)
        assert len(await kms.drain(log)) == groups

    kms.run(story())


def test_a_batch_is_not_refused_of_which_a_part_is_stored(
    kms: KmsLogBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups lie in several partitions; of those the first has the last key."""
    kms.queue = replace(kms.queue, generations=HIGH_THROUGHPUT)
    texts = [f"g{number}:{number}" for number in range(9)]
    sealing = QueueKeys.sealing
    tries = 0

    async def only_once(data_keys: QueueKeys) -> Sealing | None:
        nonlocal tries
        tries += 1
        if tries != 1:
            raise RefusedError(KMS_DISABLED, "disabled")
        return await sealing(data_keys)

    async def story() -> list[str]:
        monkeypatch.setattr(QueueKeys, "sealing", only_once)
        with pytest.raises(CellUnavailableError):
            await kms.send(*texts)
        monkeypatch.undo()
        await kms.send(*texts)
        return await kms.drain()

    assert sorted(kms.run(story())) == [str(number) for number in range(9)]
