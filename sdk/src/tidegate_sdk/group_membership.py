"""What a member of a consumer group knows of itself: who it is, and until when it is one.

Nothing here does I/O or looks at a clock.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

_JOINS, _LEAVES, _LEAVES_FOR_NOW = 0, -1, -2
"""Epochs of heartbeats that say so."""

_INTERVALS: Final = 3
"""A session has so many intervals of heartbeats."""

_SESSION_S: Final = 10.0
_REBALANCE_S: Final = 60.0
"""Of a group that has not told its own: the defaults of Tidegate."""


class Membership:
    """Joins, comes and leaves. `now_s` is when it begins; with an `instance_id` it may be back.

    Heartbeats wait for `wait_s_max` at most.
    """

    def __init__(self, group: str, instance_id: str | None, now_s: float, wait_s_max: int) -> None:
        self.group = group
        self.id = ""
        self.session_s = _SESSION_S
        self.rebalance_s = _REBALANCE_S
        """Within this a shard that is taken away is to be given up."""
        self._instance = {} if instance_id is None else {"InstanceId": instance_id}
        self._epoch = _JOINS
        self._came_s = now_s
        self._wait_s_max = wait_s_max

    @property
    def interval_s(self) -> float:
        """Heartbeats come as often at least."""
        return self.session_s / _INTERVALS

    @property
    def session_end_s(self) -> float:
        """The group takes the member for dead then, if it does not hear from it."""
        return self._came_s + self.session_s

    @property
    def may_wait(self) -> bool:
        """Whether a heartbeat may wait at the server at all."""
        return self._wait_s_max > 0

    @property
    def is_to_join(self) -> bool:
        """Whether it is no member yet, or not any more."""
        return self._epoch == _JOINS

    def heartbeat(
        self, owned: Sequence[Mapping[str, Any]], now_s: float, *, waits: bool
    ) -> dict[str, Any]:
        """The next one, sent now; it may wait for a change. A join has a session to be answered."""
        if self.is_to_join:
            self._came_s = now_s
            return {"GroupName": self.group, "MemberEpoch": _JOINS, **self._instance}
        return {
            "GroupName": self.group,
            "MemberEpoch": self._epoch,
            "MemberId": self.id,
            "OwnedShards": owned,
            "WaitTimeSeconds": min(self._wait_s_max, max(1, int(self.interval_s))) if waits else 0,
        }

    def came(self, answer: Mapping[str, Any], sent_s: float) -> None:
        """The group has answered a heartbeat that was sent then."""
        self.id, self._epoch = answer["MemberId"], answer["MemberEpoch"]
        self.session_s = answer["HeartbeatIntervalMillis"] / 1_000 * _INTERVALS
        self.rebalance_s = answer.get("RebalanceTimeoutSeconds", self.rebalance_s)
        self._came_s = sent_s

    def is_gone(self) -> None:
        """The group does not know it any more."""
        self.id, self._epoch = "", _JOINS

    def leave(self) -> dict[str, Any] | None:
        """What says that it goes; None: it is no member."""
        if not self.id:
            return None
        epoch = _LEAVES_FOR_NOW if self._instance else _LEAVES
        return {"GroupName": self.group, "MemberEpoch": epoch, "MemberId": self.id}
