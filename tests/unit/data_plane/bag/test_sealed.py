"""Standard queues whose messages are sealed: swapped bytes, KMS keys, and keys that are away."""

from dataclasses import replace
from typing import Any

import pytest

from data_plane.core.errors import KMS_DISABLED, RefusedError
from data_plane.core.message import Outgoing, SendCall
from data_plane.ports import Attributes, CellUnavailableError, Item, MasterKeysError, Update
from data_plane.stored import keys
from data_plane.stored.data_keys import QueueKeys
from data_plane.stored.segment import Sealing
from tests.unit.data_plane.bag.conftest import QUEUE, Bench
from tests.unit.data_plane.bag.tenancy import NOISY, Tenancy
from tests.unit.data_plane.sealed_queues import KmsBagBench

CALL = b"0123456789abcdef"
OFF = {"SqsManagedSseEnabled": "false"}


@pytest.fixture
def kms() -> KmsBagBench:
    return KmsBagBench()


async def segments(bench: Bench, uid: str = QUEUE.uid) -> list[Item]:
    return await bench.cell.query(keys.segments(uid, 0, 0), limit=100)


def bytes_of(item: Item) -> Attributes:
    """What is sealed, and how: all that somebody would have to carry over."""
    return {name: item.attributes[name] for name in ("e", "q", "z", "n")}


def test_bytes_swapped_between_segments_are_never_delivered(bench: Bench) -> None:
    async def story() -> None:
        await bench.send("one")
        await bench.send("two")
        await bench.send("three")
        first, second, _ = await segments(bench)
        await bench.cell.update(first.key, Update(assign=dict(bytes_of(second))))
        await bench.cell.update(second.key, Update(assign=dict(bytes_of(first))))
        assert await bench.drain() == ["three"]
        assert bench.bag.damaged_segments == 2

    bench.run(story())


@pytest.mark.parametrize(
    "theirs",
    [
        {"uid": "ffff000000000000"},
        {"uid": "ffff000000000000", "account": "999999999999", "secret": bytes(32)},
    ],
    ids=["of another queue", "of another account"],
)
def test_bytes_of_another_queue_are_never_delivered(bench: Bench, theirs: dict[str, Any]) -> None:
    other = replace(QUEUE, **theirs)

    async def story() -> None:
        await bench.send("mine")
        # The same place in another queue: same front end, same block, same index.
        elsewhere = Bench(clock=bench.clock, queue=other)
        elsewhere.cell = bench.cell
        await elsewhere.front_end().send(other, SendCall("1", [Outgoing(body="theirs", size=6)]))
        (mine,), (stolen,) = await segments(bench), await segments(bench, other.uid)
        placed = {name: mine.attributes[name] for name in ("b", "i")}
        await bench.cell.update(mine.key, Update(assign={**bytes_of(stolen), **placed}))
        assert await bench.drain() == []
        assert bench.bag.damaged_segments == 1

    bench.run(story())


def test_encryption_that_is_switched_holds_for_what_is_sent_from_then_on(bench: Bench) -> None:
    async def story() -> None:
        for attributes in ({}, OFF, {}):
            bench.queue = replace(QUEUE, attributes=attributes)
            await bench.send("compresses badly")
        assert [item.attributes["e"] for item in await segments(bench)] == [16, 0, 16]
        assert len(await bench.drain(bench.front_end())) == 3

    bench.run(story())


# Queues with a KMS key


def test_a_kms_queue_costs_the_same_at_its_cell_and_little_elsewhere(kms: KmsBagBench) -> None:
    async def story() -> None:
        await kms.receive()
        requests, _ = await kms.cost_of(lambda: kms.send(*"abcdefghij"))
        assert requests == {"append": 1}
        assert kms.asked() == {"query": 1, "generate": 1, "put": 1}
        requests, _ = await kms.cost_of(lambda: kms.send(*"klmnopqrst"))
        assert requests == {"append": 1}
        requests, _ = await kms.cost_of(kms.receive)
        assert requests == {"query": 1, "get_many": 1, "update": 1}
        assert kms.asked() == {}
        # Another front end opens what this one has sealed.
        other = kms.front_end()
        assert len(await kms.receive(bag=other)) == 10
        assert kms.asked() == {"get": 1, "unwrap": 1}

    kms.run(story())


