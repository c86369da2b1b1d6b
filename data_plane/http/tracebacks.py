"""Where an exception came from, without what it says: that may quote a request or a message."""

import traceback
from errno import errorcode
from typing import Final

_FRAMES_MAX: Final = 40
_CAUSES_MAX: Final = 8


def traceback_text(error: BaseException) -> str:
    """Frames and types of an exception and of those it came from, the latest one last.

    No message, since `int("...")` and a missing key tell the value; of an OSError its error number.
    """
    parts: list[str] = []
    one: BaseException | None = error
    while one is not None and len(parts) < _CAUSES_MAX:
        frames = traceback.extract_tb(one.__traceback__, limit=-_FRAMES_MAX)
        parts.append("".join(traceback.format_list(frames)) + _name(one))
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return "\n".join(reversed(parts))


def _name(error: BaseException) -> str:
    name = type(error).__qualname__
    if isinstance(error, OSError) and error.errno is not None:
        return f"{name} ({errorcode.get(error.errno, error.errno)})"
    return name
