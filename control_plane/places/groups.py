"""Placement groups: their names, and which one a queue belongs to (docs/storage.md, "Placements").

A definition names a group where a queue of a service with one cell names the cell.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from control_plane.core.replication import (
    ACKNOWLEDGEMENT,
    FIRST_COPY,
    GUARANTEE,
    is_fenced,
    wanted_factor,
)
from data_plane.core.errors import INVALID_ATTRIBUTE_VALUE, RefusedError
from data_plane.replication.placement import Member, Placement

GROUPS: Final = 16
"""Groups of each factor: what is moved, copied and failed over at a time."""

REGISTRY: Final = "registry"
"""Name of the group of the registry itself, where that lies on a chain of embedded cells."""

FIRST: Final = FIRST_COPY
"""What follows a group's name where the first copy acknowledges what is sent."""

ON_CHAIN: Final = "chain"
"""The same where a standard queue lies on a chain, as FIFO queues do."""

_GROUP: Final = re.compile(r"g([1-9])\.(0[0-9]|1[0-5])(?:\.([0-9a-f]{16}))?")
_PLACE: Final = re.compile(rf"({_GROUP.pattern})(?:/({FIRST}|{ON_CHAIN}))?")


def group_names(factor: int) -> list[str]:
    """All groups of this factor."""
    return [f"g{factor}.{number:02}" for number in range(GROUPS)]


def own_group(group: str, uid: str) -> str:
    """The group of one queue alone, which was one of this group's."""
    return f"{group}.{uid}"


def alone_in(group: str) -> str:
    """The uid of the queue whose own group this is; "" for one that queues have in common."""
    found = _GROUP.fullmatch(group)
    return "" if found is None else found[3] or ""


def common_group(group: str) -> str:
    """The group that the queue of an own group has left; any other group itself."""
    return group.removesuffix(f".{alone_in(group)}")


def number_of(group: str) -> int:
    """Which of the groups of its factor it is, or was taken from. Raises as `factor_of`."""
    return int(_parts(group)[2])


def factor_of(group: str) -> int:
    """How many copies the group's queues are to have. Raises ValueError for what is no group."""
    return int(_parts(group)[1])


def _parts(group: str) -> re.Match[str]:
    found = _GROUP.fullmatch(group)
    if found is None:
        raise ValueError(f"{group!r} is no placement group")
    return found


def place_of(uid: str, attributes: Mapping[str, str], cells: int) -> str:
    """What the definition of a new queue names as its cell, where there are so many cells.

    Raises RefusedError (InvalidAttributeValue).
    """
    group = group_names(wanted_factor(attributes, cells))[int(uid, 16) % GROUPS]
    acknowledges_first = attributes.get(ACKNOWLEDGEMENT) == FIRST_COPY
    if attributes.get("FifoQueue") != "true" and is_fenced(attributes):
        if acknowledges_first:
            raise RefusedError(
                INVALID_ATTRIBUTE_VALUE,
                f"Invalid value for the parameter {ACKNOWLEDGEMENT}. "
                f"Reason: It does not go with this {GUARANTEE}.",
            )
        return f"{group}/{ON_CHAIN}"
    return f"{group}/{FIRST}" if acknowledges_first else group


def check_guarantee(place: str, attributes: Mapping[str, str]) -> None:
    """Raise RefusedError (InvalidAttributeValue) where a queue cannot keep what it is to promise.

    What consumers did to a standard queue in a fan-out reaches its copies a moment later.
    """
    found = read_place(place)
    is_fifo = attributes.get("FifoQueue") == "true"
    if found is not None and found[1] != ON_CHAIN and not is_fifo and is_fenced(attributes):
        raise RefusedError(
            INVALID_ATTRIBUTE_VALUE,
            f"Invalid value for the parameter {GUARANTEE}. "
            "Reason: A queue in several cells has it from its creation on.",
        )


def read_place(name: str) -> tuple[str, str] | None:
    """The group that a definition names, and FIRST, ON_CHAIN or "" for what follows it.

    None for the name of a plain cell.
    """
    found = _PLACE.fullmatch(name)
    return None if found is None else (found[1], found[5] or "")


def group_of(place: str) -> str:
    """The group that a place is in; a plain cell itself."""
    found = read_place(place)
    return place if found is None else found[0]


def lies_on_chain(place: str) -> bool:
    """Whether a standard queue with this place lies on a chain."""
    found = read_place(place)
    return found is not None and found[1] == ON_CHAIN


def first_placement(group: str, cells: Sequence[str], now_us: int) -> Placement:
    """The group's first members: neighbours in the list, so that every cell has some to decide.

    Raises ValueError where there are fewer cells than the factor.
    """
    factor, number = factor_of(group), number_of(group)
    if factor > len(cells):
        raise ValueError(f"{group} needs {factor} cells, not {len(cells)}")
    members = tuple(Member(cells[(number + at) % len(cells)]) for at in range(factor))
    return Placement(group, 1, members, now_us)
