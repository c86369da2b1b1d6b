"""The functions of a deployment in AWS Lambda: a name here for the handler of each.

`app` answers API Gateway (REST, payload 1.0), `url` a function URL (payload 2.0), `task` the state
machine, `stream` the streams of the cells' tables, `usage` a subscription to the doors' logs. All
of them have the same asset; each imports only its own part, since that is what a start costs.
"""

import os
from typing import Any

from control_plane.serverless.rest import rest_app
from control_plane.serverless.sandbox import Sandbox

sandbox = Sandbox(os.environ)

app = rest_app(lambda: sandbox.doors)


def url(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer a request to the function's URL."""
    return sandbox.doors.answer_url(event, context)


def task(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Do the task that the state machine names: `{"task": "<name>", ...}`."""
    from control_plane.serverless import tasks  # noqa: PLC0415 - for this function alone

    opened = sandbox.opened
    opened.clock.begin()
    remaining_us = context.get_remaining_time_in_millis() * 1000
    return opened.run(tasks.perform_on(opened, event, remaining_us))


def stream(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle records of the stream of a cell's table."""
    from control_plane.serverless import stream as records  # noqa: PLC0415 - as above

    opened = sandbox.opened
    opened.clock.begin()
    return opened.run(records.handle(event, opened.ground))


def usage(event: dict[str, Any], _context: Any) -> dict[str, int]:
    """Store what the doors served, as their logs tell it, in the place of usage records."""
    return sandbox.usage_place.store(event)


# While a sandbox starts it has the most CPU, and wrong settings end it there and then. Lambda names
# the function's handler; who imports this module otherwise opens nothing by that.
match os.environ.get("_HANDLER"):
    case "app.app" | "app.url":
        sandbox.doors  # noqa: B018 - opens them
    case "app.task" | "app.stream":
        sandbox.opened  # noqa: B018 - likewise
    case "app.usage":
        sandbox.usage_place  # noqa: B018 - likewise
