"""Bugs that are planted into the shipped code, to see the simulator find them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.simulation.oracle import Violation
from tests.simulation.universe import Outcome, run


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """Shipped code made subtly wrong: what stands where, and which invariant breaks by it.

    `patches` are an object (module or class), the name of its attribute, and the wrong value. The
    search begins at the seed `first`: where a bug is rare, the one that is known to show it. Only
    universes of seeds that are `fit` can show it, and `run` lets such a universe be.
    """

    name: str
    invariants: frozenset[str]
    patches: tuple[tuple[Any, str, Any], ...]
    first: int = 0
    fit: Callable[[int], bool] = lambda _seed: True
    run: Callable[[int], Outcome] = run


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
        for seed in filter(bug.fit, range(bug.first, bug.first + seeds_max)):
            for violation in bug.run(seed).violations:
                if violation.invariant in bug.invariants:
                    return seed + 1 - bug.first, violation
    return None
