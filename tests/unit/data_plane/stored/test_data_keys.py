"""Data keys: how long each serves, what it costs to have one, and what happens without."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from data_plane.core.errors import RefusedError
from data_plane.core.queue import Queue
from data_plane.core.sealing import DataSeal, derive
from data_plane.keys import file
from data_plane.keys.file import KeyFile
from data_plane.memory.cell import MemoryCell
from data_plane.ports import CellUnavailableError, Key, MasterKeysError, Update
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored import data_keys as data_keys_module
from data_plane.stored import keys
from data_plane.stored.data_keys import DataKeys, Opener, managed_id
from data_plane.stored.segment import (
    DamagedSegmentError,
    LoadedSegment,
    Sealing,
    seal,
    segment_name,
)
from tests.unit.data_plane.bag.conftest import QUEUE
from tests.unit.data_plane.master_keys import HeldKeys
from tests.unit.data_plane.stored.test_segment import packed
from tests.unit.repeatable import HandClock, SeededEntropy

T = TypeVar("T")

KMS_QUEUE = replace(QUEUE, attributes={"KmsMasterKeyId": "alias/theirs"})
BLOCK = b"0123456789"


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


@dataclass
class Bench:
    """A registry's cell, master keys, and as many front ends as a test wants."""

    clock: HandClock = field(default_factory=HandClock)
    entropy: SeededEntropy = field(default_factory=SeededEntropy)
    master_keys: HeldKeys = field(default_factory=HeldKeys)

    def __post_init__(self) -> None:
        self.cell = MemoryCell(self.clock)

    def front_end(self) -> DataKeys:
        waits = EventLoopWaits(self.clock)
        return DataKeys(self.clock, self.entropy, waits, self.cell, self.master_keys)

    def cost(self) -> dict[str, int]:
        """What was asked of cell and master keys since the last time."""
        spent = {**self.cell.requests, **self.master_keys.requests}
        self.cell.requests.clear()
        self.master_keys.requests.clear()
        return spent


async def sealing(front_end: DataKeys, queue: Queue = KMS_QUEUE) -> Sealing:
    found = await front_end.of(queue).sealing()
    assert found is not None
    return found


def segment(how: Sealing, queue: Queue = KMS_QUEUE) -> LoadedSegment:
    partition = keys.segments(queue.uid, 0, 0)
    sealed = seal(packed("body"), how, partition, *segment_name(BLOCK, 0))
    key = Key(partition, keys.segment_sort(1, BLOCK, 0))
    return LoadedSegment(key, {"v": 1, "t": 1, "b": BLOCK, "i": 0, "n": 1, **sealed})


async def opener(front_end: DataKeys, *segments: LoadedSegment, queue: Queue = KMS_QUEUE) -> Opener:
    return await front_end.of(queue).opener(segments)


