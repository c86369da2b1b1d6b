"""Calls of a client that are repeated under the name of their first attempt.

botocore gives each call an id, and repeats it under that id a few times, within seconds. A server
of Tidegate stores what comes again under an id once (docs/streams.md). Here a program repeats a
call under the id itself, for as long as it likes.
"""

import re
import threading
import uuid
from typing import Any, Final

_here: Final = threading.local()
_ATTEMPT: Final = re.compile(r"\battempt=(\d+)")
_HANDLERS: Final = "tidegate-sdk-named-calls"


def new_name() -> str:
    """As botocore names its calls."""
    return str(uuid.uuid4())  # noqa: TID251 - no test depends on it


def let_name(client: Any, operation: str) -> None:
    """Let calls of this operation be named; once for a client is enough."""
    events = client.meta.events
    service = client.meta.service_model.service_id.hyphenize()
    events.register(f"before-call.{service}.{operation}", _name, unique_id=f"{_HANDLERS}-id")
    events.register(f"before-send.{service}.{operation}", _count, unique_id=f"{_HANDLERS}-attempt")


def call(method: Any, name: str, attempts_before: int, params: dict[str, Any]) -> Any:
    """Call a client's method under a name under which it was sent so often before."""
    _here.name, _here.attempts_before = name, attempts_before
    try:
        return method(**params)
    finally:
        _here.name = None


def _name(context: dict[str, Any], **_: object) -> None:
    name = getattr(_here, "name", None)
    if name is not None:
        context["retries"] = {"invocation-id": name}


def _count(request: Any, **_: object) -> None:
    """Number the attempt among all of the call's. The header is none of those that are signed."""
    if getattr(_here, "name", None) is None:
        return
    said = request.headers.get("amz-sdk-request", "")
    text = said.decode() if isinstance(said, bytes) else said
    request.headers["amz-sdk-request"] = _ATTEMPT.sub(
        lambda found: f"attempt={int(found[1]) + _here.attempts_before}", text
    )
