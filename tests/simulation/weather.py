"""Which faults there are in a universe, and how often; the seed chooses."""

from dataclasses import dataclass, fields, replace
from random import Random


@dataclass(slots=True)
class Weather:
    """Chances of faults for each request to a cell, and for each answer to a client.

    `slow`: the way takes up to 4 s, so that appends to cells that choose no stamps come late.
    `retried`: what serves the way sends the request once more, and has only the second reply.
    `stalled`: the front end stands still between its decision and the sending of the request.
    """

    lost_request: float = 0.0
    lost_reply: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    throttle: float = 0.0
    full: float = 0.0
    crash: float = 0.0
    lost_answer: float = 0.0
    slow: float = 0.0
    retried: float = 0.0
    stalled: float = 0.0

    def calm_down(self) -> None:
        """No faults from now on."""
        for field in fields(self):
            setattr(self, field.name, 0.0)

    def change_to(self, other: "Weather") -> None:
        """Take over another weather's chances."""
        for field in fields(self):
            setattr(self, field.name, getattr(other, field.name))


SEVEREST = Weather(
    lost_request=0.06,
    lost_reply=0.08,
    duplicate=0.06,
    delay=0.05,
    throttle=0.08,
    full=0.02,
    crash=0.012,
    lost_answer=0.12,
)
EVENTS = ("outage", "partition", "freeze", "jump", "restart", "expiry")
"""Faults that strike at a moment, not by the request."""


@dataclass(frozen=True, slots=True)
class Climate:
    """The weather of a universe's main phase, and what strikes in it how often.

    `together_max` is how many events may strike at one moment: correlated faults.
    """

    weather: Weather
    events: tuple[str, ...]
    between_events_us: int
    together_max: int

    @property
    def calm(self) -> bool:
        """Whether nothing goes wrong in it."""
        return self.weather == Weather() and not self.events


def choose_climate(random: Random) -> Climate:
    """Nothing, a single kind of fault, some, or everything at once."""
    names = [field.name for field in fields(SEVEREST) if getattr(SEVEREST, field.name)]
    kinds = [*names, *EVENTS]
    wanted = random.choice((0, 1, 1, 2, 3, 5, len(kinds), len(kinds)))
    chosen = set(random.sample(kinds, wanted))
    strength = random.choice((0.3, 1.0, 1.0, 2.0))
    chances = {
        name: getattr(SEVEREST, name) * strength if name in chosen else 0.0 for name in names
    }
    return Climate(
        weather=replace(Weather(), **chances),
        events=tuple(event for event in EVENTS if event in chosen),
        between_events_us=random.choice((5_000_000, 20_000_000, 60_000_000)),
        together_max=random.choice((1, 2, 4)),
    )
