"""The REST API's routes, as a Chalice application.

Chalice finds the route, and the door does the rest with the whole event: SQS says itself what is
wrong with a method, a content type or a path. So there is one route for every path and one for
none, both for all methods that API Gateway knows, and neither with content types.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from chalice.app import Chalice, Response

from control_plane.serverless.doors import Doors

NAME: Final = "tidegate"
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
PATHS: Final = ("/", "/{proxy+}")


class _Ready(Response):
    """A response that is a function's result already."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result["body"], result["headers"], result["statusCode"])
        self._result = result

    def to_dict(self, binary_types: list[str] | None = None) -> dict[str, Any]:  # noqa: ARG002
        # `chalice local` looks for headers of several values.
        return {"multiValueHeaders": {}, **self._result}


def rest_app(doors: Callable[[], Doors]) -> Chalice:
    """The application; `doors` opens them if need be."""
    app = Chalice(NAME, configure_logs=False, env={})
    # What Chalice takes for binary it wants to be asked for by an Accept header.
    app.api.binary_types = []
    # Lambda gives a sandbox one call at a time. `chalice local` has a thread for each.
    turn = Lock()

    def answer() -> Response:
        request = app.current_request
        event = request.to_original_event() if request else {}
        with turn:
            return _Ready(doors().answer_rest(event, app.lambda_context))

    for path in PATHS:
        app.route(path, methods=list(METHODS), content_types=[])(answer)
    return app
