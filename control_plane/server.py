"""A server put together: which adapter fills which port, what runs beside requests, how it ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import msgspec

from control_plane.backup.door import backups_served
from control_plane.cells import BlockedStartError, OpenedCell, StartError, log_circuit
from control_plane.cluster.running import Running, beside
from control_plane.core.queues_file import DeclaredQueue, QueuesFileError
from control_plane.core.revisits import Revisits
from control_plane.core.wake_ups import WakeUpSeal
from control_plane.definition_room import DefinitionRoom
from control_plane.disk_room import DiskRoom
from control_plane.export.door import copies_for_exports
from control_plane.group_lags import GroupLags
from control_plane.master_keys import OpenedKeys
from control_plane.metadata_cache.opening import CachePorts, CacheSettings, open_beside_event_loop
from control_plane.pages import kinesis_queue_ids, metrics_served, pages, queue_names
from control_plane.queues_at_start import CREATED, QueuesAtStart
from control_plane.root_account import open_root_account
from control_plane.service import RunningService, ServicePorts, ServiceSettings
from control_plane.service_clock import (
    clock_gauges,
    describe,
    world_ms,
)
from control_plane.several_opening import (
    bodies_of,
    served_so_far,
)
from control_plane.stored_bytes import StoredBytes
from control_plane.stored_on_tables import held_on_tables
from control_plane.stream_upkeep import STREAMS_EVERY_S
from control_plane.sweep import SWEPT_AFTER_US
from control_plane.tls import cache_tls, tls_files
from control_plane.together import WATCH_PERIOD_S, Together
from control_plane.upkeep import Rest, Upkeep
from control_plane.usage import Usage
from control_plane.vital_signs import Backlogs, Counted, Pulse, UsedQueue
from control_plane.waking import ADDRESSES_EVERY_S, Waking
from data_plane import VERSION
from data_plane.core.limits import BODY_BYTES_MAX, RECEIVE_BYTES_MAX, RECEIVE_WAIT_S_MAX
from data_plane.core.queue import Queue
from data_plane.frontend.served import Served
from data_plane.frontend.settings import FrontEndSettings
from data_plane.http.connections import Listeners
from data_plane.http.cross_origin import AllowedOrigins
from data_plane.http.logs import LogWriter
from data_plane.http.metrics import CONTENT_TYPE, Gauges, Metrics, QueueName
from data_plane.http.observers import Observers
from data_plane.http.origins import ForeignPages, refuse_none
from data_plane.http.overload import Overload, OverloadSettings
from data_plane.http.scrapes import Turns, written
from data_plane.http.server import HttpServer, HttpSettings
from data_plane.http.tracebacks import traceback_text
from data_plane.ports import Cell, CellUnavailableError, Clock, Entropy
from data_plane.protocol.http import HttpResponse
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.runtime.memory import Memory, memory_bytes
from data_plane.settings import ServerSettings
from data_plane.system import SystemClock, SystemEntropy

_MANAGING_PERIOD_S: Final = 0.25
_MEMORY_PERIOD_S: Final = 5.0
_COUNTED_QUEUES_MAX: Final = 20
_RECORDS_REST_US: Final = 5_000_000
_RECORDS_REST_PAID_US: Final = 60_000_000
_RECORDS_COUNTED_MAX: Final = 100
"""Between two counts of records, and how many queues each is of: it looks at all shards."""
_BUDGETS_PERIOD_S: Final = 30.0
_IDLE_MOVES_S: Final = 5.0
"""As long as a task has an owner: one whose server dies is found before that is over."""


_GROUPS_S_MAX: Final = 0.25
"""For which a look at health asks which groups have queues."""

_Find = Callable[[str, str, str], Awaitable[Queue | None]]


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
        self.waking: Waking | None = None
        nodes, layout = settings.cache_nodes, settings.metadata_cache_layout
        self.cache = open_beside_event_loop(
            CacheSettings(nodes, layout, cache_tls(settings)),
            CachePorts(clock, entropy, self.waits, log_circuit),
        )
        self._upkeep, self._moves_begun = Upkeep(log), asyncio.Event()
        ground = ServicePorts(
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
            written_after_us=_written_after_us(settings, opened),
            drop_items_per_s=None if opened.forgets else settings.drop_items_per_s,
            machine=SystemClock(),
            tenant_usage=self.usage.costs,
            webhooks=self.usage.webhooks,
        )
        if settings.verifies:
            ground = self._held_to_quotas(ground)
        self._stored = ground.stored
        served = {"metrics": self.metrics.served, "log": log.served, "usage": self.usage.served}
        self.observers = observers = Observers(served, log.act, log.event)
        told = (self._served, observers.record, observers.failed, self._moves_begun.set)
        self.service = RunningService(ground, _service_settings(settings), *told)
        self.registry, self.engine = self.service.registry, self.service.engine
        self.usage.follow(ground, self.service)
        self._listen_for(entropy)
        self.disk_room = DiskRoom()
        self._started_us = self.clock.now_us()
        self._is_paid = is_paid = not opened.forgets
        self._looked_for: Revisits[QueueName] = Revisits()
        self.pulse = Pulse(opened, clock, is_paid=is_paid)
        self._count_queues(settings, clock)
        groups = self.service.streams.groups
        self.group_lags = GroupLags(groups, settings, clock, is_paid=is_paid)
        self._next_counted = self._answered = 0
        self.managing: Running | None = None
        if several is not None:
            several.heart.served = lambda: served_so_far(self._answered, self.metrics.queues)
            self.managing = beside(several, self.registry, clock, self.waits, entropy)

    def _count_queues(self, settings: ServerSettings, clock: Clock) -> None:
        """Make what counts messages in queues, and records in those of the Kinesis API."""
        count, is_paid = self.engine.counts, self._is_paid
        names = partial(queue_names, self.registry, settings)
        of_sqs = Counted(self.metrics.queues, names, self.registry.find, count)
        self.backlogs = Backlogs(of_sqs, clock, is_paid=is_paid)
        queues = self.service.streams.queues
        ids = partial(kinesis_queue_ids, queues, settings)
        rest_us = _RECORDS_REST_PAID_US if is_paid else _RECORDS_REST_US
        used = self.metrics.queue_records.queues
        of_kinesis = Counted(used, ids, queues.find, count, _RECORDS_COUNTED_MAX, rest_us)
        self.record_backlogs = Backlogs(of_kinesis, clock, is_paid=is_paid)

    def _held_to_quotas(self, ground: ServicePorts) -> ServicePorts:
        """The ground with what knows what accounts have stored and defined."""
        if not self.opened.forgets:
            return held_on_tables(ground, lambda: self.service)
        counted = StoredBytes(
            self._cells, lambda: self.registry, lambda: self.service.streams.registry
        )
        return replace(ground, stored=counted, room_by=partial(DefinitionRoom, defined=counted))

    def _listen_for(self, entropy: Entropy) -> None:
        """Make what answers connections."""
        settings = self.settings
        front_end = self.service.front_end
        load = OverloadSettings(settings.requests_max, settings.lag_s_max)
        refuse = front_end.refuse_unread
        self.overload = Overload(load, lambda: self.waits.waiting, entropy, refuse)
        self.foreign_pages = ForeignPages(
            settings.further_hosts, settings.base_url, entropy, self.log.event
        )
        shown = pages(settings, self._health, self._metrics, self.foreign_pages, entropy)
        self.metrics_http = shown.metrics
        self.http = HttpServer(
            front_end.answer,
            shown.pages,
            _http_settings(settings),
            self.overload,
            front_end.admission,
            refuse_none if settings.verifies else self.foreign_pages.refusal,
            AllowedOrigins(settings.origins),
        )

    def _served(self, served: Served) -> None:
        self._answered += 1
        self.observers.served(served)

    async def make_queues(self, declared: Iterable[DeclaredQueue]) -> None:
        """Make the queues of a file, and tell the log what became of each. Raises StartError."""
        settings = self.settings
        making = QueuesAtStart(self.registry, settings.account, settings.region)
        try:
            outcomes = await making.make(declared, self.clock.now_us())
        except QueuesFileError as error:
            raise StartError(f"queues: {settings.queues_file}: {error}") from error
        except CellUnavailableError as error:
            raise BlockedStartError(f"queues: the cell does not answer: {error}") from error
        for outcome in outcomes:
            level = "info" if outcome.event == CREATED else "warning"
            told = {name: text for name, text in outcome._asdict().items() if text}
            self.log.event(level, told.pop("event"), **told)

    async def greeting(self) -> str:
        """The line that says how to get in; makes the root account if need be.

        Raises StartError.
        """
        if self.settings.verifies:
            return await open_root_account(
                self.settings, self.service.accounts, self.observers.record
            )
        self.log.event("warning", "authentication is off", host=self.settings.host)
        return "AUTHENTICATION IS OFF: whoever reaches this address may do everything."

    async def refuse(self) -> None:
        """End what was opened for a start that is refused, as a server that lost nothing."""
        await self._last_usage()
        await self.opened.close()
        self.keys.close()

    async def serve(
        self, stop: asyncio.Event, listeners: Listeners, started: Callable[[], None]
    ) -> bool:
        """Serve what connects to `listeners` until `stop` is set, and call `started` once it can.

        Returns whether all that was in flight then could finish.
        """
        try:
            await self.usage.open()
            await self._begin_waking()
            self._begin_upkeep()
            async with (
                copies_for_exports(self.settings.data, self.opened.copy),
                backups_served(self.settings, self.opened, self.keys.where),
                metrics_served(self.metrics_http, listeners.metrics, stop, self.log),
            ):
                return await self.http.serve(stop, listeners.api, started)
        finally:
            await self._upkeep.end()
            if self.managing is not None:
                await self.managing.close()
            await self._last_sweep()
            await self._last_usage()
            await self.opened.close()
            self.keys.close()
            if self.waking is not None:
                self.waking.close()
            self.cache.close()

    async def _begin_waking(self) -> None:
        addresses = self.settings.wake_up_addresses
        if addresses:
            seal = WakeUpSeal(self.keys.registry_secret, SystemEntropy().random_bytes(8))
            self.waking = Waking(seal, self.waits, self.clock, addresses[1:])
            await self.waking.open(addresses[0])
            self._upkeep.repeat(self.waking.look_up, ADDRESSES_EVERY_S)

    def _begin_upkeep(self) -> None:
        # By themselves: a blob store that does not answer, or many messages to move, hold up
        # nothing else.
        several, service, repeat = self.several, self.service, self._upkeep.repeat
        bodies = self.engine if several is None else several
        repeat(self._upkeep_step)
        repeat(bodies.sweep_bodies)
        repeat(self.usage.step, due=self.usage.due)
        repeat(self.usage.record_sent)
        if (watch := self.usage.watch(service, self.log.event)) is not None:
            repeat(watch, _BUDGETS_PERIOD_S)
        repeat(service.sweep.step)
        repeat(service.streams.upkeep.step, STREAMS_EVERY_S)
        repeat(self._move_messages, due=self._moves_begun)
        if self._stored is not None:
            repeat(self._stored.measure)
        for period_s, step in several.steps if several is not None else ():
            repeat(step, period_s)
        if self.opened.look is not None:
            repeat(self.opened.look, WATCH_PERIOD_S)
        repeat(Memory().give_back, _MEMORY_PERIOD_S)
        if self.managing is not None:
            repeat(self.managing.step, _MANAGING_PERIOD_S)

    async def _move_messages(self) -> Rest | None:
        """Take a step of the message move tasks; without any, a look at a table costs something."""
        met = await self.service.move_runner.step()
        idle = met.all_met and not (met.own or met.others)
        return Rest(_IDLE_MOVES_S) if idle and self._is_paid else None

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

    async def _upkeep_step(self) -> None:
        await self.engine.sweep()
        now_us = self.clock.now_us()
        self.disk_room.look(self._cells())
        await self.opened.upkeep(now_us)
        kinesis, records = self.service.streams.queues, self.metrics.queue_records
        used: list[tuple[_Find, Callable[[QueueName], None], QueueName, UsedQueue]] = [
            *(
                (self.registry.find, self.metrics.forget, *one)
                for one in self.metrics.queues.items()
            ),
            *((kinesis.find, records.forget, *one) for one in records.queues.items()),
        ]
        if self._next_counted >= len(used):
            self._next_counted = 0
        chosen = used[self._next_counted : self._next_counted + _COUNTED_QUEUES_MAX]
        self._next_counted += _COUNTED_QUEUES_MAX
        for find, forget, name, totals in chosen:
            if self._is_paid and not self._looked_for.take(name, totals.used_us, now_us):
                continue
            queue = await find(*name)
            if queue is None:
                forget(name)
            elif self.opened.forgets:
                await self.engine.drop_past_counters(queue)

    def _cells(self) -> Mapping[str, Cell]:
        """The cells themselves."""
        if self.several is None:
            return {self.opened.name: self.opened.cell}
        return {name: served.plain for name, served in self.several.served.items()}

    async def _health(self) -> HttpResponse:
        healthy = await self.pulse.answers()
        damaged = "damaged" if self.opened.damaged_items() else "available"
        state = "full" if self.opened.is_full() else damaged
        away: list[str] = []
        if not healthy:
            state = "unavailable"
        elif self.several is not None:
            with suppress(CellUnavailableError, TimeoutError):
                async with asyncio.timeout(_GROUPS_S_MAX):
                    states = self.several.states().items()
                    answering = {name for name, one in states if one != "unavailable"}
                    away = await self.several.parting.without_copies(answering)
        status = "ok" if state in ("available", "full") else state
        body = {
            "status": "in part" if away and status == "ok" else status,
            "version": VERSION,
            "cells": self.disk_room.states(
                {self.opened.name: state} if self.several is None else self.several.states()
            ),
            "clock": describe(self.clock),
            "authentication": self.settings.auth,
            **({"manager": self.several.manager().state} if self.several is not None else {}),
            **({"groups_without_copies": away} if away else {}),
        }
        return HttpResponse(
            200 if healthy else 503,
            (("content-type", "application/json"),),
            msgspec.json.encode(body),
        )

    async def _metrics(self) -> HttpResponse:
        turns = Turns()
        queues = await self.backlogs.counts()
        queue_records = await self.record_backlogs.counts()
        group_lags = await self.group_lags.lags()
        available = float(await self.pulse.answers())
        now_us = self.clock.now_us()
        timing = clock_gauges(self.clock)
        guards = (*self.opened.guards, *self.keys.guards, *self.usage.guards)
        own = {"available": available, "damaged_segments_total": self.engine.damaged_segments}
        if self.waking is not None:
            own |= self.waking.gauges()
        others = self.several.gauges() if self.several is not None else {}
        pieces = self.metrics.pieces(
            Gauges(
                queues,
                self.http.in_flight,
                (now_us - self._started_us) / 1_000_000,
                world_ms(self.clock),
                {self.opened.name: {**own, **timing, **self.opened.gauges()}, **others},
                {guard.name: guard.gauges() for guard in guards} | self.cache.gauges(),
                {
                    "busy": self.overload.busy,
                    "exhausted": self.overload.exhausted,
                    "foreign": self.foreign_pages.refused,
                },
                self.usage.gauges(),
                self.log.dropped,
                self.observers.failures,
                group_lags,
                queue_records,
            )
        )
        text = await written(pieces, turns)
        return HttpResponse(200, (("content-type", CONTENT_TYPE),), text)


def _service_settings(settings: ServerSettings) -> ServiceSettings:
    return ServiceSettings(
        settings.verifies,
        settings.account,
        settings.sixty_second_rules,
        settings.auto_create_queues,
        RECEIVE_BYTES_MAX,
        strict_streams_s=settings.strict_streams_s,
        front_end=FrontEndSettings(
            default_account=settings.account,
            default_region=settings.region,
            base_url=settings.base_url.rstrip("/"),
            request_deadline_s=settings.request_deadline_s,
            calls_max=settings.requests_max,
            long_polls_max=settings.long_polls_max,
        ),
        root_key=settings.root_key,
    )


def _written_after_us(settings: ServerSettings, opened: OpenedCell) -> int:
    """For how long a queue may be written to after it was deleted or purged.

    Where no other process has the cells only requests do that which were under way. Those that came
    until the call itself ended count: it notes when it began before others see what it did.
    """
    if not opened.forgets:
        return SWEPT_AFTER_US
    return round((2 * settings.request_deadline_s + RECEIVE_WAIT_S_MAX + 1) * 1_000_000)


def _http_settings(settings: ServerSettings) -> HttpSettings:
    return HttpSettings(
        BODY_BYTES_MAX,
        settings.grace_s,
        headers_bytes_max=memory_bytes() // 2,
        tls=tls_files(settings),
        prefix=urlsplit(settings.base_url).path.rstrip("/"),
    )
