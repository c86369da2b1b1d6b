"""The functions of a deployment in AWS Lambda: a name here for the handler of each.

`app` answers API Gateway (REST, payload 1.0), `url` a function URL (payload 2.0), `task` the state
machines, `stream` the stream of the cell's table, `usage` a subscription to the doors' logs. Each
imports only its own part, since that is what a start costs.

`chalice package` takes all five into one package, with the REST API before `app`; `chalice local`
serves `app`. What Chalice has no word for is in `infra/`, which CDK deploys: table, buckets and
master key; the URL before `url`; the state machines and schedules that call `task`; the event
source of `stream` and the subscription of `usage`, with queues for what they cannot handle; rights
for each function alone; an asset of its own for `usage`, so that the others stay small; throttles,
logs that end, alarms, names, jobs.
"""

import os
from typing import Any

from control_plane.serverless.rest import rest_app
from control_plane.serverless.sandbox import Sandbox

sandbox = Sandbox(os.environ)

app = rest_app(lambda: sandbox.doors)


@app.lambda_function(name="url")
def url(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer a request to the function's URL."""
    return sandbox.doors.answer_url(event, context)


@app.lambda_function(name="task")
def task(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Do the task that the state machine names: `{"task": "<name>", ...}`."""
    from control_plane.serverless import tasks  # noqa: PLC0415 - for this function alone

    opened = sandbox.opened
    opened.clock.begin()
    remaining_us = context.get_remaining_time_in_millis() * 1000
    return opened.run(tasks.perform_on(opened, event, remaining_us))


@app.lambda_function(name="stream")
def stream(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Handle records of the stream of a cell's table."""
    from control_plane.serverless import stream as records  # noqa: PLC0415 - as above

    opened = sandbox.opened
    opened.clock.begin()
    return opened.run(records.handle(event, opened.ground))


@app.lambda_function(name="usage")
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
