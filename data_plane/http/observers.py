"""Those who hear of answers and acts. None of them can take back what has taken effect."""

from collections.abc import Callable, Mapping
from typing import Final

from data_plane.frontend.served import Served
from data_plane.http.tracebacks import traceback_text

RECORD: Final = "record"
"""The observer that notes acts of administration."""


class Observers:
    """Tells each of `served` of each answer; `record` is told of acts of administration.

    What one of them raises costs the others nothing, nor whoever asked: it is counted in `failures`
    by the observer's name, and told to `event`, which writes a line of the log.
    """

    def __init__(
        self,
        served: Mapping[str, Callable[[Served], None]],
        record: Callable[..., None],
        event: Callable[..., None],
    ) -> None:
        self._served = tuple(served.items())
        self._record = record
        self._event = event
        self.failures: dict[str, int] = {}

    def served(self, served: Served) -> None:
        """Tell of a request that was answered. Raises nothing."""
        for name, observe in self._served:
            try:
                observe(served)
            except Exception as error:  # noqa: BLE001 - counted and told, all of it
                self.failed(name, error)

    def record(self, event: str, **fields: object) -> None:
        """Tell of what somebody did to accounts or keys. Raises nothing."""
        try:
            self._record(event, **fields)
        except Exception as error:  # noqa: BLE001 - as above
            self.failed(RECORD, error)

    def failed(self, name: str, error: Exception) -> None:
        """Count that this observer failed, and say so. Raises nothing."""
        self.failures[name] = failures = self.failures.get(name, 0) + 1
        try:
            text = traceback_text(error)
            self._event(
                "error", "observer failed", observer=name, failures=failures, traceback=text
            )
        except Exception:  # noqa: BLE001, S110 - whoever would be told fails; the count stays
            pass
