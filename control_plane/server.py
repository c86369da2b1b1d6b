"""A server put together: which adapter fills which port, what runs beside requests, how it ends."""

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from control_plane.cells import PROBE, OpenedCell, StartError, log_circuit, open_cell
from control_plane.cluster.interpreter import NEEDED_PACKAGE, is_installed
from control_plane.cluster.running import Running, beside
from control_plane.core import queues_file
from control_plane.core.queues_file import DeclaredQueue, QueuesFileError
from control_plane.export.door import copies_for_exports
from control_plane.master_keys import OpenedKeys, open_keys
from control_plane.metadata_cache.opening import CachePorts, CacheSettings, open_beside_event_loop
from control_plane.queues_at_start import CREATED, QueuesAtStart
from control_plane.root_account import open_root_account
from control_plane.service import Ground, Service, ServiceSettings
from control_plane.several_opening import (
    as_opened,
    bodies_of,
    check_one_cell,
    open_several,
    served_so_far,
)
from control_plane.tls import cache_tls, check_tls, tls_files
from control_plane.together import Together
from control_plane.usage import Usage, open_usage
from data_plane import VERSION
from data_plane.core.deadline import deadline
from data_plane.core.limits import REQUEST_BODY_BYTES_MAX
from data_plane.core.message import Counts
from data_plane.core.queue import Queue
from data_plane.frontend.served import Served
from data_plane.frontend.settings import FrontEndSettings
from data_plane.http.logs import LogHandler, LogWriter
from data_plane.http.metrics import CONTENT_TYPE, QUEUES_MAX, Gauges, Metrics, QueueName
from data_plane.http.overload import Overload, OverloadSettings
from data_plane.http.server import HttpServer, HttpSettings
from data_plane.http.tracebacks import traceback_text
from data_plane.ports import CellUnavailableError, Clock
from data_plane.protocol.http import HttpResponse
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

_UPKEEP_PERIOD_S: Final = 1.0
_MANAGING_PERIOD_S: Final = 0.25
_GC_THRESHOLDS: Final = (50_000, 50, 100)
"""Requests leave next to no cycles, and a full collection under load stops everybody for up to
10 ms: seen a few times in ten seconds at the default thresholds."""

_COUNTED_QUEUES_MAX: Final = 20

_HEALTH_US_MAX: Final = 2_000_000
_SCRAPE_US_MAX: Final = 8_000_000
"""Whoever asks waits about ten seconds, and wants to hear what is wrong rather than nothing."""


