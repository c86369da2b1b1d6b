"""What an operator can set about the front end."""

from dataclasses import dataclass

from data_plane.core.limits import (
    BODY_BYTES_MAX,
    CALLS_MAX_DEFAULT,
    LONG_POLLS_MAX_DEFAULT,
    RECEIVE_WAIT_S_MAX,
)


@dataclass(frozen=True, slots=True)
class FrontEndSettings:
    """Settings of the front end.

    The defaults name callers whose credentials name no account or region. `base_url` replaces the
    scheme and host of queue URLs ("": those the caller used). At most `calls_max` calls and
    `long_polls_max` long polls are served at a time, each for `request_deadline_s` at most with
    what it does, and for as long as it waits for messages: `long_poll_s_max` at most.
    """

    default_account: str = "000000000000"
    default_region: str = "us-east-1"
    base_url: str = ""
    body_bytes_max: int = BODY_BYTES_MAX
    retry_after_s: int = 1
    calls_max: int = CALLS_MAX_DEFAULT
    long_polls_max: int = LONG_POLLS_MAX_DEFAULT
    request_deadline_s: float = 15.0
    long_poll_s_max: int = RECEIVE_WAIT_S_MAX
