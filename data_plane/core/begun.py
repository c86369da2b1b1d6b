"""Whether a request has already cost its dependencies something, in its context.

Where there is more to do than a store sustains, what was begun is worth more than what was not:
half of a request is of no use to anybody. The front end marks where a request begins; a long poll
begins again with each look.
"""

from contextvars import ContextVar


class Progress:
    """How far one request has come."""

    __slots__ = ("begun",)

    def __init__(self) -> None:
        self.begun = False


_PROGRESS: ContextVar[Progress | None] = ContextVar("progress", default=None)


def start_progress() -> None:
    """A request begins, or a long poll looks again; everything within it shares what follows."""
    _PROGRESS.set(Progress())


def is_begun() -> bool:
    """Whether something was sent for the request; work that no request waits for is begun."""
    progress = _PROGRESS.get()
    return progress is None or progress.begun


def note_begun() -> None:
    """Something is sent for the request."""
    progress = _PROGRESS.get()
    if progress is not None:
        progress.begun = True
