"""Planted bugs of moves between queues; see bugs.py. They show in universes with dead letters."""

from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from data_plane.bag import deleting, moving, receiving
from data_plane.bag.block import Block, Finished
from data_plane.bag.desk import Access
from data_plane.bag.moving import Moving
from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.log import moving as log_moving
from data_plane.log import receiving as log_receiving
from data_plane.log.block import Block as LogBlock
from data_plane.log.block import Pending
from data_plane.log.desk import Access as LogAccess
from data_plane.log.moving import Moving as LogMoving
from data_plane.log.reader import Reader
from data_plane.log.sending import at_any_time
from data_plane.ports import Attributes, Key
from data_plane.stored import counting, keys, moves, segment
from data_plane.stored.lease import Lease
from data_plane.stored.moves import Move
from tests.simulation.planted import PlantedBug
from tests.simulation.redrive.universe import run

ARRIVES = frozenset({"acknowledged arrives"})
WAYS = frozenset({"ways are gone once"})
REDRIVEN = frozenset({"redriven once"})
BOUNDED = frozenset({"receives are bounded"})
INTACT = frozenset({"messages are intact"})
EXPIRE = frozenset({"dead letters expire"})
ORDER = frozenset({"groups stay in order"})
ONCE = frozenset({"visibility is respected", "receive counts grow", "deletes last"})

RedriveBug: Final = partial(PlantedBug, run=run)
FifoRedriveBug: Final = partial(PlantedBug, run=partial(run, fifo=True))

_finish = moving.finish
_copied = moving._copied


_given = count(1)


def _random_block(_uid: str, _lane: int, _epoch: int, block_id: bytes) -> bytes:
    """Another one each time: a copy is another message."""
    return block_id[:6] + (1 << 31 | next(_given)).to_bytes(4, "big")


async def _gone_before_it_is_stored(
    at: Access, block_id: bytes, begun: Sequence[Moving], mover: Any
) -> None:
    done = {one.index: counting.gone(at.queue, one.message) for one in begun}
    marks = moves.marks_of((one.index, one.move) for one in begun)
    await deleting.delete_in(at, block_id, done, marks)
    await _finish(at, block_id, begun, mover)


def _collect_all(at: Access, block_id: bytes, before: Attributes, sent_ms: dict[int, int]) -> None:
    if not keys.is_moved_block(block_id):
        return
    segments = tuple(
        Key(at.lane.segments, value + block_id + bytes((int(name[1:]),)))
        for name, value in before.items()
        if name[0] == "s" and isinstance(value, bytes) and int(name[1:]) in sent_ms
    )
    unneeded = (*segments, Key(at.lane.states, block_id))
    at.lane.finished.append(Finished(at.now_us() + 20_000_000, unneeded))


def _forget_move(_block: Block, _index: int, _move: str) -> None:
    return


def _no_begun_moves(at: Access, block_: Block, leases: dict[int, bytes], _moves: Any) -> Any:
    return _assignments(at, block_, leases, {})


_assignments = receiving._assignments


_decide = moves.DeadLetters.decide


async def _due_one_late(
    self: moves.DeadLetters, queue: Queue, message: Message, received: int
) -> Move | None:
    return await _decide(self, queue, message, received - 1)


def _sent_anew(item: Attributes) -> int:
    stamp = item["t"]
    assert isinstance(stamp, int)
    return stamp


def _without_count(at: Access, block_id: bytes, one: Moving) -> Message:
    return replace(_copied(at, block_id, one), received=0)


def _without_source(at: Access, block_id: bytes, one: Moving) -> Message:
    copy = _copied(at, block_id, one)
    return replace(copy, dead_letter_source=copy.dead_letter_source and f"{at.queue.arn}-2")


def _id_of_the_moment(
    move: Move, source: Queue, place: bytes, message: Message, held: Lease
) -> Message:
    copy = _copy_for(move, source, place, message, held)
    if move.kind == moves.DEAD_LETTER:
        return copy
    return replace(copy, id=next(_given).to_bytes(16, "big"))


