"""Bugs planted into how what was purged is dropped."""

from dataclasses import replace
from functools import partial
from typing import Any, Final

from control_plane import sweep
from control_plane.core.to_drop import ToDrop
from control_plane.registry import Registry
from data_plane.bag import sending
from data_plane.bag.desk import Access, Desk
from data_plane.core.dropping import Superfluous
from data_plane.core.queue import Queue
from data_plane.ports import Attributes, Cell
from data_plane.stored import superfluous
from data_plane.stored.superfluous import Verdict
from tests.simulation import universe, world
from tests.simulation.fifo import universe as fifo
from tests.simulation.plan import Plan, make_dropping_plan
from tests.simulation.planted import PlantedBug
from tests.simulation.planted.bugs import DELETED, DELIVERED

LATER_US: Final = 3_000_000
SOONER_US: Final = 30_000_000

DroppingBug: Final = partial(PlantedBug, run=universe.run_dropping)
FifoDroppingBug: Final = partial(PlantedBug, run=fifo.run_dropping)

_superfluous = superfluous.superfluous
_purges = Registry.purges


async def _of_what_was_sent_later_too(cell: Cell, queue: Queue, until_us: int) -> list[Superfluous]:
    return await _superfluous(cell, queue, until_us + LATER_US)


def _any_state(_part: Superfluous, _block: bytes, _state: Attributes) -> Verdict:
    return Verdict.REMOVE


async def _as_if_begun_sooner(registry: Registry, limit: int, after: bytes) -> list[ToDrop]:
    purges = await _purges(registry, limit, after)
    return [replace(purge, since_us=purge.since_us - SOONER_US) for purge in purges]


def _to_wait_for_longer(seed: int) -> Plan:
    """So that with the bug all happens as it does without, and is too soon."""
    plan = make_dropping_plan(seed)
    return replace(plan, drops_after_us=plan.drops_after_us + SOONER_US)


async def _the_last_block_too(cell: Cell, slots: str, _until_us: int) -> int:
    newest = await cell.query(slots, limit=1, reverse=True)
    return int.from_bytes(newest[0].key.sort, "big") if newest else 0


def _a_second_later(*ports: Any, after_us: int) -> sweep.Sweep:  # noqa: ARG001
    return sweep.Sweep(*ports, after_us=1_000_000)


def _never_purged(_at: Access, _stamp_us: int) -> bool:
    return False


def _known_for_good(self: Desk, call: bytes, _purged_us: int) -> bytes | None:
    return self._calls.get(call) or self._earlier_calls.get(call)


DROPPING_BUGS: Final = (
    DroppingBug(
        "what was sent after the purge is dropped",
        DELIVERED,
        ((sweep, "superfluous", _of_what_was_sent_later_too),),
        first=39,
    ),
    DroppingBug(
        "states of what was sent after the purge are dropped",
        DELETED,
        ((superfluous, "_state_verdict", _any_state),),
        first=12,
    ),
    DroppingBug(
        "leases are dropped while receives of before the purge are under way",
        frozenset({"receive counts grow"}),
        (
            (Registry, "purges", _as_if_begun_sooner),
            (universe, "make_dropping_plan", _to_wait_for_longer),
        ),
        first=1000983,
    ),
    DroppingBug(
        "a repeated send finds what was purged",
        DELIVERED,
        ((sending, "_is_purged", _never_purged),),
        first=552,
    ),
    DroppingBug(
        "a repeated send is known after the purge",
        DELIVERED,
        ((Desk, "_known_call", _known_for_good),),
        first=552,
    ),
)

FIFO_DROPPING_BUGS: Final = (
    FifoDroppingBug(
        "what was sent to a log after the purge is dropped",
        frozenset({"acknowledged is delivered"}),
        ((superfluous, "_first_kept", _the_last_block_too),),
        first=20,
    ),
    FifoDroppingBug(
        "what was purged is dropped while appends of before are under way",
        frozenset({"acknowledged is delivered", "slots are written once"}),
        ((world, "Sweep", _a_second_later),),
        first=1_000_192,
    ),
)
