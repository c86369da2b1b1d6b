"""How long requests may take: a deadline for each when it arrives, and more for long polls."""

from contextvars import Token
from typing import Final

from data_plane.core.deadline import set_deadline
from data_plane.core.limits import RECEIVE_WAIT_S_MAX
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.frontend.settings import FrontEndSettings

_US_PER_S: Final = 1_000_000


def begin(exchange: Exchange, settings: FrontEndSettings) -> Token[int | None]:
    """Set the deadline of a request that has arrived; see `reset_deadline`."""
    return set_deadline(exchange.started_us + round(settings.request_deadline_s * _US_PER_S))


def allow_waiting(settings: FrontEndSettings) -> Stage:
    """Give a long poll the time for which it waits, beside what every request has."""

    async def stage(exchange: Exchange) -> None:
        wait_s = min(asked_wait_s(exchange), RECEIVE_WAIT_S_MAX)
        if wait_s > 0:
            deadline_s = settings.request_deadline_s + wait_s
            set_deadline(exchange.started_us + round(deadline_s * _US_PER_S))

    return stage


def asked_wait_s(exchange: Exchange) -> int:
    """For how long the request says that it waits for messages; not checked yet."""
    if exchange.chosen.name != "ReceiveMessage" or exchange.queue is None:
        return 0
    wait_s: int = exchange.params.get("WaitTimeSeconds", exchange.queue.receive_wait_s)
    return wait_s
