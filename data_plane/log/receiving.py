"""Receiving: claims are written before messages are handed out, group by group in order."""

from collections.abc import Awaitable
from dataclasses import dataclass
from itertools import chain

from msgspec.structs import replace

from data_plane.core import receipt_handle
from data_plane.core.errors import RefusedError, is_of_kms
from data_plane.core.long_answers import leave_room
from data_plane.core.message import Delivery, Message, Redriven
from data_plane.core.message_rules import size_bytes
from data_plane.core.queue import Generation, Queue
from data_plane.log import moving, reading, upkeep
from data_plane.log.block import Pending
from data_plane.log.bounds import (
    CLAIM_ATTEMPTS_MAX,
    FETCH_ROUNDS_MAX,
    FOREIGN_LEASE_GUARD_MS,
)
from data_plane.log.claims import Claims
from data_plane.log.desk import Access, Desk, channel
from data_plane.log.generations import ended
from data_plane.log.layers import layers, order_hash
from data_plane.log.leases import named_in_handle
from data_plane.log.reader import NEVER_MS, Reader, is_over, is_seen_by
from data_plane.log.window import sequence_number
from data_plane.ports import (
    CellUnavailableError,
    NoThreadError,
)
from data_plane.stored.lease import Lease, from_bytes
from data_plane.stored.moves import DeadLetters, Move, Mover, Redrive, Target, waits_for_room
from data_plane.stored.polling import look_again, next_look_us


async def receive(
    desk: Desk, queue: Queue, *, count: int, visibility_s: int, until_us: int
) -> list[Delivery]:
    """Claim up to `count` messages, waiting for the first until `until_us`. See `Log.receive`."""
    while True:
        seen = desk.waits.signals(channel(queue))
        began_us = desk.clock.now_us()
        try:
            deliveries = await _receive_or_move(desk, queue, count, visibility_s)
        except NoThreadError:
            if desk.clock.now_us() >= until_us:
                raise
            deliveries = []
        now_us = desk.clock.now_us()
        if deliveries or now_us >= until_us:
            return deliveries
        partitions = chain.from_iterable(await layers(desk, queue))
        readers = [at.partition.reader for at in partitions]
        due_us = min((reader.next_due_ms() for reader in readers), default=NEVER_MS) * 1000
        wake_us = max(min(until_us, next_look_us(began_us, now_us), due_us), now_us + 1000)
        leave_room()
        if not await desk.waits.wait_for(channel(queue), seen, wake_us):
            return []
        look_again()


async def _receive_or_move(
    desk: Desk, queue: Queue, count: int, visibility_s: int
) -> list[Delivery]:
    """Deliver what is behind dead letters, once those are moved.

    Not of the groups of which something is delivered already: it may be visible again by now.
    """
    mover = DeadLetters(desk.queues, desk.is_dropped, desk.answer_bytes_max)
    deliveries: list[Delivery] = []
    for _ in range(FETCH_ROUNDS_MAX):
        moved_before, short = mover.moved, count - len(deliveries)
        shown = frozenset(order_hash(queue, delivery.message) for delivery in deliveries)
        try:
            deliveries += await _receive_now(desk, queue, short, visibility_s, mover, shown)
        except (CellUnavailableError, RefusedError):
            if not deliveries:
                raise
            break  # What is claimed must be handed out.
        if len(deliveries) >= count or mover.moved == moved_before:
            break
    return deliveries


async def redrive(desk: Desk, queue: Queue, *, count: int, target: Target) -> Redriven:
    """Move up to `count` visible messages to other queues. See `Log.redrive`."""
    mover = Redrive(target, count, desk.is_dropped)
    more = True
    try:
        while more and mover.left:
            moved_before = mover.moved
            await _receive_now(desk, queue, count, 0, mover)
            more = mover.moved > moved_before
    except CellUnavailableError as failure:
        return Redriven(mover.moved, more, failure)
    except RefusedError as refusal:
        if not is_of_kms(refusal):
            raise
        return Redriven(mover.moved, more, refusal)
    return Redriven(mover.moved, more, mover.refusal)


