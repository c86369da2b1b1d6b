"""Bugs planted into how what was purged is dropped."""

from typing import Final

from control_plane import sweep
from data_plane.core.dropping import Superfluous
from data_plane.core.queue import Queue
from data_plane.ports import Attributes, Cell
from data_plane.stored import superfluous
from data_plane.stored.superfluous import Verdict
from tests.simulation.planted import PlantedBug
from tests.simulation.planted.bugs import DELETED, DELIVERED

LATER_US: Final = 3_000_000

_superfluous = superfluous.superfluous


async def _of_what_was_sent_later_too(cell: Cell, queue: Queue, until_us: int) -> list[Superfluous]:
    return await _superfluous(cell, queue, until_us + LATER_US)


def _any_state(_part: Superfluous, _block: bytes, _state: Attributes) -> Verdict:
    return Verdict.REMOVE


async def _the_last_block_too(cell: Cell, slots: str, _until_us: int) -> int:
    newest = await cell.query(slots, limit=1, reverse=True)
    return int.from_bytes(newest[0].key.sort, "big") if newest else 0


DROPPING_BUGS: Final = (
    PlantedBug(
        "what was sent after the purge is dropped",
        DELIVERED,
        ((sweep, "superfluous", _of_what_was_sent_later_too),),
        first=39,
    ),
    PlantedBug(
        "states of what was sent after the purge are dropped",
        DELETED,
        ((superfluous, "_state_verdict", _any_state),),
    ),
)

FIFO_DROPPING_BUGS: Final = (
    PlantedBug(
        "what was sent after the purge is dropped",
        frozenset({"acknowledged is delivered"}),
        ((superfluous, "_first_kept", _the_last_block_too),),
        first=14,
    ),
)
