from typing import Any

from data_plane.frontend.served import Served
from data_plane.http.observers import Observers
from tests.unit.data_plane.http.test_metrics import served


class Heard:
    def __init__(self) -> None:
        self.answers: list[str] = []
        self.acts: list[str] = []
        self.events: list[tuple[str, str, dict[str, Any]]] = []

    def answer(self, one: Served) -> None:
        self.answers.append(one.operation)

    def act(self, event: str, **_fields: object) -> None:
        self.acts.append(event)

    def event(self, level: str, event: str, **fields: object) -> None:
        self.events.append((level, event, fields))


def broken(*_: object, **__: object) -> None:
    raise ArithmeticError("a secret")


def test_one_that_fails_is_counted_and_told_and_the_others_hear_of_the_answer() -> None:
    heard = Heard()
    observers = Observers({"metrics": broken, "usage": heard.answer}, heard.act, heard.event)
    for _ in range(2):
        observers.served(served("SendMessage"))
    assert heard.answers == ["SendMessage"] * 2
    assert observers.failures == {"metrics": 2}
    level, event, fields = heard.events[1]
    assert (level, event) == ("error", "observer failed")
    assert (fields["observer"], fields["failures"]) == ("metrics", 2)
    assert fields["traceback"].endswith("ArithmeticError")


def test_an_act_that_cannot_be_noted_is_counted_and_told() -> None:
    heard = Heard()
    Observers({}, heard.act, heard.event).record("administration", act="CreateUser")
    assert (heard.acts, heard.events) == (["administration"], [])
    observers = Observers({}, broken, heard.event)
    observers.record("administration", act="CreateUser")
    assert observers.failures == {"record": 1}
    assert [fields["observer"] for _, _, fields in heard.events] == ["record"]


def test_where_nothing_can_be_told_the_count_stays() -> None:
    observers = Observers({"log": broken}, broken, broken)
    observers.served(served("SendMessage"))
    observers.record("administration")
    assert observers.failures == {"log": 1, "record": 1}
