"""Planted bugs of delivery guarantees; see bugs.py. They show in universes with such queues."""

from functools import partial
from typing import Any, Final

from data_plane.bag import deleting
from data_plane.bag.desk import Access
from data_plane.core.message import Delivery
from data_plane.core.queue import AT_MOST_ONCE, Queue
from data_plane.core.receipt_handle import ReceiptHandle
from data_plane.log import deleting as log_deleting
from data_plane.operations import hand_over
from data_plane.operations.message_engine import MessageEngine
from data_plane.ports import Attributes
from data_plane.stored.lease import from_bytes
from tests.simulation.guarantees.universe import run
from tests.simulation.planted import PlantedBug

MOST = frozenset({"delivered at most once"})
LOST = frozenset({"nothing is lost for nothing"})
DELIVERED = frozenset({"acknowledged is delivered"})
OVERTAKEN = frozenset({"the overtaken are refused", "one receiver acknowledges"})
LATEST = frozenset({"the latest are accepted"})

GuaranteeBug: Final = partial(PlantedBug, run=run)
FifoGuaranteeBug: Final = partial(PlantedBug, run=partial(run, fifo=True))

_hand_over = hand_over.receive
_delete_fenced = deleting._delete_fenced
_delete_blindly = deleting._delete_blindly
_holds_lease = deleting.holds_lease


class _DeletesNothing:
    """An engine whose deletes are all answered, and none is done."""

    def __init__(self, engine: MessageEngine) -> None:
        self.receive = engine.receive

    async def delete(self, _queue: Queue, handles: list[ReceiptHandle]) -> list[None]:
        return [None] * len(handles)


async def _shown_and_not_deleted(engine: MessageEngine, queue: Queue, **how: Any) -> list[Delivery]:
    wrong: Any = _DeletesNothing(engine)
    return await _hand_over(wrong, queue, **how)


class _RepeatsAttempts:
    """An engine that gives a repeated attempt the handles of the first, whatever it is asked."""

    def __init__(self, engine: MessageEngine, attempt: str) -> None:
        self.delete = engine.delete
        self._engine = engine
        self._attempt = attempt

    async def receive(self, queue: Queue, **how: Any) -> list[Delivery]:
        return await self._engine.receive(queue, **how | {"attempt": self._attempt})


async def _attempts_repeated(engine: MessageEngine, queue: Queue, **how: Any) -> list[Delivery]:
    wrong: Any = _RepeatsAttempts(engine, how["attempt"])
    return await _hand_over(wrong, queue, **how)


async def _shown_but_the_last(engine: MessageEngine, queue: Queue, **how: Any) -> list[Delivery]:
    deliveries = await _hand_over(engine, queue, **how)
    is_most = queue.delivery_guarantee == AT_MOST_ONCE
    return deliveries[:-1] if is_most and len(deliveries) > 1 else deliveries


async def _refused_and_deleted(at: Access, block: bytes, handles: list[ReceiptHandle]) -> set[str]:
    lost = await _delete_fenced(at, block, handles)
    if lost:
        await _delete_blindly(at, block, handles)
    return lost


def _holds_a_long_lease(state: Attributes, handle: ReceiptHandle) -> bool:
    stored = state.get(f"m{handle.index}")
    if not isinstance(stored, bytes) or not _holds_lease(state, handle):
        return False
    held = from_bytes(stored)
    return held.visible_ms > held.leased_ms + 5_000


def _done_by_anybody(
    _at: Any, _state: Attributes | None, _handle: ReceiptHandle, _now_ms: int
) -> None:
    return None


GUARANTEE_BUGS: Final = (
    GuaranteeBug("shown and not deleted", MOST, ((hand_over, "receive", _shown_and_not_deleted),)),
    GuaranteeBug("deleted and not shown", LOST, ((hand_over, "receive", _shown_but_the_last),)),
    GuaranteeBug(
        "refused and deleted", DELIVERED, ((deleting, "_delete_fenced", _refused_and_deleted),)
    ),
    GuaranteeBug("no fence", OVERTAKEN, ((deleting, "_delete_fenced", _delete_blindly),)),
    GuaranteeBug(
        "short leases hold nothing", LATEST, ((deleting, "holds_lease", _holds_a_long_lease),)
    ),
)

FIFO_GUARANTEE_BUGS: Final = (
    FifoGuaranteeBug("attempts are repeated", MOST, ((hand_over, "receive", _attempts_repeated),)),
    FifoGuaranteeBug(
        "shown in order and not deleted", MOST, ((hand_over, "receive", _shown_and_not_deleted),)
    ),
    FifoGuaranteeBug("any handle", OVERTAKEN, ((log_deleting, "_judge", _done_by_anybody),)),
)
"""Likewise, in universes of FIFO queues."""
