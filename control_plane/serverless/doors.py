"""The doors of the service in Lambda: a REST API of API Gateway, and the URL of a function.

A sandbox has one invocation at a time, and the next one finds in memory what this one left. Nothing
runs between two of them, so all that an answer causes is done before it is handed over.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from msgspec.structs import replace

from control_plane.serverless import events
from control_plane.serverless.clock import InvocationClock
from control_plane.serverless.events import Event
from data_plane.core.deadline import deadline
from data_plane.protocol.http import HttpRequest, HttpResponse

_US_PER_MS: Final = 1_000
STOP_US: Final = 3_500_000
"""No work begins when Lambda will end the invocation so soon: a request to a store may take up to
3 s when its time is over, and the answer has to get out."""

Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]
Close = Callable[[], Awaitable[None]]


class Invocation(Protocol):
    """What of Lambda's context is used here."""

    def get_remaining_time_in_millis(self) -> float:
        """Until Lambda ends the invocation."""
        ...


class Doors:
    """Answers the events of both doors.

    `run` drives a coroutine to its end; `close` does what must not be left to the next invocation.
    """

    def __init__(
        self,
        answer: Answer,
        close: Close,
        clock: InvocationClock,
        run: Callable[[Any], HttpResponse],
    ) -> None:
        self._answer = answer
        self._close = close
        self._clock = clock
        self._run = run

    def answer_rest(self, event: Event, context: Invocation | None) -> dict[str, Any]:
        """The result for an event of a REST API."""
        return self._result(events.rest_request(event), events.rest_time_us(event), context)

    def answer_url(self, event: Event, context: Invocation | None) -> dict[str, Any]:
        """The result for an event of a function URL."""
        return self._result(events.url_request(event), events.url_time_us(event), context)

    def _result(
        self, request: HttpRequest, event_us: int, context: Invocation | None
    ) -> dict[str, Any]:
        now_us = self._clock.begin(event_us)
        if context is not None:
            left_us = int(context.get_remaining_time_in_millis() * _US_PER_MS)
            request = replace(request, until_us=now_us + left_us - STOP_US)
        return events.result(self._run(self._answered(request)))

    async def _answered(self, request: HttpRequest) -> HttpResponse:
        with deadline(request.until_us):  # also of what is done before, and behind the answer
            response = await self._answer(request)
            await self._close()
        return response
