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
"""Of a group that has not told its own: the default of Tidegate."""

_WAIT_S_MAX: Final = 20
"""Of a heartbeat."""


class Membership:
    """Joins, comes and leaves. `now_s` is when it begins; with an `instance_id` it may be back."""

    def __init__(self, group: str, instance_id: str | None, now_s: float) -> None:
        self.group = group
        self.id = ""
        self.session_s = _SESSION_S
        self._instance = {} if instance_id is None else {"InstanceId": instance_id}
        self._epoch = _JOINS
        self._came_s = now_s

    @property
    def interval_s(self) -> float:
        """Heartbeats come as often at least."""
        return self.session_s / _INTERVALS

    @property
    def session_end_s(self) -> float:
        """The group takes the member for dead then, if it does not hear from it."""
        return self._came_s + self.session_s

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
            "WaitTimeSeconds": max(1, min(_WAIT_S_MAX, int(self.interval_s))) if waits else 0,
        }

    def came(self, answer: Mapping[str, Any], sent_s: float) -> None:
        """The group has answered a heartbeat that was sent then."""
        self.id, self._epoch = answer["MemberId"], answer["MemberEpoch"]
        self.session_s = answer["HeartbeatIntervalMillis"] / 1_000 * _INTERVALS
        self._came_s = sent_s

    def is_gone(self) -> None:
        """The group does not know it any more."""
        self.id, self._epoch = "", _JOINS

    def leave(self) -> dict[str, Any] | None:
        """What says that it goes, after which it is none any more; None: it is none."""
        member_id = self.id
        self.is_gone()
        if not member_id:
            return None
        epoch = _LEAVES_FOR_NOW if self._instance else _LEAVES
        return {"GroupName": self.group, "MemberEpoch": epoch, "MemberId": member_id}
