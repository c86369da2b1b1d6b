"""Whose turn it is to drop, where that costs a request: one front end's at a time.

Nothing rests on it: two that drop the same do no harm, and pay twice. So clocks may decide.
"""

from typing import Final

from data_plane.core.conditions import Absent, Equals, LessThan
from data_plane.ports import Cell, Clock, Entropy, Key

TURN_US: Final = 30_000_000
"""For so long nobody goes on after a front end that was cut off."""

KEY: Final = Key("M|drop", b"\0")
_KEPT_S: Final = 86_400


class DropTurn:
    """One front end's part in it. `control` is the registry's cell."""

    def __init__(self, control: Cell, clock: Clock, entropy: Entropy) -> None:
        self._control = control
        self._clock = clock
        self._own = entropy.random_bytes(8)
        self._until_us = 0
        self._others_until_us = 0

    async def take(self) -> bool:
        """Take the turn, or keep it; False: it is another's. Raises CellUnavailableError.

        It costs a write in 15 s, and another front end one refused write in 30 s.
        """
        now_us = self._clock.now_us()
        if self._until_us - now_us > TURN_US // 2:
            return True
        if now_us < self._others_until_us <= now_us + TURN_US:
            return False
        until_us = now_us + TURN_US
        written = await self._control.put(
            KEY,
            {"v": 1, "w": self._own, "u": until_us, "x": until_us // 1_000_000 + _KEPT_S},
            ((Absent("w"), Equals("w", self._own), LessThan("u", now_us)),),
        )
        if written.applied:
            self._until_us = until_us
            return True
        self._until_us = 0
        theirs = (written.before or {}).get("u")
        # A clock that is far ahead keeps the turn until it is asked again.
        self._others_until_us = min(theirs, until_us) if isinstance(theirs, int) else 0
        return False