async def _receive_now(  # noqa: PLR0913, PLR0917 - a receive, and what it has got already
    desk: Desk,
    queue: Queue,
    count: int,
    visibility_s: int,
    mover: Mover,
    shown: frozenset[bytes] = frozenset(),
) -> list[Delivery]:
    """Deliver from the earliest layer that has something, then from those behind it."""
    deliveries: list[Delivery] = []
    refusal: Exception | None = None
    earlier: list[Reader] = []
    following = () if queue.reads_stream else desk.generations(queue)[1:]
    for number, layer in enumerate(await layers(desk, queue)):
        if number < len(following):
            try:
                await _learn_ends(layer, following[number])
            except (CellUnavailableError, RefusedError):
                if not deliveries:
                    raise
                break  # What is claimed must be handed out.
        partitions = [at for at in layer if at.may_be_read]
        if not partitions:
            break
        turns = _from_another_each_time(desk, partitions)
        round_ = _Round(desk, turns, earlier, visibility_s, mover, shown)
        try:
            await round_.deliver(count, deliveries)
        except (CellUnavailableError, RefusedError) as failure:
            if deliveries:
                break
            if not is_of_kms(failure):
                raise
            refusal = failure  # What lies behind may have other keys.
        if len(deliveries) >= count:
            break
        readers = [at.partition.reader for at in partitions]
        earlier += [reader for reader in readers if not reader.is_drained]
    if refusal is not None and not deliveries:
        raise refusal
    return deliveries


async def _learn_ends(partitions: list[Access], following: Generation) -> None:
    for at in partitions:
        if at.partition.reader.end is None:
            await ended(at, following)


def _from_another_each_time(desk: Desk, partitions: list[Access]) -> list[Access]:
    """So that no partition keeps the others waiting."""
    if len(partitions) == 1:
        return partitions
    start = desk.entropy.random_bytes(1)[0] % len(partitions)
    return partitions[start:] + partitions[:start]


@dataclass(frozen=True, slots=True)
class _Round:
    """One receive's turn at a generation; groups wait for what the `earlier` ones have of them.

    Of the groups `shown`, nothing is to be claimed.
    """

    desk: Desk
    partitions: list[Access]
    earlier: list[Reader]
    visibility_s: int
    mover: Mover
    shown: frozenset[bytes]

    async def deliver(self, count: int, deliveries: list[Delivery]) -> None:
        """Add to `deliveries`, up to `count`, what can be claimed.

        Groups whose keys are not to be had are put aside, and others come in their place.
        """
        partitions = self.partitions
        await reading.look_at_others(self.desk, partitions)
        refusal: RefusedError | None = None
        let_back = False
        for _ in range(FETCH_ROUNDS_MAX):
            await self._read_on(count, deliveries)
            try:
                await self._claim_in_all(partitions, count, deliveries)
            except RefusedError as failure:
                if not is_of_kms(failure):
                    raise
                refusal = failure
                continue
            let_back = not (deliveries or refusal or let_back) and self._let_back()
            if not let_back:
                break
        if refusal is not None and not deliveries:
            raise refusal
        if not deliveries:
            refreshed = [at for at in partitions if await reading.refresh(at)]
            await self._claim_in_all(refreshed, count, deliveries)

    def _let_back(self) -> bool:
        """Offer again what was put aside, where there is nothing else; whether there is any."""
        return bool([at for at in self.partitions if at.partition.reader.let_back()])

    async def _read_on(self, count: int, deliveries: list[Delivery]) -> None:
        """Read until enough is known to claim: what is left of a group would be blocked by it."""
        partitions = self.partitions
        short = min(count - len(deliveries), self.mover.left)
        for _ in range(FETCH_ROUNDS_MAX):
            known = 0
            for at in partitions:
                reader = at.partition.reader
                known += reader.claimable(at.newest, short - known, at.now_us(), self.earlier)
                if known >= short:
                    break
            required = not known and not deliveries
            if known >= short or not await _fetch_all(self.desk, partitions, required=required):
                break

    async def _claim_in_all(
        self, partitions: list[Access], count: int, deliveries: list[Delivery]
    ) -> None:
        refusal: Exception | None = None
        for at in partitions:
            if len(deliveries) >= count:
                return
            try:
                deliveries += await self._claim_ready(at, count - len(deliveries))
            except (CellUnavailableError, RefusedError) as failure:
                if deliveries:
                    return  # What is claimed must be handed out.
                if not is_of_kms(failure):
                    raise
                refusal = failure
        if refusal is not None and not deliveries:
            raise refusal

    async def _claim_ready(self, at: Access, count: int) -> list[Delivery]:
        """Claim up to `count` messages of those that are known, and do the upkeep that is due."""
        reader = at.partition.reader
        for _ in range(CLAIM_ATTEMPTS_MAX):
            most = min(count, self.mover.left)
            taken = reader.take(at.newest, most, at.now_us(), self.earlier)
            wanted = [message for message in taken if message.group not in self.shown]
            due = upkeep.write_due(at)
            try:
                if not wanted and due is None:
                    return []
                claim = _claim(at, wanted, self.visibility_s, self.mover)
                deliveries = await (claim if due is None else _side_by_side(at, claim, due))
            finally:
                reader.put_back(taken)
            if deliveries or not wanted:
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


