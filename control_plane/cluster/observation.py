"""What the cluster manager sees at one moment: registry, heartbeats, probes; and its options.

A value, and JSON between two states of the state machine. Times are microseconds since the epoch.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from control_plane.places.items import ACTIVE
from data_plane.replication.placement import Member


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator decides about the manager.

    A cell counts as down when it has failed for `down_after_us`, and gets members when it has
    answered for `back_after_us`. Front ends whose heartbeat is older than `heartbeat_us_max` have
    no say; after `gone_us` they count as gone, with what they told nobody. Groups lose members of
    one cell alone within `safe_us`. A joining member is copied to `grace_us` after its epoch began,
    when no front end knows an older map. At most `joins_max` groups have a joining member at a
    time. A cell with `hot_ratio` times the mean load, and at least
    `hot_requests_per_s`, is too hot. A partition is split at `split_appends_per_s`.
    """

    down_after_us: int = 2_000_000
    back_after_us: int = 10_000_000
    heartbeat_us_max: int = 10_000_000
    gone_us: int = 30_000_000
    observation_us_max: int = 120_000_000
    safe_us: int = 60_000_000
    grace_us: int = 600_000_000
    joins_max: int = 16
    hot_ratio: float = 2.0
    hot_requests_per_s: float = 500.0
    split_appends_per_s: float = 20.0
    split_period_us: int = 600_000_000


class Group(msgspec.Struct, frozen=True):
    """A placement group as the registry has it: `factor` full members are wanted.

    `empty`: it is known to have no queue, so that there is nothing to copy. To the `chosen` cells
    an operator wants it moved.
    """

    name: str
    epoch: int
    members: tuple[Member, ...]
    since_us: int
    factor: int
    empty: bool = False
    chosen: tuple[str, ...] = ()

    @property
    def full_cells(self) -> tuple[str, ...]:
        """Cells that serve, in order: the first one decides."""
        return tuple(member.cell for member in self.members if member.full)

    @property
    def joining(self) -> Member | None:
        """The member that is being copied to."""
        return next((member for member in self.members if not member.full), None)

    def has(self, cell: str) -> bool:
        """Whether the cell is a member, joining or full."""
        return any(member.cell == cell for member in self.members)


class CellRecord(msgspec.Struct, frozen=True):
    """A cell as the registry has it."""

    name: str
    state: str = ACTIVE
    since_us: int = 0


class Report(msgspec.Struct, frozen=True):
    """What one observer sees of one cell.

    `failing_since_us` is None while it answers, which it has done since `answering_since_us`. One
    that is `full` has refused data.
    """

    cell: str
    failing_since_us: int | None = None
    answering_since_us: int = 0
    full: bool = False
    requests_per_s: float = 0.0


class FrontEnd(msgspec.Struct, frozen=True):
    """A front end's last heartbeat. What it did before `told_us` all copies know."""

    name: str
    heartbeat_us: int
    reports: tuple[Report, ...] = ()
    told_us: int | None = None


class Logs(msgspec.Struct, frozen=True):
    """A FIFO queue's logs: `generation` is the last one, begun at `since_us`.

    `may_split`: more partitions keep what the queue promises. Generations up to `drained_through`
    hold nothing that has not expired.
    """

    account: str
    region: str
    name: str
    uid: str
    generation: int
    partitions: int
    since_us: int
    appends_per_s: float = 0.0
    may_split: bool = False
    drained_through: int | None = None


class Removal(msgspec.Struct, frozen=True):
    """The cell that groups lost last because it failed, and when: this fences two managers."""

    cell: str
    at_us: int


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a plan is made of; `probes` are the manager's own."""

    at_us: int
    cells: tuple[CellRecord, ...] = ()
    groups: tuple[Group, ...] = ()
    probes: tuple[Report, ...] = ()
    front_ends: tuple[FrontEnd, ...] = ()
    removal: Removal | None = None
    logs: tuple[Logs, ...] = ()


def is_heard(heartbeat_us: int, now_us: int, options: Options) -> bool:
    """Whether a heartbeat is of this moment. One of the future says nothing of the present."""
    return abs(now_us - heartbeat_us) <= options.heartbeat_us_max


def to_json(value: msgspec.Struct) -> Any:
    """As the state machine carries it."""
    return msgspec.to_builtins(value)


def observation_of(members: Mapping[str, Any]) -> Observation:
    """The observation that `to_json` made these members of. Raises msgspec.ValidationError."""
    return msgspec.convert(members, Observation)