class TidegateServer:
    """Everything of one server process, wired up. Made inside the event loop that runs it."""

    def __init__(  # noqa: PLR0913, PLR0917 - what was opened, and what it is told with
        self,
        settings: ServerSettings,
        opened: OpenedCell,
        keys: OpenedKeys,
        clock: Clock,
        log: LogWriter,
        several: Together | None = None,
        usage: Usage | None = None,
    ) -> None:
        self.settings = settings
        self.opened = opened
        self.several = several
        self.keys = keys
        self.clock = clock
        entropy = SystemEntropy()
        self.waits = EventLoopWaits(self.clock)
        self.metrics = Metrics()
        self.log = log
        self.usage = usage or Usage(clock)
        nodes, layout = settings.cache_nodes, settings.metadata_cache_layout
        self.cache = open_beside_event_loop(
            CacheSettings(nodes, layout, cache_tls(settings)),
            CachePorts(clock, entropy, self.waits, log_circuit),
        )
        ground = Ground(
            cells={opened.name: opened.cell} if several is None else several.standard,
            control=opened.control,
            bodies=bodies_of(opened, several),
            clock=self.clock,
            entropy=entropy,
            waits=self.waits,
            registry_secret=keys.registry_secret,
            master_keys=keys.master_keys,
            cache_nodes=self.cache.nodes if nodes else None,
            fifo_cells=several.fifo if several is not None else None,
            placing=several.placing if several is not None else None,
            cells_control=several,
        )
        self.service = Service(ground, _service_settings(settings), self._served, log.act)
        self.registry, self.engine = self.service.registry, self.service.engine
        self.usage.follow(ground, self.engine)
        front_end = self.service.front_end
        load = OverloadSettings(settings.requests_max, settings.lag_s_max)
        refuse = front_end.refuse_unread
        self.overload = Overload(load, lambda: self.waits.waiting, entropy, refuse)
        self.http = HttpServer(
            front_end.answer,
            {"/health": self._health, "/metrics": self._metrics},
            _http_settings(settings),
            self.overload,
        )
        self._started_us = self.clock.now_us()
        self._next_counted = 0
        self._answered = 0
        self.managing: Running | None = None
        if several is not None:
            several.heart.served = lambda: served_so_far(self._answered, self.metrics.queues)
            self.managing = beside(several, self.registry, clock, self.waits)

    def _served(self, served: Served) -> None:
        self._answered += 1
        self.metrics.served(served)
        self.log.served(served)
        self.usage.served(served)

    async def make_queues(self, declared: Iterable[DeclaredQueue]) -> None:
        """Make the queues of a file, and tell the log what became of each. Raises StartError."""
        settings = self.settings
        making = QueuesAtStart(self.registry, settings.account, settings.region)
        try:
            outcomes = await making.make(declared, self.clock.now_us())
        except QueuesFileError as error:
            raise StartError(f"queues: {settings.queues_file}: {error}") from error
        except CellUnavailableError as error:
            raise StartError(f"queues: the cell does not answer: {error}") from error
        for outcome in outcomes:
            level = "info" if outcome.event == CREATED else "warning"
            told = {name: text for name, text in outcome._asdict().items() if text}
            self.log.event(level, told.pop("event"), **told)

    async def greeting(self) -> str:
        """The line that says how to get in; makes the root account if need be.

        Raises StartError.
        """
        if self.settings.verifies:
            return await open_root_account(self.settings, self.service.accounts, self.log.act)
        self.log.event("warning", "authentication is off", host=self.settings.host)
        return "AUTHENTICATION IS OFF: whoever reaches this address may do everything."

    async def serve(self, stop: asyncio.Event) -> bool:
        """Serve until `stop` is set; whether all that was in flight then could finish."""
        # By themselves: a blob store that does not answer, or many messages to move, hold up
        # nothing else.
        bodies = self.engine if self.several is None else self.several
        steps = (
            *(self._upkeep_step, bodies.sweep_bodies),
            *(self.service.move_runner.step, self.usage.step),
        )
        upkeep = {asyncio.create_task(self._upkeep(step)) for step in steps}
        for period_s, step in self.several.steps if self.several is not None else ():
            upkeep.add(asyncio.create_task(self._upkeep(step, period_s)))
        if self.managing is not None:
            upkeep.add(asyncio.create_task(self._upkeep(self.managing.step, _MANAGING_PERIOD_S)))
        try:
            async with copies_for_exports(self.settings.data, self.opened.copy):
                return await self.http.serve(stop)
        finally:
            for task in upkeep:
                task.cancel()
            await asyncio.wait(upkeep)
            if self.managing is not None:
                await self.managing.close()
            await self._last_sweep()
            await self._last_usage()
            await self.opened.close()
            self.keys.close()
            self.cache.close()

    async def _last_sweep(self) -> None:
        """Leave low-water marks where they are, so that the next start reads nothing twice."""
        try:
            await self.engine.sweep()
        except CellUnavailableError as error:
            self.log.event("warning", "upkeep", error=str(error))

    async def _last_usage(self) -> None:
        try:
            await self.usage.close()
        except CellUnavailableError as error:
            self.log.event("warning", "usage was not stored", error=str(error))
        except Exception as error:  # noqa: BLE001 - the cell is closed in any case
            self.log.event("error", "usage was not stored", traceback=traceback_text(error))

    async def _upkeep(
        self, step: Callable[[], Awaitable[object]], period_s: float = _UPKEEP_PERIOD_S
    ) -> None:
        while True:
            await asyncio.sleep(period_s)
            try:
                await step()
            except CellUnavailableError as error:
                self.log.event("warning", "upkeep", error=str(error))
            except Exception as error:  # noqa: BLE001 - serving goes on, and the log says it all
                self.log.event("error", "upkeep", traceback=traceback_text(error))

    async def _upkeep_step(self) -> None:
        await self.engine.sweep()
        now_us = self.clock.now_us()
        await self.opened.upkeep(now_us)
        await self.service.sweep_dropped()
        names = list(self.metrics.queues)
        if self._next_counted >= len(names):
            self._next_counted = 0
        chosen = names[self._next_counted : self._next_counted + _COUNTED_QUEUES_MAX]
        self._next_counted += _COUNTED_QUEUES_MAX
        for name in chosen:
            queue = await self.registry.find(*name)
            if queue is None:
                self.metrics.forget(name)
            elif self.opened.forgets:
                await self.engine.drop_past_counters(queue)

    async def _health(self) -> HttpResponse:
        try:
            with deadline(self.clock.now_us() + _HEALTH_US_MAX):
                await self.opened.cell.get(PROBE)
            state = "full" if self.opened.is_full() else "available"
        except CellUnavailableError:
            state = "unavailable"
        healthy = state != "unavailable"
        body = {
            "status": "ok" if healthy else "unavailable",
            "version": VERSION,
            "cells": {self.opened.name: state} if self.several is None else self.several.states(),
            "authentication": self.settings.auth,
        }
        return HttpResponse(
            200 if healthy else 503,
            (("content-type", "application/json"),),
            msgspec.json.encode(body),
        )

    async def _metrics(self) -> HttpResponse:
        available = 1.0
        queues: dict[QueueName, Counts] = {}
        try:
            with deadline(self.clock.now_us() + _SCRAPE_US_MAX):
                for name, queue in (await self._known_queues()).items():
                    queues[name] = await self.engine.counts(queue)
                await self.opened.cell.get(PROBE)
        except CellUnavailableError:
            available = 0.0
        now_us = self.clock.now_us()
        guards = (*self.opened.guards, *self.keys.guards, *self.usage.guards)
        own = {"available": available, "damaged_segments_total": self.engine.damaged_segments}
        others = self.several.gauges() if self.several is not None else {}
        text = self.metrics.text(
            Gauges(
                queues,
                self.http.in_flight,
                (now_us - self._started_us) / 1_000_000,
                now_us // 1000,
                {self.opened.name: {**own, **self.opened.gauges()}, **others},
                {guard.name: guard.gauges() for guard in guards} | self.cache.gauges(),
                {"busy": self.overload.busy, "exhausted": self.overload.exhausted},
                self.usage.gauges(),
            )
        )
        return HttpResponse(200, (("content-type", CONTENT_TYPE),), text)

    async def _known_queues(self) -> dict[QueueName, Queue]:
        """Queues used since the start, then the default account's, QUEUES_MAX of them at most."""
        settings = self.settings
        own = await self.registry.names(
            settings.account, settings.region, prefix="", after="", limit=QUEUES_MAX
        )
        names = [*self.metrics.queues, *((settings.account, settings.region, name) for name in own)]
        queues: dict[QueueName, Queue] = {}
        for name in dict.fromkeys(names):
            queue = await self.registry.find(*name) if name[0] else None
            if queue is not None:
                queues[name] = queue
            if len(queues) >= QUEUES_MAX:
                break
        return queues


