"""Receiving: claims are written before messages are handed out, group by group in order."""

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from data_plane.core import receipt_handle
from data_plane.core.message import Delivery, Message
from data_plane.core.queue import Queue
from data_plane.log import reading, upkeep
from data_plane.log.bounds import (
    CLAIM_ATTEMPTS_MAX,
    COLLECT_AFTER_US,
    FETCH_ROUNDS_MAX,
    FOREIGN_LEASE_GUARD_MS,
    POLL_US,
)
from data_plane.log.desk import Access, Desk, channel, open_generations
from data_plane.log.generations import ended
from data_plane.log.reader import Block, Pending, Reader, is_over
from data_plane.log.window import sequence_number
from data_plane.ports import Absent, AnyOf, CellUnavailableError, Equals, Lacks, Update, Value
from data_plane.stored import counting
from data_plane.stored.keys import be64
from data_plane.stored.lease import Lease, from_bytes
from data_plane.stored.segment import FORMAT_VERSION

_HANDLE_PADDING = b"\0\0"
"""A handle has 10 bytes for the block, of which a log's takes 8."""


async def receive(
    desk: Desk, queue: Queue, *, count: int, visibility_s: int, until_us: int
) -> list[Delivery]:
    """Claim up to `count` messages, waiting for the first until `until_us`. See `Log.receive`."""
    while True:
        seen = desk.waits.signals(channel(queue))
        generations = open_generations(desk, queue)
        deliveries = await _receive_now(desk, generations, count, visibility_s)
        now_us = desk.clock.now_us()
        if deliveries or now_us >= until_us:
            return deliveries
        readers = [at.partition.reader for at in chain.from_iterable(generations)]
        due_us = min(reader.next_due_ms() for reader in readers) * 1000
        wake_us = max(min(until_us, now_us + POLL_US, due_us), now_us + 1000)
        if not await desk.waits.wait_for(channel(queue), seen, wake_us):
            return []


async def _receive_now(
    desk: Desk, generations: list[list[Access]], count: int, visibility_s: int
) -> list[Delivery]:
    """Deliver from the earliest generation that has something, then from those behind it."""
    deliveries: list[Delivery] = []
    earlier: list[Reader] = []
    following = desk.generations(generations[0][0].queue)[1:]
    for number, partitions in enumerate(generations):
        if number < len(following):
            for at in partitions:
                if at.partition.reader.end is None:
                    await ended(at, following[number])
        round_ = _Round(desk, _from_another_each_time(desk, partitions), earlier, visibility_s)
        await round_.deliver(count, deliveries)
        readers = [at.partition.reader for at in partitions]
        if len(deliveries) >= count or any(reader.end is None for reader in readers):
            break
        earlier += [reader for reader in readers if not reader.is_drained]
    return deliveries


def _from_another_each_time(desk: Desk, partitions: list[Access]) -> list[Access]:
    """So that no partition keeps the others waiting."""
    if len(partitions) == 1:
        return partitions
    start = desk.entropy.random_bytes(1)[0] % len(partitions)
    return partitions[start:] + partitions[:start]


@dataclass(frozen=True, slots=True)
class _Round:
    """One receive's turn at a generation; groups wait for what the `earlier` ones have of them."""

    desk: Desk
    partitions: list[Access]
    earlier: list[Reader]
    visibility_s: int

    async def deliver(self, count: int, deliveries: list[Delivery]) -> None:
        """Add to `deliveries`, up to `count`, what can be claimed.

        Reads until enough is known, then claims: what is left of a group would be blocked by it.
        """
        partitions = self.partitions
        short = count - len(deliveries)
        for _ in range(FETCH_ROUNDS_MAX):
            known = 0
            for at in partitions:
                reader = at.partition.reader
                known += reader.claimable(at.queue, short - known, at.now_us(), self.earlier)
                if known >= short:
                    break
            required = not known and not deliveries
            if known >= short or not await _fetch_all(self.desk, partitions, required=required):
                break
        await self._claim_in_all(partitions, count, deliveries)
        if not deliveries:
            refreshed = [at for at in partitions if await reading.refresh(at)]
            await self._claim_in_all(refreshed, count, deliveries)

    async def _claim_in_all(
        self, partitions: list[Access], count: int, deliveries: list[Delivery]
    ) -> None:
        for at in partitions:
            if len(deliveries) >= count:
                return
            try:
                deliveries += await self._claim_ready(at, count - len(deliveries))
            except CellUnavailableError:
                if not deliveries:
                    raise
                return  # What is claimed must be handed out.

    async def _claim_ready(self, at: Access, count: int) -> list[Delivery]:
        """Claim up to `count` messages of those that are known, and do the upkeep that is due."""
        reader = at.partition.reader
        for _ in range(CLAIM_ATTEMPTS_MAX):
            taken = reader.take(at.queue, count, at.now_us(), self.earlier)
            due = upkeep.write_due(at)
            if not taken and due is None:
                return []
            try:
                claim = _claim(at, taken, self.visibility_s)
                deliveries = await (claim if due is None else _side_by_side(at, claim, due))
            finally:
                reader.put_back(taken)
            if deliveries or not taken:
                return deliveries
        return []


async def _fetch_all(desk: Desk, partitions: list[Access], *, required: bool) -> bool:
    """Read a page of each partition; whether any had something.

    What a cell fails is raised if this is `required`: there is nothing else to deliver.
    """
    outcomes = await desk.waits.all_of([reading.fetch(at) for at in partitions])
    for outcome in outcomes:
        if isinstance(outcome, Exception) and (
            required or not isinstance(outcome, CellUnavailableError)
        ):
            raise outcome
    return True in outcomes


