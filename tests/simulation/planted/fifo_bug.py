"""How a bug of FIFO queues is planted, and looked for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.fifo.plan import FifoPlan, make_fifo_plan
from tests.simulation.fifo.universe import run
from tests.simulation.oracle import Violation
from tests.simulation.planted import PlantedBug, planted


@dataclass(frozen=True, slots=True)
class FifoBug:
    """As PlantedBug, of universes of FIFO queues."""

    name: str
    invariants: frozenset[str]
    patches: tuple[tuple[Any, str, Any], ...]
    fit: Callable[[FifoPlan], bool] = lambda _plan: True
    first: int = 0


def fifo_seeds_to_find(bug: FifoBug, seeds_max: int) -> tuple[int, Violation] | None:
    """How many seeds from the bug's first on it takes until one shows it, and how."""
    with planted(PlantedBug(bug.name, bug.invariants, bug.patches)):
        for seed in range(bug.first, bug.first + seeds_max):
            if not bug.fit(make_fifo_plan(seed)):
                continue
            for violation in run(seed).violations:
                if violation.invariant in bug.invariants:
                    return seed + 1 - bug.first, violation
    return None