def _service_settings(settings: ServerSettings) -> ServiceSettings:
    return ServiceSettings(
        settings.verifies,
        settings.account,
        settings.sixty_second_rules,
        settings.auto_create_queues,
        front_end=FrontEndSettings(
            default_account=settings.account,
            default_region=settings.region,
            base_url=settings.base_url.rstrip("/"),
            request_deadline_s=settings.request_deadline_s,
            calls_max=settings.requests_max,
            long_polls_max=settings.long_polls_max,
        ),
    )


def _http_settings(settings: ServerSettings) -> HttpSettings:
    return HttpSettings(
        settings.host,
        settings.port,
        REQUEST_BODY_BYTES_MAX,
        settings.grace_s,
        tls=tls_files(settings),
    )


def run(settings: ServerSettings, announce: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM; a second one ends the process at once. The exit code.

    Raises StartError.
    """
    declared = _read_queues(settings.queues_file)
    check_tls(settings)
    if settings.has_several and not is_installed():
        raise StartError(f"cells: several need {NEEDED_PACKAGE}: install requirements/cells.txt")
    _check_port_is_free(settings.host, settings.port)
    return uvloop.run(_run(settings, announce, declared))


def _read_queues(path: Path | None) -> list[DeclaredQueue]:
    """The queues to be made at the start. Raises StartError."""
    if path is None:
        return []
    try:
        return queues_file.parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StartError(f"queues: {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise StartError(f"queues: {path}: it is not UTF-8") from error
    except QueuesFileError as error:
        raise StartError(f"queues: {path}: {error}") from error


async def _run(
    settings: ServerSettings, announce: Callable[[str], None], declared: list[DeclaredQueue]
) -> int:
    loop = asyncio.get_running_loop()
    clock = SystemClock()
    log = LogWriter(_write_to_stderr, clock, settings.log_level)
    logging.basicConfig(handlers=[LogHandler(log, loop)], level=logging.INFO, force=True)
    loop.set_exception_handler(log.loop_error)
    several: Together | None = None
    if settings.has_several:
        several = await open_several(settings, clock, SystemEntropy())
        opened = as_opened(several)
    else:
        check_one_cell(settings)
        opened = await open_cell(settings, clock)
    try:
        keys = await open_keys(settings, opened.control, clock, SystemEntropy())
    except StartError:
        await opened.close()
        raise
    cells = {opened.name: opened.cell} if several is None else several.standard
    try:
        usage = await open_usage(settings, cells, clock, SystemEntropy())
    except StartError:
        await opened.close()
        keys.close()
        raise
    server = TidegateServer(settings, opened, keys, clock, log, several, usage)
    try:
        await server.make_queues(declared)
        greeting = await server.greeting()
    except StartError:
        await opened.close()
        keys.close()
        raise
    # What was imported stays: collections that walk over it would stop all requests for a while.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set():
            log.flush()
            os._exit(128 + number)
        log.event("info", "stopping", signal=signal.Signals(number).name)
        server.waits.stop_waiting()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    announce(f"Tidegate {VERSION} serves SQS on {settings.url}, {opened.where}\n{greeting}")
    log.event("info", "started", version=VERSION, url=settings.url, cell=opened.where)
    finished = await server.serve(stop)
    if not finished:
        log.event("warning", "cut off", in_flight=server.http.in_flight)
    log.event("info", "stopped")
    return 0


def _check_port_is_free(host: str, port: int) -> None:
    """The listener shares a port with others that share it: two servers would mix silently."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise StartError(f"port: {port} on {host} is in use") from error
        raise StartError(f"host: cannot listen on {host}:{port}: {error.strerror}") from error


def _write_to_stderr(lines: bytes) -> None:
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()
