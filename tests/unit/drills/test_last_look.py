"""What is lost is told from what is hidden by a look that began when no lease could hide it."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.drills import audit

BEGAN_S = 100.0
NEVER_S = 1e9


@dataclass
class Slow:
    """A machine on which a look takes so long; it finds what was visible when it began."""

    look_s: float
    hidden_until_s: float
    now_s: float = BEGAN_S
    looks_s: list[float] = field(default_factory=list)
    ended: list[list[int]] = field(default_factory=list)

    def time(self) -> float:
        return self.now_s

    monotonic = time

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def receive_all(self, _client: object) -> dict[int, str]:
        self.looks_s.append(self.now_s)
        self.now_s += self.look_s
        return {}

    def lost(self) -> list[int]:
        found = any(began_s >= self.hidden_until_s for began_s in self.looks_s)
        return [] if found else [1]

    def end(self, _now_s: float) -> None:
        self.ended.append(self.lost())

    def last_look(self, monkeypatch: pytest.MonkeyPatch) -> None:
        client = SimpleNamespace(caller=nullcontext(), lost=False)
        monkeypatch.setattr(audit, "time", self)
        monkeypatch.setattr(audit, "Client", lambda *_: client)
        monkeypatch.setattr(audit, "_receive_all", self.receive_all)
        subject: Any = SimpleNamespace(ledger=self)
        audit.last_look(subject, "seed")


@pytest.mark.parametrize("look_s", [0.1, 15.0, 60.0])
def test_a_message_is_looked_for_after_its_lease_however_long_a_look_takes(
    monkeypatch: pytest.MonkeyPatch, look_s: float
) -> None:
    machine = Slow(look_s, hidden_until_s=BEGAN_S + audit.VISIBILITY_S)
    machine.last_look(monkeypatch)
    assert machine.ended == [[]]


def test_what_is_nowhere_is_looked_for_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Slow(1.0, hidden_until_s=NEVER_S)
    machine.last_look(monkeypatch)
    assert machine.ended == [[1]]
    assert machine.now_s < BEGAN_S + 2 * audit.VISIBILITY_S
