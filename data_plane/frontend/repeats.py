"""The stage that tells a repeated call of an SDK from a new one.

AWS SDKs repeat a call with the same `amz-sdk-invocation-id` and a higher `attempt` in
`amz-sdk-request` (`attempt=2; max=6`). Headers that say neither make the call a first attempt.
"""

from typing import Final

from data_plane.frontend.exchange import Exchange

_INVOCATION_ID_CHARS_MAX: Final = 128
_ATTEMPT_DIGITS_MAX: Final = 4


async def recognise_repeats(exchange: Exchange) -> None:
    """Read the SDK's retry headers."""
    headers = exchange.request.headers
    invocation_id = headers.get("amz-sdk-invocation-id", "")
    if not invocation_id.isascii() or not 0 < len(invocation_id) <= _INVOCATION_ID_CHARS_MAX:
        return
    exchange.invocation_id = invocation_id
    for part in headers.get("amz-sdk-request", "").split(";"):
        name, _, value = part.strip().partition("=")
        if (
            name == "attempt"
            and value.isascii()
            and value.isdigit()
            and len(value) <= _ATTEMPT_DIGITS_MAX
        ):
            exchange.attempt = int(value)
