"""Pages of a list: how long the caller wants them, and the token that leads to the next one.

A token is sealed (docs/storage.md, "Tokens"). It names the list it continues, so that it is refused
where the other parameters changed, and the last queue that was answered, so that queues which come
and go between two pages neither repeat nor hide others. It never expires.
"""

import json
from typing import Final

from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.limits import LIST_RESULTS_MAX
from data_plane.core.sealing import NotSealedHereError, TokenSeal
from data_plane.core.tokens import from_text, to_text
from data_plane.protocol.operation import Call

PURPOSE: Final = "lists"
_VERSION: Final = 1


def page_size(call: Call) -> int | None:
    """The caller's MaxResults, or None where it gives none.

    Raises RefusedError (InvalidParameterValue).
    """
    size: int | None = call.params.get("MaxResults")
    if size is not None and not 1 <= size <= LIST_RESULTS_MAX:
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            "Value for parameter MaxResults is invalid. "
            f"Reason: MaxResults must be an integer between 1 and {LIST_RESULTS_MAX}.",
        )
    return size


def next_token(seal: TokenSeal, call: Call, scope: str, last: str) -> str:
    """An opaque text that continues the caller's list `scope` after the queue `last`."""
    text = json.dumps([call.account, call.region, scope, last], separators=(",", ":"))
    return to_text(_VERSION, seal.seal(text.encode()))


def last_listed(seal: TokenSeal, call: Call, scope: str, *, malformed: str) -> str:
    """The queue after which the caller's NextToken continues the list `scope`; "" without one.

    Raises RefusedError (InvalidParameterValue) for a token of another list, and with the message
    `malformed` for what is no token.
    """
    token: str | None = call.params.get("NextToken")
    if not token:
        return ""
    try:
        plain = seal.unseal(from_text(_VERSION, token))
    except NotSealedHereError:
        raise RefusedError(INVALID_PARAMETER_VALUE, malformed) from None
    account, region, listed, last = json.loads(plain)
    if (account, region, listed) != (call.account, call.region, scope):
        raise RefusedError(
            INVALID_PARAMETER_VALUE,
            "Invalid NextToken value. If you are passing in NextToken, "
            "you must not change the other request parameters.",
        )
    return str(last)
