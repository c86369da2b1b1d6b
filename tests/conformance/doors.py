"""Front ends behind the doors of Lambda: what comes and goes is an event and its result."""

from collections.abc import Callable
from typing import Any

from control_plane.serverless.clock import InvocationClock
from control_plane.serverless.closing import Closing
from control_plane.serverless.doors import Doors
from data_plane.protocol.http import HttpRequest, HttpResponse
from tests.conformance.door_events import carried, response_of, rest_event, url_event

_REMAINING_MS = 60_000


class Context:
    """Lambda's context of an invocation."""

    def __init__(self, remaining_ms: int = _REMAINING_MS) -> None:
        self.remaining_ms = remaining_ms

    def get_remaining_time_in_millis(self) -> int:
        return self.remaining_ms


Door = Callable[[HttpRequest], HttpResponse]


def rest_door(server: Any, prefix: str = "") -> Door:
    """API Gateway before the server's front end, its stage or base path being `prefix`."""
    from control_plane.serverless.rest import rest_app  # noqa: PLC0415 - Chalice for it alone

    doors = _doors(server)
    app = rest_app(lambda: doors)

    def answer(request: HttpRequest) -> HttpResponse:
        event = rest_event(request, prefix=prefix, time_ms=server.clock.now_us() // 1000)
        return response_of(carried(app(carried(event), Context())))

    return answer


def url_door(server: Any) -> Door:
    """A function URL before the server's front end."""
    doors = _doors(server)

    def answer(request: HttpRequest) -> HttpResponse:
        event = url_event(request, time_ms=server.clock.now_us() // 1000)
        return response_of(carried(doors.answer_url(carried(event), Context())))

    return answer


def _doors(server: Any) -> Doors:
    clock = InvocationClock(server.clock, server.clock.now_us)
    closing = Closing(server.engine, server.ground.cells, server.ground.bodies, clock)
    return Doors(server.front_end.answer, closing.close, clock, server.run)