_copy_for = moves.copy_for


def _not_marked(_at: Access, _block_id: bytes, _moves: Any, _mover: Any) -> Any:
    async def nothing() -> None:
        return None

    return nothing()


# FIFO queues


_copied_in_log = log_moving._copied


_finish_in_log = log_moving.finish


async def _finish_end_first(
    at: LogAccess, block: LogBlock, begun: Sequence[LogMoving], mover: Any
) -> None:
    await log_moving._end_moves(at, block, begun, mover)
    await _finish_in_log(at, block, begun, mover)


def _whatever_is_loaded(
    _at: LogAccess, wanted: list[Pending], loaded: dict[int, Message]
) -> list[Pending]:
    return [message for message in wanted[-1:] if message.index in loaded and not message.done]


async def _not_in_log(*_move: Any) -> bool:
    return False


def _id_of_another(_source: Queue, _place: bytes) -> bytes:
    return next(_given).to_bytes(16, "big")


def _no_move_learnt(self: Reader, block: LogBlock, index: int, stored: bytes, _: str = "") -> None:
    _learn_lease(self, block, index, stored)


_learn_lease = Reader.learn_lease


def _no_group(_queue: Queue, _group: str) -> bytes:
    return b""


FIFO_DEAD_LETTER_BUGS: Final = (
    FifoRedriveBug(
        "delivered again behind a dead letter",
        ORDER,
        ((log_receiving, "order_hash", _no_group),),
        1,
    ),
    FifoRedriveBug(
        "ended before they are stored",
        ARRIVES,
        ((log_moving, "finish", _finish_end_first),),
        38,
    ),
    FifoRedriveBug(
        "copies with ids of their own",
        ONCE,
        ((log_moving, "id_of_place", _id_of_another), (log_moving, "_is_stored", _not_in_log)),
        60,
    ),
    FifoRedriveBug(
        "copies beyond the window not looked for",
        ONCE,
        ((log_moving, "_is_stored", _not_in_log),),
        4,
    ),
    FifoRedriveBug(
        "copies stored behind what was not searched",
        ONCE | REDRIVEN,
        ((log_moving._Searched, "may", staticmethod(at_any_time)),),
        5964,
    ),
    FifoRedriveBug("moves not learnt", WAYS, ((Reader, "learn_lease", _no_move_learnt),), 242),
    FifoRedriveBug(
        "a group goes on before its dead letter",
        ORDER,
        ((log_receiving, "_claimable", _whatever_is_loaded),),
        13,
    ),
)
"""As DEAD_LETTER_BUGS, in universes of FIFO queues."""


DEAD_LETTER_BUGS: Final = (
    RedriveBug("a copy in a block of its own", ONCE, ((keys, "moved_block", _random_block),), 3),
    RedriveBug(
        "gone before it is stored",
        ARRIVES,
        ((moving, "finish", _gone_before_it_is_stored),),
        7,
    ),
    RedriveBug(
        "state of moved messages collected",
        ONCE,
        ((deleting, "_collect_if_finished", _collect_all),),
        10,
    ),
    RedriveBug(
        "begun moves not stored",
        WAYS,
        ((receiving, "_assignments", _no_begun_moves), (Block, "note_move", _forget_move)),
        136,
    ),
    RedriveBug("moves begun and left", ARRIVES, ((moving, "finish", _not_marked),), 2),
    RedriveBug(
        "one receive too many",
        BOUNDED,
        ((moves.DeadLetters, "decide", _due_one_late),),
        3,
    ),
    RedriveBug("receive count lost", BOUNDED, ((moving, "_copied", _without_count),), 3),
    RedriveBug("wrong source", INTACT, ((moving, "_copied", _without_source),), 2),
    RedriveBug("sent anew", EXPIRE, ((segment, "sent_us", _sent_anew),), 15),
    RedriveBug(
        "another message each time it is redriven",
        REDRIVEN,
        ((moving, "copy_for", _id_of_the_moment), (keys, "moved_block", _random_block)),
        39,
    ),
)
