"""Long polls in threads, and the waits of which they consist."""

import threading
from collections.abc import Callable, Hashable
from typing import Any, Final

from tests.conformance.in_process import InProcessServer

LIMIT_S: Final = 120
"""For what takes moments, or some seconds."""

WAIT_S: Final = 20
LOOKS_MAX: Final = 3
"""A poll looks once a second: what is there it finds by one of the next looks, and not at its end,
which is twenty looks away."""


class Waits:
    """The waits that polls at this front end have begun: each has looked before, and found nothing.

    `begun` is how many.
    """

    def __init__(self, server: InProcessServer) -> None:
        self.begun = 0
        self._changed = threading.Condition()
        waits = server.ground.waits
        wait_for = waits.wait_for

        async def note_and_wait(channel: Hashable, seen: int, until_us: int) -> bool:
            with self._changed:
                self.begun += 1
                self._changed.notify_all()
            return await wait_for(channel, seen, until_us)

        waits.wait_for = note_and_wait  # type: ignore[method-assign]

    def reach(self, count: int) -> None:
        """Return when so many have begun."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.begun >= count, LIMIT_S)


def begin(call: Callable[[], Any]) -> Callable[[], Any]:
    """Call in a thread; what is returned waits for the answer."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(call()))
    thread.start()

    def answer() -> Any:
        thread.join(LIMIT_S)
        return answers[0]

    return answer


def end_of_poll(server: InProcessServer, poll: Callable[[], Any], act: Callable[[], object]) -> Any:
    """The answer of a poll of `WAIT_S` that ends by what is done while it waits."""
    waits = Waits(server)
    answer = begin(poll)
    waits.reach(1)
    act()
    before = waits.begun
    answered = answer()
    assert waits.begun <= before + LOOKS_MAX, "it went on to its end"
    return answered
