"""Whether the service behind a door is well, for what checks it: Route 53, load balancers."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

import msgspec

from control_plane.places.watching import PROBE
from data_plane import VERSION
from data_plane.core.deadline import deadline_at_most
from data_plane.ports import Cell, CellThrottledError, CellUnavailableError, Clock
from data_plane.protocol.http import HttpRequest, HttpResponse, path_inside

Answer = Callable[[HttpRequest], Awaitable[HttpResponse]]

PATH: Final = "/health"
_US_MAX: Final = 2_000_000
"""Whoever checks waits no longer: Route 53 two seconds for the status line."""


def before(
    answer: Answer,
    cells: Mapping[str, Cell],
    clock: Clock,
    needed: Collection[str] | None = None,
) -> Answer:
    """What answers GET /health itself, unsigned as it comes, and leaves the rest to `answer`.

    200 where every cell answers, or those that are `needed`, else 503; the body is a server's.
    """

    async def answered(request: HttpRequest) -> HttpResponse:
        if request.method != "GET" or path_inside(request) != PATH:
            return await answer(request)
        states = {name: await _state(cell, clock) for name, cell in cells.items()}
        return _told(states, states if needed is None else needed)

    return answered


def _told(states: Mapping[str, str], needed: Collection[str]) -> HttpResponse:
    is_well = all(states[name] == "available" for name in needed)
    body = {
        "status": "ok" if is_well else "unavailable",
        "version": VERSION,
        "cells": states,
        "authentication": "on",
    }
    return HttpResponse(
        200 if is_well else 503,
        (("content-type", "application/json"),),
        msgspec.json.encode(body),
    )


async def _state(cell: Cell, clock: Clock) -> str:
    try:
        with deadline_at_most(clock.now_us() + _US_MAX):
            await cell.get(PROBE)
    except CellThrottledError:
        return "available"  # it was answered
    except CellUnavailableError:
        return "unavailable"
    return "available"
