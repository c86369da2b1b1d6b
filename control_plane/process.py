"""A server as a process: it starts in order, listens, and stops on signals."""

import asyncio
import errno
import gc
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

import uvloop

from control_plane.cells import BlockedStartError, OpenedCell, StartError
from control_plane.core.queues_file import DeclaredQueue
from control_plane.data_folder import (
    check_folders,
    death_notes,
    nothing_left_behind,
    prepare_folders,
)
from control_plane.death_watch import watch_for_death
from control_plane.master_keys import open_keys
from control_plane.named_files import check_beside_store, read_queues
from control_plane.one_cell import open_cell
from control_plane.pages import check_pages
from control_plane.server import TidegateServer
from control_plane.service_clock import clock_of, clock_to_open_with
from control_plane.several_opening import (
    as_opened,
    open_several,
)
from control_plane.stopping import Stopping, end_now
from control_plane.tls import check_tls
from control_plane.together import Together
from control_plane.usage import open_usage
from data_plane import VERSION
from data_plane.http.connections import Listeners, bind
from data_plane.http.line_writer import LineWriter
from data_plane.http.lines import encoded
from data_plane.http.logs import LogWriter, lost_line, say, take_over
from data_plane.http.readable_lines import readable
from data_plane.http.tracebacks import traceback_text
from data_plane.ports import Clock
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

_GC_THRESHOLDS: Final = (50_000, 50, 100)
"""Requests leave next to no cycles, and a full collection under load stops everybody for up to
10 ms: seen a few times in ten seconds at the default thresholds."""

_GREETING_S: Final = 0.2
_LAST_LINES_S: Final = 2.0
"""An orderly stop waits so long until its log is written; others may not read it any more."""


def run(settings: ServerSettings) -> int:
    """Serve until a signal says stop (stopping.py); the exit code. Raises StartError."""
    declared = read_queues(settings)
    check_tls(settings)
    check_pages(settings)
    clock = SystemClock()
    with _bind(settings) as listeners:
        settings = replace(settings, port=listeners.api.getsockname()[1])
        lines = LineWriter(2, clock, partial(lost_line, clock))
        log = LogWriter(
            lines.write, clock, settings.log_level, lines.dropped, _line(settings.log_format)
        )
        stopping = Stopping(end_now(lines.close), log)
        try:
            return uvloop.run(_run(settings, listeners, log, stopping, declared))
        except StartError:
            raise
        except Exception as error:  # noqa: BLE001 - else Python itself would write it, and wait
            log.event("error", "failed", traceback=traceback_text(error))
            return 1
        finally:
            log.flush()
            lines.close(_LAST_LINES_S)


def _line(log_format: str) -> Callable[[dict[str, object]], bytes]:
    """What makes a line of the log."""
    at_a_terminal = log_format == "auto" and os.isatty(2)
    if log_format == "text" or at_a_terminal:
        return partial(readable, in_colour=at_a_terminal)
    return encoded


async def _run(
    settings: ServerSettings,
    listeners: Listeners,
    log: LogWriter,
    stopping: Stopping,
    declared: list[DeclaredQueue],
) -> int:
    loop = asyncio.get_running_loop()
    clock = clock_to_open_with(settings)
    take_over(log, loop)
    opened, several = await _open_cells(settings, clock, log)
    clock = clock_of(clock, opened)
    try:
        keys = await open_keys(settings, opened.control, clock, SystemEntropy())
    except StartError:
        await opened.close()
        raise
    cells = {opened.name: opened.cell} if several is None else several.standard
    try:
        usage = await open_usage(settings, cells, opened.control, clock, SystemEntropy())
    except StartError:
        await opened.close()
        keys.close()
        raise
    server = TidegateServer(settings, opened, keys, clock, log, several, usage)
    try:
        await server.make_queues(declared)
        greeting = await server.greeting()
    except StartError:
        await server.refuse()
        raise
    # What was imported stays: collections that walk over it would stop all requests for a while.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    stop = asyncio.Event()

    def begin() -> None:
        server.waits.stop_waiting()
        stop.set()

    def started() -> None:
        told = f"Tidegate {VERSION} serves SQS on {settings.url}, {opened.where}\n{greeting}\n"
        # Before the log goes on, if somebody reads it.
        say(told, 1, clock, _GREETING_S)
        log.event("info", "started", version=VERSION, url=settings.url, cell=opened.where)

    stopping.listen(loop, begin)
    finished = await server.serve(stop, listeners, started)
    if not finished:
        log.event("warning", "cut off", in_flight=server.http.in_flight)
    stopping.ended(loop)
    log.event("info", "stopped")
    return 0


async def _open_cells(
    settings: ServerSettings, clock: Clock, log: LogWriter
) -> tuple[OpenedCell, Together | None]:
    """What the settings name, in directories that are ready for it. Raises StartError."""
    check_folders(settings)
    check_beside_store(settings, clock)
    with nothing_left_behind(settings.data):
        for line in prepare_folders(settings):
            log.event("warning", "data directory", reason=line)
        watch_for_death(death_notes(settings))
        if settings.has_several:
            several = await open_several(settings, clock, SystemEntropy())
            return as_opened(several), several
        return await open_cell(settings, clock), None


@contextmanager
def _bind(settings: ServerSettings) -> Iterator[Listeners]:
    """The sockets to listen on, before anything is opened. Raises StartError."""
    with closing(_bound("port", settings.host, settings.port)) as api:
        if settings.metrics_at is None:
            yield Listeners(api)
        else:
            with closing(_bound("metrics", *settings.metrics_at)) as metrics:
                yield Listeners(api, metrics)


def _bound(setting: str, host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BlockedStartError(f"{setting}: {port} on {host} is in use") from error
        what = "host" if setting == "port" and error.errno != errno.EACCES else setting
        raise StartError(f"{what}: cannot listen on {host}:{port}: {error.strerror}") from error
