"""How long a call may wait at the server for something to come."""

from typing import Any, Final

WAIT_S_MAX: Final = 20
"""Of GetRecords, heartbeats and ReceiveMessage."""


def wait_s_max(client: Any) -> int:
    """The longest wait whose answer this client still takes, with time for the network.

    A client that gives up before it is answered never learns what the answer says.
    """
    config = getattr(getattr(client, "meta", None), "config", None)
    timeout_s = getattr(config, "read_timeout", None)
    return WAIT_S_MAX if timeout_s is None else min(WAIT_S_MAX, int(timeout_s / 2))


def wait_s_within(wait_s: int, stop_s_max: float | None) -> int:
    """A wait that leaves time for giving back what it brings, if a stop takes so long at most."""
    if stop_s_max is None or stop_s_max / 2 >= wait_s:
        return wait_s
    return max(0, int(stop_s_max / 2))
