"""Every request has a deadline, which whatever works on it finds without being told."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from data_plane.core.deadline import deadline_us
from data_plane.ports import DeadlinePassedError
from data_plane.runtime.guard import CircuitOpenError
from tests.unit.data_plane.wire import NOW_US, URL, FakeBag, Server, json_request

SEND = {"QueueUrl": URL, "MessageBody": "hello"}


@dataclass
class WatchingBag(FakeBag):
    """Notes how many seconds are left when it is called."""

    left_s: list[float] = field(default_factory=list)

    def note(self) -> None:
        until_us = deadline_us()
        assert until_us is not None
        self.left_s.append((until_us - NOW_US) / 1_000_000)

    async def send(self, *of: Any, **named: Any) -> Any:
        self.note()
        return await super().send(*of, **named)

    async def receive(self, *of: Any, **named: Any) -> Any:
        self.note()
        return await super().receive(*of, **named)


@pytest.mark.parametrize(
    ("action", "params", "left_s"),
    [
        ("SendMessage", SEND, 15),
        ("ReceiveMessage", {"QueueUrl": URL}, 20),  # the queue says 5
        ("ReceiveMessage", {"QueueUrl": URL, "WaitTimeSeconds": 20}, 35),
        ("ReceiveMessage", {"QueueUrl": URL, "WaitTimeSeconds": 0}, 15),
    ],
)
def test_a_request_has_fifteen_seconds_and_what_it_waits_for(
    action: str, params: dict[str, Any], left_s: float
) -> None:
    bag = WatchingBag()
    assert Server(bag=bag).json(action, params)[0] == 200
    assert bag.left_s == [left_s]
    assert deadline_us() is None, "and the next one begins without"


@pytest.mark.parametrize("error", [DeadlinePassedError("late"), CircuitOpenError("open")])
def test_what_is_given_up_is_answered_503_and_when_to_come_again(error: Exception) -> None:
    bag = FakeBag(broken=error)
    response = Server(bag=bag).answer(json_request("SendMessage", SEND))
    assert response.status == 503
    assert dict(response.headers)["retry-after"] == "1"
    assert b"ServiceUnavailable" in response.body
    assert bag.messages == []
