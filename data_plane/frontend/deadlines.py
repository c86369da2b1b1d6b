"""How long requests may take: a deadline for each when it arrives, and more for long polls."""

from contextvars import Token
from typing import Final

from data_plane.core.begun import start_progress
from data_plane.core.deadline import set_deadline
from data_plane.core.limits import RECEIVE_WAIT_S_MAX
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.frontend.settings import FrontEndSettings

_US_PER_S: Final = 1_000_000
_HAND_OUT_S: Final = 5
"""As long as a call to a cell may take with all its repetitions."""


def begin(exchange: Exchange, settings: FrontEndSettings) -> Token[int | None]:
    """Set the deadline of a request that has arrived; see `reset_deadline`."""
    start_progress()
    return set_deadline(_deadline_us(exchange, settings.request_deadline_s))


def allow_waiting(settings: FrontEndSettings) -> Stage:
    """Give a long poll the time for which it waits, beside what every request has.

    It waits for less where whoever serves it has less time, or where the settings say so.
    """

    def stage(exchange: Exchange) -> None:
        wait_s = asked_wait_s(exchange)
        if not 0 < wait_s <= RECEIVE_WAIT_S_MAX:
            return
        most_s = _wait_s_max(exchange, settings)
        if exchange.chosen.wait_default_s:
            most_s = max(most_s, 1)
        if wait_s > most_s:
            wait_s = most_s
            exchange.params = {**exchange.params, exchange.chosen.wait_member: wait_s}
        set_deadline(_deadline_us(exchange, settings.request_deadline_s + wait_s))

    return stage


def _deadline_us(exchange: Exchange, for_s: float) -> int:
    deadline_us = exchange.started_us + round(for_s * _US_PER_S)
    until_us = exchange.request.until_us
    return deadline_us if until_us is None else min(deadline_us, until_us)


def _wait_s_max(exchange: Exchange, settings: FrontEndSettings) -> int:
    """For how long a receive may wait, so that it can still hand out what it waited for."""
    until_us = exchange.request.until_us
    if until_us is None:
        return settings.long_poll_s_max
    left_s = (until_us - exchange.started_us) // _US_PER_S - _HAND_OUT_S
    return max(0, min(settings.long_poll_s_max, left_s))


def asked_wait_s(exchange: Exchange) -> int:
    """For how long the request says that it waits for messages, or records; not checked yet."""
    operation = exchange.chosen
    if not operation.wait_member or (operation.on_queue and exchange.queue is None):
        return 0
    queue = exchange.queue
    otherwise_s = operation.wait_default_s if queue is None else queue.receive_wait_s
    wait_s: int = exchange.params.get(operation.wait_member, otherwise_s)
    return wait_s
