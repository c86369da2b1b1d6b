"""Consumers that are interrupted, or cannot start a thread, while they start."""

import _weakrefset
import threading
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from sdk.tests.scripted import ScriptedClient, beside
from sdk.tests.test_group_stop import LEAVE, HangingClient
from sdk.tests.test_producer_interrupted import Interrupted, interrupted_at
from sdk.tests.test_queue_consumer import URL, message
from tidegate_sdk import GroupConsumer, QueueConsumer
from tidegate_sdk.clock import Spawn, start_thread

Consumer = GroupConsumer | QueueConsumer


class _Queue(ScriptedClient):
    """One message, once."""

    def __init__(self) -> None:
        super().__init__()
        self._messages = [message("a")]
        done: dict[str, Any] = {"Successful": [], "Failed": []}
        self.lay_down("receive_message", self._receive)
        self.lay_down("delete_message_batch", done)
        self.lay_down("change_message_visibility_batch", done)

    def _receive(self, _params: Any) -> dict[str, Any]:
        received, self._messages = self._messages, []
        return {"Messages": received}


def of_queue(spawn: Spawn) -> tuple[Consumer, Callable[[], bool]]:
    """A consumer, which ends by its handler, and whether nothing is left that it took."""
    client = _Queue()
    made = QueueConsumer(client, URL, lambda _: made.stop(), workers=1, linger_s=0, spawn=spawn)

    def is_settled() -> bool:
        given_back = client.asked("change_message_visibility_batch")
        return bool(client._messages or client.asked("delete_message_batch") or given_back)

    return made, is_settled


def of_group(spawn: Spawn) -> tuple[Consumer, Callable[[], bool]]:
    """As above."""
    client = HangingClient()
    made = GroupConsumer(client, "readers", lambda _: made.stop(), workers=1, spawn=spawn)
    return made, lambda: not client.asked or LEAVE in client.asked


both = pytest.mark.parametrize("make", [of_queue, of_group], ids=["queue", "group"])
Make = Callable[[Spawn], tuple[Consumer, Callable[[], bool]]]


@both
def test_a_consumer_ends_whose_thread_cannot_be_started(make: Make) -> None:
    names: list[str] = []
    consumer, _ = make(lambda _target, name: names.append(name))
    consumer._start_all()
    for last in range(len(names)):
        begun = count()

        def spawn(
            target: Callable[[], None], name: str, begun: Any = begun, last: int = last
        ) -> Any:
            if next(begun) == last:
                raise RuntimeError("can't start new thread")
            return start_thread(target, name)

        consumer, is_settled = make(spawn)

        def run(consumer: Consumer = consumer) -> None:
            with pytest.raises(RuntimeError, match="can't start"):
                consumer.run(signals=())

        beside(run)
        assert is_settled()


def is_pythons_own(frame: Any) -> bool:
    """Whether this is within what Python does to start a thread, to wait, or to forget one."""
    while frame is not None:
        code = frame.f_code
        if code.co_filename == _weakrefset.__file__:
            return True
        if code.co_filename == threading.__file__ and code.co_name in {"start", "wait"}:
            return True
        frame = frame.f_back
    return False


@both
def test_a_consumer_ends_that_is_interrupted_at_any_moment(make: Make) -> None:
    def until_none_is() -> None:
        for moment in count():
            consumer, is_settled = make(start_thread)
            try:
                with interrupted_at(moment, is_spared=is_pythons_own):
                    consumer.run(signals=())
            except Interrupted:
                assert is_settled()
            else:
                return

    beside(until_none_is)