def test_old_keys_open_after_the_kms_key_was_changed_or_dropped(kms: KmsBagBench) -> None:
    async def story() -> None:
        await kms.send("under the first key")
        kms.queue = replace(QUEUE, attributes={"KmsMasterKeyId": "alias/another"})
        kms.clock.advance(1)
        await kms.send("under the second")
        kms.queue = QUEUE
        await kms.send("managed")
        kms.queue = replace(QUEUE, attributes=OFF)
        await kms.send("plain")
        assert len(await kms.drain(kms.front_end())) == 4

    kms.run(story())


def test_a_send_is_refused_as_kms_refuses_and_stores_nothing(kms: KmsBagBench) -> None:
    async def story() -> None:
        kms.master_keys.failure = MasterKeysError("Disabled", "alias/theirs is disabled.")
        with pytest.raises(RefusedError, match="disabled") as refusal:
            await kms.send("a")
        assert refusal.value.fault.shape == "KmsDisabled"
        kms.master_keys.failure = CellUnavailableError("KMS: away")
        with pytest.raises(CellUnavailableError):
            await kms.send("a")
        assert await segments(kms) == []
        kms.master_keys.failure = None
        await kms.send("b")
        assert await kms.drain() == ["b"]

    kms.run(story())


def test_a_receive_is_refused_as_kms_refuses_and_leases_nothing(kms: KmsBagBench) -> None:
    async def story() -> None:
        await kms.send("a")
        kms.clock.advance(300)
        kms.master_keys.failure = MasterKeysError("AccessDenied", "No.")
        bag = kms.front_end()
        for _ in range(2):
            with pytest.raises(RefusedError) as refusal:
                await kms.receive(bag=bag)
            assert refusal.value.fault.shape == "KmsAccessDenied"
        with pytest.raises(RefusedError):
            await bag.browse(kms.queue, count=1)
        kms.master_keys.failure = None
        (delivery,) = await kms.receive(bag=bag)
        assert (delivery.message.body, delivery.receive_count) == ("a", 1)
        assert bag.damaged_segments == 0

    kms.run(story())


def test_what_opens_is_delivered_beside_what_does_not(kms: KmsBagBench) -> None:
    async def story() -> None:
        await kms.send("under a key that is asked for")
        kms.queue = QUEUE
        await kms.send("managed")
        kms.master_keys.failure = MasterKeysError("Disabled", "No.")
        bag = kms.front_end()
        assert [d.message.body for d in await kms.receive(bag=bag)] == ["managed"]
        with pytest.raises(RefusedError):
            await kms.receive(bag=bag)
        assert bag.damaged_segments == 0

    kms.run(story())


def test_what_opens_is_delivered_from_behind_what_does_not(kms: KmsBagBench) -> None:
    """However few messages a receive asks for."""

    async def story() -> None:
        for number in range(12):
            await kms.send(f"under a key that is asked for {number}")
        kms.queue = QUEUE
        await kms.send("managed")
        kms.master_keys.failure = MasterKeysError("Disabled", "No.")
        bag = kms.front_end()
        assert [d.message.body for d in await kms.receive(1, bag=bag)] == ["managed"]
        for _ in range(2):
            with pytest.raises(RefusedError):
                await kms.receive(1, bag=bag)
        kms.master_keys.failure = None
        kms.clock.advance(1)
        await kms.send("managed, too")
        bodies = await kms.drain(bag=bag)
        assert bodies[0] == "under a key that is asked for 0"
        assert len(bodies) == 13

    kms.run(story())


@pytest.mark.parametrize("data_keys", [5, 50])
def test_what_opens_is_delivered_from_behind_many_keys_that_do_not_serve(
    kms: KmsBagBench, data_keys: int
) -> None:
    """A KMS key that is disabled takes with it all data keys that there were under it."""

    async def story() -> None:
        for number in range(data_keys):
            await kms.send(f"under data key {number}")
            kms.clock.advance(301)
        kms.queue = QUEUE
        await kms.send("managed")
        kms.master_keys.failure = MasterKeysError("Disabled", "No.")
        bag, refused = kms.front_end(), 0
        while True:
            kms.clock.advance(10)
            try:
                (delivery,) = await kms.receive(1, bag=bag)
            except RefusedError:
                refused += 1
            else:
                break
        assert delivery.message.body == "managed"
        assert refused <= data_keys // 20
        await kms.delete([delivery], bag=bag)
        kms.master_keys.failure = None
        assert len(await kms.drain(bag=bag)) == data_keys

    kms.run(story())


