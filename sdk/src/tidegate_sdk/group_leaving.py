"""How a member says that it leaves its group: some times, and nobody waits for it without end."""

import threading
from typing import Any, Final

from tidegate_sdk.clock import Backoff, Clock
from tidegate_sdk.consumer_log import ConsumerLog
from tidegate_sdk.failures import is_passing

_ATTEMPTS: Final = 3


class Leaving:
    """`changed` is the lock, told when it is over."""

    def __init__(
        self,
        client: Any,
        changed: threading.Condition,
        clock: Clock,
        backoff: Backoff,
        log: ConsumerLog,
    ) -> None:
        self._log = log
        self._client, self._changed, self._clock, self._backoff = client, changed, clock, backoff
        self._is_over = False

    def say(self, heartbeat: dict[str, Any]) -> None:
        """Send the heartbeat that says so; where that fails, the session ends by itself."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._client.tidegate_group_heartbeat(**heartbeat)
            except Exception as error:  # noqa: BLE001 - its session ends by itself
                self._log.warning("The group was not left: %s", error)
                if not is_passing(error):
                    break
                with self._changed:
                    self._clock.wait(self._changed, self._backoff.pause_s(attempt))
            else:
                break
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def wait(self, until_s: float) -> None:
        """Wait until it is said, or has failed, or until then."""
        with self._changed:
            while not self._is_over and (left_s := until_s - self._clock.now_s()) > 0:
                self._clock.wait(self._changed, left_s)
