"""What the cluster manager may do: values that a plan lists and acts carry out.

Each names what it was planned upon (an epoch, a state, a generation), and does nothing where that
has changed meanwhile. So it may be repeated, done twice at once, and be late.
"""

from collections.abc import Mapping
from typing import Any

import msgspec


class _Action(msgspec.Struct, frozen=True, tag_field="act"):
    pass


class TakeOut(_Action, frozen=True, tag="take_out"):
    """Fail over: groups lose their member in a cell that is down; `groups` has their epochs."""

    cell: str
    groups: dict[str, int]


class Admit(_Action, frozen=True, tag="admit"):
    """A cell begins to join a group."""

    group: str
    epoch: int
    cell: str


class Complete(_Action, frozen=True, tag="complete"):
    """Copy everything to the joining member, then let it serve."""

    group: str
    epoch: int
    cell: str


class Release(_Action, frozen=True, tag="release"):
    """A group gives up a member that it can do without: a surplus one, or one that was joining.

    It is `forced` where less than half of the copies stay, of a group without queues.
    """

    group: str
    epoch: int
    cell: str
    forced: bool = False


class ChangeCell(_Action, frozen=True, tag="change_cell"):
    """A cell gets another state: it is full, or has room again."""

    cell: str
    state: str
    to: str


class Split(_Action, frozen=True, tag="split"):
    """A FIFO queue's messages go to twice as many partitions from now on."""

    account: str
    region: str
    name: str
    uid: str
    generation: int


class Retire(_Action, frozen=True, tag="retire"):
    """A FIFO queue forgets its generations up to `through`, whose messages have all expired."""

    account: str
    region: str
    name: str
    uid: str
    through: int


class Reconcile(_Action, frozen=True, tag="reconcile"):
    """All copies of standard queues get to know what was done to the first ones from then on.

    `front_ends` did it and are gone, without telling: the last heartbeat of each.
    """

    front_ends: dict[str, int]
    since_us: int


Action = TakeOut | Admit | Complete | Release | ChangeCell | Split | Retire | Reconcile


def action_of(members: Mapping[str, Any]) -> Action:
    """The action that `to_json` made these members of. Raises msgspec.ValidationError."""
    action: Action = msgspec.convert(members, Action)
    return action
