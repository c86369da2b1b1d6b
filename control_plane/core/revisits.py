"""When to look at something again that may not have changed: the later the longer it has rested."""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

REST_SHARE: Final = 10
"""What has rested for an hour is looked at every six minutes."""

REST_US_MAX: Final = 1_800_000_000
"""What rests is looked at every half hour: 1,440 times a month."""

NAMES_MAX: Final = 20_000


class Revisits(Generic[K]):
    """When each was looked at last, of NAMES_MAX at most."""

    def __init__(self) -> None:
        self._seen_us: dict[K, int] = {}

    def take(self, name: K, used_us: int, now_us: int) -> bool:
        """Whether it is time for a look, which is then taken.

        It is after a tenth of the time since it was used (0: never), and half an hour at most; at
        once where it was used since the last look, or the clock was set back.
        """
        seen_us = self._seen_us.get(name)
        if seen_us is not None and used_us <= seen_us <= now_us:
            rest_us = min(REST_US_MAX, (now_us - used_us) // REST_SHARE)
            if now_us - seen_us < rest_us:
                return False
        self._seen_us.pop(name, None)
        if len(self._seen_us) >= NAMES_MAX:
            del self._seen_us[next(iter(self._seen_us))]
        self._seen_us[name] = now_us
        return True

    def missed(self, name: K) -> None:
        """The look has failed: it is due again."""
        self._seen_us.pop(name, None)
