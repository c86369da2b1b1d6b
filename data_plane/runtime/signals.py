"""Which channels were signalled since when: what drivers remember of signals.

Signals are told apart by one sequence over all channels: a mark says how far it was, and a channel
was signalled since then if its last signal has a higher number. So a channel needs memory only
while its last signal is among the recent ones; of those that were forgotten it is only known that
they had no signal after a certain number.
"""

from collections.abc import Hashable

_REMEMBERED_SIGNALS_MAX = 16_384


class SignalLog:
    """The last signals of the channels that were signalled last."""

    __slots__ = ("_forgotten_until", "_last", "mark")

    def __init__(self) -> None:
        self.mark = 0
        self._last: dict[Hashable, int] = {}
        self._forgotten_until = 0

    def note(self, channel: Hashable) -> None:
        """The channel is signalled now."""
        self.mark += 1
        last = self._last
        last.pop(channel, None)
        last[channel] = self.mark
        if len(last) > _REMEMBERED_SIGNALS_MAX:
            self._forgotten_until = last.pop(next(iter(last)))

    def has_passed(self, channel: Hashable, mark: int) -> bool:
        """Whether the channel was signalled after this mark; True also where that is forgotten."""
        return self._last.get(channel, self._forgotten_until) > mark
