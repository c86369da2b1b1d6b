"""Times as the command line shows them."""

from datetime import UTC, datetime


def day(seconds: int) -> str:
    """Date and time in UTC of seconds since the epoch."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def month(seconds: int) -> str:
    """The month in UTC of seconds since the epoch."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m}"


def hour(seconds: int) -> str:
    """The hour, UTC, that seconds since the epoch are in."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H}"
