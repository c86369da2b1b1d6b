"""Bugs that are planted into the shipped code, to see the simulator find them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.simulation.oracle import Violation
from tests.simulation.plan import Plan, make_plan
from tests.simulation.universe import run


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """Shipped code made subtly wrong: what stands where, and which invariant breaks by it.

    `patches` are an object (module or class), the name of its attribute, and the wrong value. Only
    universes that are `fit` can show it. The search begins at `first`: where a bug is rare, the
    seed that is known to show it.
    """

    name: str
    invariants: frozenset[str]
    patches: tuple[tuple[Any, str, Any], ...]
    fit: Callable[[Plan], bool] = lambda _plan: True
    first: int = 0


@contextmanager
def planted(bug: PlantedBug) -> Iterator[None]:
    """The shipped code with the bug in it."""
    before = [(where, name, getattr(where, name)) for where, name, _ in bug.patches]
    for where, name, wrong in bug.patches:
        setattr(where, name, wrong)
    try:
        yield
    finally:
        for where, name, right in before:
            setattr(where, name, right)


def seeds_to_find(bug: PlantedBug, seeds_max: int) -> tuple[int, Violation] | None:
    """How many seeds from the bug's first on it takes until one shows it, and how."""
    with planted(bug):
        for seed in range(bug.first, bug.first + seeds_max):
            if not bug.fit(make_plan(seed)):
                continue
            for violation in run(seed).violations:
                if violation.invariant in bug.invariants:
                    return seed + 1 - bug.first, violation
    return None