async def _claim(
    at: Access, taken: list[Pending], visibility_s: int, mover: Mover
) -> list[Delivery]:
    """Claim in the blocks one after the other; a group that failed in one goes no further."""
    token = at.desk.new_token()
    by_block: dict[int, list[Pending]] = {}
    for message in taken:
        by_block.setdefault(message.block.first, []).append(message)
    lost: set[bytes] = set()
    delivering: set[bytes] = set()
    claimed: dict[tuple[int, int], Delivery] = {}
    for first in sorted(by_block):
        wanted = [message for message in by_block[first] if message.group not in lost]
        try:
            deliveries = (
                await _claim_in(at, wanted, visibility_s, token, mover, delivering)
                if wanted
                else {}
            )
        except (CellUnavailableError, RefusedError):
            if not claimed:
                raise
            break  # What is claimed must be handed out.
        claimed |= deliveries
        for message in wanted:
            if (message.slot, message.position) in deliveries:
                delivering.add(message.group)
            elif not message.done:
                lost.add(message.group)
    order = [(message.slot, message.position) for message in taken]
    return [claimed[place] for place in order if place in claimed]


async def _claim_in(  # noqa: PLR0913, PLR0917 - a claim, and what it has got already
    at: Access,
    wanted: list[Pending],
    visibility_s: int,
    token: bytes,
    mover: Mover,
    delivering: set[bytes],
) -> dict[tuple[int, int], Delivery]:
    """Claim messages of one block: what is delivered, by slot and position. Others are moved.

    Nothing moves past what is delivered of its group: `delivering`, in the blocks before.
    """
    block = wanted[0].block
    loaded = await reading.load(at, block, wanted)
    messages = _claimable(at, wanted, loaded)
    moves: dict[int, Move] = {}
    if moving.may_move(at, block, mover):
        decided = await moving.decide(at, block, messages, loaded, mover)
        messages = moving.of_one_kind(_claimable(at, wanted, loaded), decided, delivering)
        moves = {m.index: move for m in messages if (move := decided[m.index]) is not None}
    messages = _that_fit(messages, loaded, moves, mover)
    if not messages:
        return {}
    claims = Claims(at, block, {m.index: loaded[m.index] for m in messages}, moves)
    written = await claims.write(messages, visibility_s, token)
    if not written:
        mover.room.give_back(loaded[m.index] for m in messages if m.index not in moves)
    deliveries = {
        (message.slot, message.position): _delivery(
            at, message, loaded[message.index], written[message.index]
        )
        for message in messages
        if message.index in written and message.index not in moves
    }
    begun = claims.begun(written)
    if begun:
        try:
            await moving.finish(at, block, begun, mover)
        except CellUnavailableError as failure:
            # Whoever meets these messages next, in MOVE_LEASE_MS, goes on with their moves.
            if not deliveries and not waits_for_room(failure, mover):
                raise
    return deliveries


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
            or is_over(at.newest, message.stamp_us, now_us, at.partition.eras)
            or _free_ms(at, message) > now_us // 1000
            or not is_seen_by(at.queue, message)
        ):
            lost.add(message.group)
        else:
            claimable.append(message)
    return claimable


def _that_fit(
    messages: list[Pending], loaded: dict[int, Message], moves: dict[int, Move], mover: Mover
) -> list[Pending]:
    """Those before the first for which the answer has no room; what moves needs none."""
    for number, message in enumerate(messages):
        if message.index not in moves and not mover.room.take(loaded[message.index]):
            return messages[:number]
    return messages


def _free_ms(at: Access, message: Pending) -> int:
    stored = message.block.leases.get(message.index)
    if stored is None:
        return 0
    return from_bytes(stored).free_ms(at.desk.writer, FOREIGN_LEASE_GUARD_MS)


def _delivery(at: Access, message: Pending, body: Message, held: Lease) -> Delivery:
    number = at.partition.number
    handle = receipt_handle.encode(
        at.queue,
        *named_in_handle(at, message.block.first),
        message.index,
        body.sent_ms,
        held.token,
        size_bytes(body.body, body.attributes),
    )
    if not at.queue.reads_stream:  # whose records have theirs
        sequence = sequence_number(message.stamp_us, number, message.position)
        body = replace(body, sequence=sequence)
    return Delivery(body, handle, held.counted, held.first_received_ms)
