"""Planted bugs of queues of the Kinesis API; see bugs.py."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from control_plane.kinesis_queues import KinesisQueues
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError
from data_plane.core.message import Message
from data_plane.core.queue import Queue
from data_plane.core.settling import RESTORE, Wish
from data_plane.log import claims, dead_letters, reader, receiving, settling
from data_plane.log.block import Pending
from data_plane.log.desk import Access
from data_plane.log.reader import Reader
from data_plane.operations import receive_queue_records
from data_plane.ports import Attributes
from data_plane.stored import counting, lease
from data_plane.stored.lease import RESTORED, WRITER_BYTES, Lease
from tests.simulation.kinesis_queues.universe import run
from tests.simulation.planted import PlantedBug

ACKNOWLEDGED: Final = frozenset({"acknowledged means acknowledged"})
LEASES: Final = frozenset({"leases are kept"})
COUNTED: Final = frozenset({"receives are counted"})
DIES: Final = frozenset({"none dies before its time"})
LIVES: Final = frozenset({"none lives beyond its time"})
OLD: Final = frozenset({"old handles are refused"})
GOOD: Final = frozenset({"good handles are accepted"})
COUNTS: Final = frozenset({"counts are right"})
ONE_ID: Final = frozenset({"records have one id"})

_Changes = Iterable[tuple[int, int, Lease | None]]

_with_fate = dead_letters.with_fate
_decide = settling._decide
_refusal = settling._refusal
_doomed = counting.doomed
_free_ms = Reader.free_ms
_find = KinesisQueues.find


# When records die


def _die_early(queue: Queue, prior: Lease | None, new: Lease) -> Lease:
    return _with_fate(replace(queue, dies_after=min(queue.dies_after, 1)), prior, new)


def _die_late(queue: Queue, prior: Lease | None, new: Lease) -> Lease:
    dies_after = queue.dies_after + 1 if queue.dies_after else 0
    return _with_fate(replace(queue, dies_after=dies_after), prior, new)


async def _find_as_at_first(
    self: KinesisQueues, account: str, region: str, queue_id: str
) -> Queue | None:
    """A front end never hears of another MaxReceiveCount than that of its start."""
    queue = await _find(self, account, region, queue_id)
    if queue is None:
        return None
    known: dict[str, int] = vars(self).setdefault("known", {})
    return replace(queue, dies_after=known.setdefault(queue_id, queue.dies_after))


def _forgive_nothing(queue: Queue, _prior: Lease | None, new: Lease) -> Lease:
    return _with_fate(queue, None, new)


def _free_while_in_flight(self: Reader, queue: Queue, message: Pending) -> int:
    return 0 if queue.of_dead else _free_ms(self, queue, message)


# What becomes of what was received


def _acknowledge_nothing(*given: Any) -> Any:
    return _decide(*given)._replace(done=[])


def _restore_again(at: Access, wish: Wish, *rest: Any, **more: Any) -> Any:
    return None if wish.act == RESTORE else _refusal(at, wish, *rest, **more)


def _take_any_handle(
    at: Access, wish: Wish, held: Lease | None, now_us: int, *, is_done: bool
) -> Any:
    if held is not None:
        held = held._replace(token=wish.handle.token)
    return _refusal(at, wish, held, now_us, is_done=is_done)


def _refuse_what_has_ended(
    at: Access, wish: Wish, held: Lease | None, now_us: int, *, is_done: bool
) -> Any:
    if held is not None and 0 < held.visible_ms * 1_000 <= now_us:
        return RefusedError(INVALID_ARGUMENT, "")
    return _refusal(at, wish, held, now_us, is_done=is_done)


def _refuse_those_of_others(
    at: Access, wish: Wish, held: Lease | None, now_us: int, *, is_done: bool
) -> Any:
    if wish.handle.token[:WRITER_BYTES] != at.partition.reader.writer:
        return RefusedError(INVALID_ARGUMENT, "")
    return _refusal(at, wish, held, now_us, is_done=is_done)


# Ids and counts


def _id_of_the_queue(queue: Queue, message: Message) -> str:
    return f"{queue.uid}{message.deduplication_id}"


def _count_restored_as_dead(
    queue: Queue, before: Attributes | None, changes: _Changes, now_ms: int
) -> Any:
    others = [one for one in changes if one[2] is None or one[2].fate != RESTORED]
    return _doomed(queue, before, others, now_ms)


def _count_acknowledged_as_dead(
    queue: Queue, before: Attributes | None, changes: _Changes, now_ms: int
) -> Any:
    others = [one for one in changes if one[2] is not None]
    return _doomed(queue, before, others, now_ms)


_BUGS: Final = (
    ("records die early", DIES, ((claims, "with_fate", _die_early),), 3),
    ("records die late", LIVES, ((claims, "with_fate", _die_late),), 90),
    (
        "a front end keeps to its first MaxReceiveCount",
        LIVES | DIES,
        ((KinesisQueues, "find", _find_as_at_first),),
        13,
    ),
    ("restores forgive nothing", COUNTED, ((claims, "with_fate", _forgive_nothing),), 3),
    (
        "dead letters are received in flight",
        LEASES,
        (
            (Reader, "free_ms", _free_while_in_flight),
            (receiving, "_free_ms", lambda *_: 0),
        ),
        9,
    ),
    (
        "records do not die",
        LIVES,
        (
            (reader, "is_seen_by", lambda *_: True),
            (receiving, "is_seen_by", lambda *_: True),
            (lease, "is_of_dead", lambda _stored: False),
        ),
        90,
    ),
    (
        "acknowledgements are not written",
        ACKNOWLEDGED,
        ((settling, "_decide", _acknowledge_nothing),),
        2,
    ),
    ("restores are done again", OLD, ((settling, "_refusal", _restore_again),), 2),
    ("old handles are good", OLD, ((settling, "_refusal", _take_any_handle),), 2),
    ("handles end with their leases", GOOD, ((settling, "_refusal", _refuse_what_has_ended),), 19),
    (
        "handles are good at one front end",
        GOOD,
        ((settling, "_refusal", _refuse_those_of_others),),
        13,
    ),
    (
        "records have an id for each queue",
        ONE_ID,
        ((receive_queue_records, "_record_id", _id_of_the_queue),),
        51,
    ),
    (
        "restored records are counted as dead",
        COUNTS,
        ((counting, "doomed", _count_restored_as_dead),),
        17,
    ),
    (
        "acknowledged dead letters are counted",
        COUNTS,
        ((counting, "doomed", _count_acknowledged_as_dead),),
        17,
    ),
)
KINESIS_QUEUE_BUGS: Final = tuple(
    PlantedBug(name, invariants, patches, first, run=run)
    for name, invariants, patches, first in _BUGS
)
