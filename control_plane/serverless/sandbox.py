"""One sandbox of a function: what it opened, and keeps until Lambda ends it."""

import logging
import sys
from collections.abc import Mapping
from functools import cached_property

from control_plane.serverless import health
from control_plane.serverless.answer_lines import AnswerLines, Marking
from control_plane.serverless.clock import InvocationClock
from control_plane.serverless.closing import Closing
from control_plane.serverless.doors import Doors
from control_plane.serverless.logs import FunctionLog, FunctionLogHandler
from control_plane.serverless.opening import Opened, open_service
from control_plane.serverless.settings import VariableError, read_settings
from control_plane.serverless.usage_place import UsagePlace
from data_plane.http.observers import Observers
from data_plane.system import SystemClock, SystemEntropy, running_us


class Sandbox:
    """Opens what a function asks for when it does, once. Raises VariableError.

    A start that fails is tried again with the next invocation, as Lambda does with its own.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._lines = AnswerLines(SystemEntropy(), _write)

    @cached_property
    def opened(self) -> Opened:
        """The service, and what runs it."""
        clock = InvocationClock(SystemClock(), running_us)
        log = FunctionLog(_write, clock, "info")
        try:
            settings = read_settings(self._environ)
            log = FunctionLog(_write, clock, settings.log_level)
            logging.basicConfig(handlers=[FunctionLogHandler(log)], level=logging.INFO, force=True)
            # Of each client it says at info where the credentials are from.
            logging.getLogger("botocore.credentials").setLevel(logging.WARNING)
            served = {"log": log.served, "usage": self._lines.served}
            return open_service(settings, clock, log, Observers(served, log.act, log.event))
        except VariableError as error:
            log.event("error", "start failed", message=str(error))
            # What it came from says no more, and would make many lines of one.
            raise error from None

    @cached_property
    def usage_place(self) -> UsagePlace:
        """Where usage records go, for the function that stores them."""
        clock = InvocationClock(SystemClock(), running_us)
        try:
            return UsagePlace(read_settings(self._environ, required=("USAGE",)), clock)
        except VariableError as error:
            FunctionLog(_write, clock, "info").event("error", "start failed", message=str(error))
            raise error from None

    @cached_property
    def doors(self) -> Doors:
        """The doors to it."""
        opened = self.opened
        ground = opened.ground
        several = opened.several
        ship = several.ship if several is not None else None
        place = opened.usage
        marking = None if place is None else Marking(self._lines, place, ground.control)
        closing = Closing(
            opened.service.engine,
            ground.cells,
            ground.bodies,
            opened.clock,
            ship,
            marking.mark if marking is not None else None,
        )
        answer = self._lines.before(opened.service.front_end.answer, opened.clock)
        if several is not None:
            answer = several.before(answer)
        # What others have copies of may be away.
        needed = None if several is None else (opened.settings.own_cell,)
        answer = health.before(answer, ground.cells, opened.clock, needed)
        return Doors(answer, closing.close, opened.clock, opened.run)


def _write(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