async def _side_by_side(
    at: Access, claim: Awaitable[list[Delivery]], due: Awaitable[list[Delivery]]
) -> list[Delivery]:
    claimed, kept_up = await at.desk.waits.all_of([claim, due])
    if isinstance(claimed, Exception):
        raise claimed
    if isinstance(kept_up, Exception) and not isinstance(kept_up, CellUnavailableError):
        raise kept_up  # What the cell did not take stays due.
    return claimed


async def _claim(at: Access, taken: list[Pending], visibility_s: int) -> list[Delivery]:
    """Claim in the blocks one after the other; a group that failed in one goes no further."""
    token = at.desk.new_token()
    by_block: dict[int, list[Pending]] = {}
    for message in taken:
        by_block.setdefault(message.block.first, []).append(message)
    lost: set[bytes] = set()
    claimed: dict[tuple[int, int], Delivery] = {}
    for first in sorted(by_block):
        wanted = [message for message in by_block[first] if message.group not in lost]
        try:
            deliveries = await _claim_in(at, wanted, visibility_s, token) if wanted else {}
        except CellUnavailableError:
            if not claimed:
                raise
            break  # What is claimed must be handed out.
        claimed |= deliveries
        lost |= {m.group for m in wanted if (m.slot, m.position) not in deliveries and not m.done}
    order = [(message.slot, message.position) for message in taken]
    return [claimed[place] for place in order if place in claimed]


async def _claim_in(
    at: Access, wanted: list[Pending], visibility_s: int, token: bytes
) -> dict[tuple[int, int], Delivery]:
    """Claim messages of one block: what is delivered, by slot and position."""
    block = wanted[0].block
    loaded = await reading.load(at, block, wanted)
    messages = _claimable(at, wanted, loaded)
    leases = await _write_claims(at, block, messages, visibility_s, token) if messages else {}
    return {
        (message.slot, message.position): _delivery(
            at, message, loaded[message.index], leases[message.index]
        )
        for message in messages
        if message.index in leases
    }


def _claimable(at: Access, wanted: list[Pending], loaded: dict[int, Message]) -> list[Pending]:
    """Those that may be claimed by what is known now, up to the first of a group that may not."""
    now_us = at.now_us()
    lost: set[bytes] = set()
    claimable: list[Pending] = []
    for message in wanted:
        if message.done or message.group in lost:
            continue
        if (
            message.index not in loaded
            or is_over(at.queue, message.stamp_us, now_us)
            or _free_ms(at, message) > now_us // 1000
        ):
            lost.add(message.group)
        else:
            claimable.append(message)
    return claimable


def _free_ms(at: Access, message: Pending) -> int:
    stored = message.block.leases.get(message.index)
    if stored is None:
        return 0
    return from_bytes(stored).free_ms(at.desk.writer, FOREIGN_LEASE_GUARD_MS)


async def _write_claims(
    at: Access, block: Block, messages: list[Pending], visibility_s: int, token: bytes
) -> dict[int, Lease]:
    """Write the leases; none where others changed the block: then it was learnt anew."""
    asked_us = at.now_us()
    now_ms = asked_us // 1000
    visible_ms = now_ms + visibility_s * 1000 if visibility_s else 0
    leases: dict[int, Lease] = {}
    for message in messages:
        stored = block.leases.get(message.index)
        prior = None if stored is None else from_bytes(stored)
        leases[message.index] = Lease(
            visible_ms,
            1 if prior is None else prior.receive_count + 1,
            now_ms,
            now_ms if prior is None else prior.first_received_ms,
            message.index - message.position,
            token,
        )
    stored_leases = {index: new.to_bytes() for index, new in leases.items()}
    written = await at.cell.update(
        at.partition.state_key(block.first),
        Update(assign=_assignments(at, block, stored_leases)),
        _unchanged(block, stored_leases),
        partial(counting.leased, at.queue, indexes=leases, visible_ms=visible_ms, now_ms=now_ms),
    )
    reader = at.partition.reader
    if not written.applied:
        reader.learn(block, written.before, asked_us)
        return {}
    if written.time_ms * 1000 - block.checked_us > COLLECT_AFTER_US // 2:
        # The block may have been done and collected since its state was seen.
        block.checked_us = 0
        return {}
    for index, stored in stored_leases.items():
        reader.learn_lease(block, index, stored)
    return leases


def _assignments(at: Access, block: Block, leases: dict[int, bytes]) -> dict[str, Value]:
    assign: dict[str, Value] = {"v": FORMAT_VERSION, "x": at.state_ttl_s()}
    if block.total is not None:
        assign["f"] = block.total
    assign |= {f"m{index}": stored for index, stored in leases.items()}
    return assign


def _unchanged(block: Block, leases: dict[int, bytes]) -> tuple[AnyOf, ...]:
    """Each message is leased as it was seen, or already by this write, and not done."""
    condition: list[AnyOf] = []
    for index, new in leases.items():
        name = f"m{index}"
        seen = block.leases.get(index)
        condition += [
            (Absent(name) if seen is None else Equals(name, seen), Equals(name, new)),
            (Lacks("d", index),),
        ]
    return tuple(condition)


def _delivery(at: Access, message: Pending, body: Message, held: Lease) -> Delivery:
    number = at.partition.number
    handle = receipt_handle.encode(
        at.queue.uid,
        number,
        at.partition.generation,
        be64(message.block.first) + _HANDLE_PADDING,
        message.index,
        body.sent_ms,
        held.token,
    )
    sequence = sequence_number(message.stamp_us, number, message.position)
    return Delivery(
        replace(body, sequence=sequence), handle, held.receive_count, held.first_received_ms
    )