def test_once_a_key_serves_again_all_comes_though_there_always_is_something_else(
    kms: KmsBagBench,
) -> None:
    async def story() -> set[str]:
        for number in range(5):
            await kms.send(f"under data key {number}")
            kms.clock.advance(301)
        kms.queue = QUEUE
        kms.master_keys.failure = MasterKeysError("Disabled", "No.")
        bag, found = kms.front_end(), set[str]()
        for number in range(20):
            if number == 3:
                kms.master_keys.failure = None
            await kms.send(f"managed {number}", f"managed, too {number}")
            kms.clock.advance(1)
            deliveries = await kms.receive(2, bag=bag)
            found |= {delivery.message.body for delivery in deliveries}
            await kms.delete(deliveries, bag=bag)
        return found

    assert {f"under data key {number}" for number in range(5)} <= kms.run(story())


def test_what_opens_is_delivered_from_lanes_behind_what_does_not(kms: KmsBagBench) -> None:
    async def story() -> None:
        await kms.send("under a key that is asked for")
        kms.queue = QUEUE
        sent = await Tenancy(kms).send(NOISY, 40)
        kms.master_keys.failure = MasterKeysError("Disabled", "No.")
        bag, bodies = kms.front_end(), list[str]()
        for _ in range(5):
            deliveries = await kms.receive(bag=bag)
            bodies += [d.message.body for d in deliveries]
            await kms.delete(deliveries, bag=bag)
        assert sorted(bodies) == sorted(sent)
        with pytest.raises(RefusedError):
            await kms.receive(bag=bag)

    kms.run(story())


def test_within_the_reuse_period_an_outage_is_not_noticed(kms: KmsBagBench) -> None:
    async def story() -> None:
        await kms.send("a")
        kms.master_keys.failure = CellUnavailableError("KMS: away")
        kms.clock.advance(299)
        await kms.send("b")
        assert sorted(await kms.drain()) == ["a", "b"]

    kms.run(story())


def test_a_repeated_call_is_found_among_what_is_sealed(kms: KmsBagBench) -> None:
    async def story() -> None:
        ids = await kms.send("a", "b", call=CALL)
        kms.asked()
        again = await kms.send("a", "b", bag=kms.front_end(), call=CALL, repeated=True)
        assert again == ids
        assert kms.asked() == {"get": 1, "unwrap": 1}
        kms.master_keys.failure = MasterKeysError("NotFound", "No.")
        with pytest.raises(RefusedError):
            await kms.send("a", "b", bag=kms.front_end(), call=CALL, repeated=True)
        assert len(await segments(kms)) == 1

    kms.run(story())


def test_a_batch_is_not_refused_of_which_a_part_is_stored(
    kms: KmsBagBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages with different delays are stored apart; here the first part has the last key."""
    sealing = QueueKeys.sealing
    tries = 0

    async def only_once(data_keys: QueueKeys) -> Sealing | None:
        nonlocal tries
        tries += 1
        if tries != 1:
            raise RefusedError(KMS_DISABLED, "disabled")
        return await sealing(data_keys)

    def batch(*, repeated: bool = False) -> SendCall:
        return SendCall(
            "123456789012",
            [Outgoing(body="now", size=3), Outgoing(body="late", size=4, delay_s=5)],
            CALL,
            repeated=repeated,
            batch=True,
        )

    async def story() -> None:
        monkeypatch.setattr(QueueKeys, "sealing", only_once)
        with pytest.raises(CellUnavailableError):
            await kms.bag.send(kms.queue, batch())
        with pytest.raises(CellUnavailableError):
            await kms.bag.send(kms.queue, batch(repeated=True))
        monkeypatch.undo()
        assert len(await kms.bag.send(kms.queue, batch(repeated=True))) == 2
        kms.clock.advance(6)
        assert sorted(await kms.drain()) == ["late", "now"]

    kms.run(story())
