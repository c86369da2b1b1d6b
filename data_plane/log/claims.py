"""Claims of messages of a log: leases, written where nobody has changed the block meanwhile."""

from collections.abc import Iterable
from functools import partial
from itertools import chain

from data_plane.core.message import Message
from data_plane.log.block import Block, Pending
from data_plane.log.bounds import COLLECT_AFTER_US
from data_plane.log.dead_letters import with_fate
from data_plane.log.desk import Access
from data_plane.log.leases import state_now
from data_plane.log.moving import Moving
from data_plane.ports import Attributes, Tally, Update, Value, is_replicated
from data_plane.stored import counting
from data_plane.stored.bounds import MOVE_LEASE_MS
from data_plane.stored.lease import Lease, from_bytes, unchanged
from data_plane.stored.moves import Move
from data_plane.stored.segment import FORMAT_VERSION


class Claims:
    """Claims of messages of one block, to deliver them or to move them."""

    def __init__(
        self,
        at: Access,
        block: Block,
        messages: dict[int, Message],
        moves: dict[int, Move],
    ) -> None:
        self._at = at
        self._block = block
        self._messages = messages
        self._moves = moves
        self._prior = {i: from_bytes(block.leases[i]) for i in messages if i in block.leases}

    async def write(
        self, pending: list[Pending], visibility_s: int, token: bytes
    ) -> dict[int, Lease]:
        """Write the leases; none where others changed the block: then it was learnt anew."""
        at, block = self._at, self._block
        asked_us = at.now_us()
        now_ms = asked_us // 1000
        visible_ms = now_ms + visibility_s * 1000 if visibility_s else 0
        leases = {m.index: self._lease(m, now_ms, visible_ms, token) for m in pending}
        stored = {index: new.to_bytes() for index, new in leases.items()}
        moves = {index: move.to_text() for index, move in self._moves.items()}
        touched = block.touched
        written = await at.cell.update(
            at.partition.state_key(block.first),
            Update(
                assign=_assignments(at, block, stored, moves),
                remove=frozenset(f"q{i}" for i in stored if i in block.moves and i not in moves),
            ),
            unchanged(block.leases, stored),
            partial(self._tallies, leases=leases, now_ms=now_ms),
        )
        reader = at.partition.reader
        if not written.applied:
            state = written.before
            if state is None and touched and is_replicated(at.cell):
                # Was it collected, or is the head asked a cell that was dropped, and lacks it?
                state = await state_now(at, block.first)
            reader.learn(block, state, asked_us, touched=touched)
            return {}
        if written.time_ms * 1000 - block.checked_us > COLLECT_AFTER_US // 2:
            # The block may have been done and collected since its state was seen.
            block.checked_us = 0
            return {}
        for index, lease in stored.items():
            reader.learn_lease(block, index, lease, moves.get(index, ""))
        return leases

    def _tallies(
        self, before: Attributes | None, leases: dict[int, Lease], now_ms: int
    ) -> Iterable[Tally]:
        queue = self._at.queue
        moved = counting.leased(queue, before, leases, now_ms)
        if not queue.is_kinesis:
            return moved
        changes = [(index, self._messages[index].sent_ms, new) for index, new in leases.items()]
        return chain(moved, counting.doomed(queue, before, changes, now_ms))

    def _lease(self, pending: Pending, now_ms: int, visible_ms: int, token: bytes) -> Lease:
        """The next lease of a message; that of a move counts no receive."""
        index = pending.index
        message, prior = self._messages[index], self._prior.get(index)
        count = message.received if prior is None else prior.receive_count
        first_ms = message.first_received_ms if prior is None else prior.first_received_ms
        place = index - pending.position
        if index in self._moves:
            return Lease(now_ms + MOVE_LEASE_MS, count, now_ms, first_ms, place, token)
        new = Lease(visible_ms, count + 1, now_ms, first_ms or now_ms, place, token)
        return with_fate(self._at.queue, prior, new)

    def begun(self, written: dict[int, Lease]) -> list[Moving]:
        """The moves among the leases that were written."""
        return [
            Moving(index, self._messages[index], self._moves[index], held)
            for index, held in written.items()
            if index in self._moves
        ]


def _assignments(
    at: Access, block: Block, leases: dict[int, bytes], moves: dict[int, str]
) -> dict[str, Value]:
    assign: dict[str, Value] = {"v": FORMAT_VERSION, "x": at.state_ttl_s()}
    if block.total is not None:
        assign["f"] = block.total
    if block.kept:
        assign["k"] = 1
    assign |= {f"m{index}": stored for index, stored in leases.items()}
    return assign | {f"q{index}": move for index, move in moves.items()}
