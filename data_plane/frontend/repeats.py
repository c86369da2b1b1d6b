"""The stage that tells a repeated call of an SDK from a new one.

AWS SDKs repeat a call with the same `amz-sdk-invocation-id` and a higher `attempt` in
`amz-sdk-request` (`attempt=2; max=6`). Headers that say neither make the call a first attempt.
"""

from functools import lru_cache
from typing import Final

from data_plane.frontend.exchange import Exchange

_INVOCATION_ID_CHARS_MAX: Final = 128
_ATTEMPT_DIGITS_MAX: Final = 4


def recognise_repeats(exchange: Exchange) -> None:
    """Read the SDK's retry headers."""
    headers = exchange.request.headers
    invocation_id = headers.get("amz-sdk-invocation-id", "")
    if not invocation_id.isascii() or not 0 < len(invocation_id) <= _INVOCATION_ID_CHARS_MAX:
        return
    exchange.invocation_id = invocation_id
    exchange.attempt = _attempt(headers.get("amz-sdk-request", "")) or exchange.attempt


@lru_cache(maxsize=64)
def _attempt(sdk_request: str) -> int:
    """Which attempt of its call the header says that it is; 0: it does not."""
    attempt = 0
    for part in sdk_request.split(";"):
        name, _, value = part.strip().partition("=")
        if (
            name == "attempt"
            and value.isascii()
            and value.isdigit()
            and len(value) <= _ATTEMPT_DIGITS_MAX
        ):
            attempt = int(value)
    return attempt
