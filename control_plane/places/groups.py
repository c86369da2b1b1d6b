"""Placement groups: their names, and which one a queue belongs to (docs/storage.md, "Placements").

A definition names a group where a queue of a service with one cell names the cell.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from control_plane.core.replication import ACKNOWLEDGEMENT, FIRST_COPY, wanted_factor
from data_plane.replication.placement import Member, Placement

GROUPS: Final = 16
"""Groups of each factor: what is moved, copied and failed over at a time."""

REGISTRY: Final = "registry"
"""Name of the group of the registry itself, where that lies on a chain of embedded cells."""

_FIRST_SUFFIX: Final = f"/{FIRST_COPY}"
_GROUP: Final = re.compile(r"g([1-9])\.(0[0-9]|1[0-5])")


def group_names(factor: int) -> list[str]:
    """All groups of this factor."""
    return [f"g{factor}.{number:02}" for number in range(GROUPS)]


def factor_of(group: str) -> int:
    """How many copies the group's queues are to have. Raises ValueError for what is no group."""
    found = _GROUP.fullmatch(group)
    if found is None:
        raise ValueError(f"{group!r} is no placement group")
    return int(found[1])


def place_of(uid: str, attributes: Mapping[str, str], cells: int) -> str:
    """What the definition of a new queue names as its cell. Raises as `wanted_factor`."""
    group = group_names(wanted_factor(attributes, cells))[int(uid, 16) % GROUPS]
    return group + (_FIRST_SUFFIX if attributes.get(ACKNOWLEDGEMENT) == FIRST_COPY else "")


def read_place(name: str) -> tuple[str, bool] | None:
    """The group that a definition names, and whether its first copy acknowledges.

    None for the name of a plain cell.
    """
    group = name.removesuffix(_FIRST_SUFFIX)
    return (group, group != name) if _GROUP.fullmatch(group) else None


def first_placement(group: str, cells: Sequence[str], now_us: int) -> Placement:
    """The group's first members: neighbours in the list, so that every cell has some to decide.

    Raises ValueError where there are fewer cells than the factor.
    """
    factor, number = factor_of(group), int(group[-2:])
    if factor > len(cells):
        raise ValueError(f"{group} needs {factor} cells, not {len(cells)}")
    members = tuple(Member(cells[(number + at) % len(cells)]) for at in range(factor))
    return Placement(group, 1, members, now_us)