async def read(front_end: DataKeys, one: LoadedSegment, queue: Queue = KMS_QUEUE) -> list[str]:
    found = await opener(front_end, one, queue=queue)
    failure = found.failure(one)
    if failure is not None:
        raise failure
    return [message.body for message in LoadedSegment(one.key, one.item).messages(found.unseal)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Managed keys


def test_a_managed_key_is_of_the_day_and_costs_nothing(bench: Bench) -> None:
    async def story() -> None:
        front_end = bench.front_end()
        first = await sealing(front_end, QUEUE)
        again = await sealing(front_end, QUEUE)
        assert first.key_id == again.key_id == managed_id(bench.clock.now_us())
        assert first.seal is again.seal
        assert first.nonce != again.nonce
        bench.clock.advance(86_400)
        tomorrow = await sealing(front_end, QUEUE)
        assert tomorrow.key_id != first.key_id
        for how in (first, tomorrow):
            assert await read(bench.front_end(), segment(how, QUEUE), QUEUE) == ["body"]
        assert bench.cost() == {}

    run(story())


def test_managed_keys_follow_from_the_secret_of_the_queue_as_the_page_says(bench: Bench) -> None:
    how = run(sealing(bench.front_end(), QUEUE))
    day = str(bench.clock.now_us() // 86_400_000_000)
    expected = derive(QUEUE.secret, "messages", day)
    sealed = how.seal.seal(how.nonce, b"plain", b"")
    assert DataSeal(expected).unseal(sealed, b"") == b"plain"


@pytest.mark.parametrize(
    "queue",
    [replace(QUEUE, attributes={"SqsManagedSseEnabled": "false"}), replace(QUEUE, secret=b"")],
    ids=["switched off", "no secret"],
)
def test_without_encryption_messages_stay_as_they_are(bench: Bench, queue: Queue) -> None:
    assert run(bench.front_end().of(queue).sealing()) is None


def test_a_queue_whose_encryption_was_switched_on_is_sealed_from_then_on(bench: Bench) -> None:
    async def story() -> None:
        front_end = bench.front_end()
        off = replace(QUEUE, attributes={"SqsManagedSseEnabled": "false"})
        assert await front_end.of(off).sealing() is None
        assert await front_end.of(QUEUE).sealing() is not None
        assert (await sealing(front_end, KMS_QUEUE)).key_id[:1] == b"\1"
        assert await front_end.of(off).sealing() is None

    run(story())


def test_keys_at_hand_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_keys_module, "DATA_KEYS_PER_QUEUE_MAX", 3)
    monkeypatch.setattr(data_keys_module, "QUEUES_WITH_DATA_KEYS_MAX", 2)

    async def story() -> None:
        front_end = bench.front_end()
        sealed = []
        for _ in range(9):
            sealed.append(segment(await sealing(front_end, QUEUE), QUEUE))
            bench.clock.advance(86_400)
        assert len(front_end.of(QUEUE)._opened) == 3
        for one in sealed:
            assert await read(front_end, one, QUEUE) == ["body"]
        for number in range(5):
            await sealing(front_end, replace(QUEUE, uid=f"{number:016x}"))
        assert len(front_end._queues) == 2

    run(story())


# Keys of a KMS key


def test_a_data_key_is_reused_for_its_period(bench: Bench) -> None:
    async def story() -> None:
        front_end = bench.front_end()
        first = await sealing(front_end)
        # Nothing there yet: look, ask, store.
        assert bench.cost() == {"query": 1, "generate": 1, "put": 1}
        bench.clock.advance(299)
        assert (await sealing(front_end)).key_id == first.key_id
        assert bench.cost() == {}
        bench.clock.advance(1)
        assert (await sealing(front_end)).key_id != first.key_id
        assert bench.cost() == {"query": 1, "generate": 1, "put": 1}

    run(story())


def test_the_reuse_period_is_the_queues(bench: Bench) -> None:
    async def story() -> None:
        queue = replace(
            KMS_QUEUE, attributes={**KMS_QUEUE.attributes, "KmsDataKeyReusePeriodSeconds": "60"}
        )
        front_end = bench.front_end()
        first = await sealing(front_end, queue)
        bench.clock.advance(59)
        assert (await sealing(front_end, queue)).key_id == first.key_id
        bench.clock.advance(1)
        assert (await sealing(front_end, queue)).key_id != first.key_id

    run(story())


def test_front_ends_share_a_data_key(bench: Bench) -> None:
    async def story() -> None:
        first = await sealing(bench.front_end())
        bench.clock.advance(100)
        bench.cost()
        other = bench.front_end()
        shared = await sealing(other)
        assert shared.key_id == first.key_id
        assert bench.cost() == {"query": 1, "unwrap": 1}
        # It was made 100 s ago, and is not reused for longer than the period since then.
        bench.clock.advance(200)
        assert (await sealing(other)).key_id != first.key_id

    run(story())


def test_what_one_front_end_sealed_another_opens_with_one_request(bench: Bench) -> None:
    async def story() -> None:
        one = segment(await sealing(bench.front_end()))
        bench.cost()
        other = bench.front_end()
        assert await read(other, one) == ["body"]
        assert bench.cost() == {"get": 1, "unwrap": 1}
        assert await read(other, one) == ["body"]
        assert bench.cost() == {}
        bench.clock.advance(300)
        assert await read(other, one) == ["body"]
        assert bench.cost() == {"get": 1, "unwrap": 1}

    run(story())


def test_who_asks_at_the_same_time_shares_the_requests(bench: Bench) -> None:
    async def story() -> None:
        front_end = bench.front_end()
        found = await asyncio.gather(*(sealing(front_end) for _ in range(5)))
        assert len({how.key_id for how in found}) == 1
        assert bench.cost() == {"query": 1, "generate": 1, "put": 1}
        other = bench.front_end()
        await asyncio.gather(*(read(other, segment(how)) for how in found))
        assert bench.cost() == {"get": 1, "unwrap": 1}

    run(story())


def test_another_kms_key_gets_a_data_key_of_its_own(bench: Bench) -> None:
    async def story() -> None:
        front_end = bench.front_end()
        first = await sealing(front_end)
        other = replace(KMS_QUEUE, attributes={"KmsMasterKeyId": "alias/ours"})
        bench.clock.advance(1)
        second, third = await asyncio.gather(sealing(front_end, other), sealing(front_end, other))
        assert first.key_id != second.key_id == third.key_id
        items = await bench.cell.query(keys.data_keys(QUEUE.uid), limit=9)
        assert [item.attributes["m"] for item in items] == ["alias/theirs", "alias/ours"]
        assert await read(bench.front_end(), segment(first)) == ["body"]

    run(story())


def test_what_is_stored_of_a_data_key(bench: Bench) -> None:
    async def story() -> None:
        how = await sealing(bench.front_end())
        (item,) = await bench.cell.query(keys.data_keys(QUEUE.uid), limit=9)
        assert how.key_id == b"\1" + item.key.sort
        assert item.attributes.keys() == {"v", "m", "k", "z", "x"}
        now_s = bench.clock.now_us() // 1_000_000
        assert item.attributes["x"] == now_s + 60 * 86_400
        assert item.attributes["k"] == "held:alias/theirs"

    run(story())


def test_data_keys_open_after_the_key_file_was_rotated(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "master.keys"
    file.create(path, bench.entropy, 0)

    def front_end() -> DataKeys:
        waits, held = EventLoopWaits(bench.clock), KeyFile(path, bench.entropy)
        return DataKeys(bench.clock, bench.entropy, waits, bench.cell, held)

    async def story() -> None:
        under_way = front_end()
        before = segment(await sealing(under_way))
        file.rotate(path, bench.entropy, 1)
        bench.clock.advance(300)
        after = segment(await sealing(front_end()))
        for one in (before, after):
            assert await read(front_end(), one) == ["body"]
            assert await read(under_way, one) == ["body"]
        items = await bench.cell.query(keys.data_keys(QUEUE.uid), limit=9)
        assert len({item.attributes["k"] for item in items}) == 2

    run(story())


# Without keys


REFUSALS = {
    "AccessDenied": ("KmsAccessDenied", "KMS.AccessDeniedException"),
    "Disabled": ("KmsDisabled", "KMS.DisabledException"),
    "InvalidKeyUsage": ("KmsInvalidKeyUsage", "KMS.InvalidKeyUsageException"),
    "KMSInvalidState": ("KmsInvalidState", "KMS.InvalidStateException"),
    "NotFound": ("KmsNotFound", "KMS.NotFoundException"),
    "OptInRequired": ("KmsOptInRequired", "KMS.OptInRequired"),
    "Throttling": ("KmsThrottled", "KMS.ThrottlingException"),
    "SomethingNew": ("KmsInvalidState", "KMS.InvalidStateException"),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_refusal_of_kms_is_told_as_sqs_does(bench: Bench, reason: str) -> None:
    async def story() -> None:
        one = segment(await sealing(bench.front_end()))
        bench.master_keys.failure = MasterKeysError(reason, "why")
        for call in (sealing(bench.front_end()), read(bench.front_end(), one)):
            with pytest.raises(RefusedError) as refusal:
                await call
            assert (refusal.value.fault.shape, refusal.value.fault.code) == REFUSALS[reason]
            assert refusal.value.message == "why"

    run(story())


def test_while_kms_is_away_keys_at_hand_serve_for_their_period(bench: Bench) -> None:
    async def story() -> None:
        front_end = bench.front_end()
        one = segment(await sealing(front_end))
        bench.master_keys.failure = CellUnavailableError("KMS: away")
        bench.clock.advance(299)
        assert await read(front_end, one) == ["body"]
        assert await sealing(front_end) is not None
        bench.clock.advance(1)
        with pytest.raises(CellUnavailableError):
            await sealing(front_end)
        with pytest.raises(CellUnavailableError):
            await read(front_end, one)
        bench.master_keys.failure = None
        assert await read(front_end, one) == ["body"]
        assert await sealing(front_end) is not None

    run(story())


def test_one_key_that_is_not_to_be_had_does_not_keep_others_closed(bench: Bench) -> None:
    async def story() -> None:
        front_end = bench.front_end()
        first = segment(await sealing(front_end))
        bench.clock.advance(300)
        second = segment(await sealing(front_end))
        third = segment(await sealing(front_end, QUEUE), QUEUE)
        bench.master_keys.failure = MasterKeysError("Disabled", "off")
        found = await opener(front_end, first, second, third)
        assert isinstance(found.failure(first), RefusedError)
        assert found.failure(second) is None
        assert found.failure(third) is None
        for one in (second, third):
            assert len(one.messages(found.unseal)) == 1

    run(story())


def test_a_key_that_is_gone_or_of_another_queue_is_damage(bench: Bench) -> None:
    async def story() -> None:
        one = segment(await sealing(bench.front_end()))
        other = replace(KMS_QUEUE, name="other", uid="ffff000000000000")
        theirs = await sealing(bench.front_end(), other)
        partition, id_ = keys.data_keys(QUEUE.uid), one.key_id[1:]
        stolen = await bench.cell.get(Key(keys.data_keys(other.uid), theirs.key_id[1:]))
        assert stolen is not None
        await bench.cell.update(Key(partition, id_), Update(assign={"z": stolen["z"]}))
        with pytest.raises(DamagedSegmentError):
            await read(bench.front_end(), one)
        await bench.cell.delete(Key(partition, id_))
        with pytest.raises(DamagedSegmentError):
            await read(bench.front_end(), one)

    run(story())


def test_a_server_without_master_keys_refuses_kms_queues(bench: Bench) -> None:
    async def story() -> None:
        one = segment(await sealing(bench.front_end()))
        without = DataKeys(bench.clock, bench.entropy, EventLoopWaits(bench.clock))
        for call in (sealing(without), read(without, one)):
            with pytest.raises(RefusedError) as refusal:
                await call
            assert refusal.value.fault.shape == "KmsNotFound"
        assert await sealing(without, QUEUE) is not None

    run(story())
