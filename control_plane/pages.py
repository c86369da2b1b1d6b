"""The pages of a server beside its API: who sees metrics, and where."""

import asyncio
import hmac
import ipaddress
import re
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from control_plane.cells import StartError
from control_plane.kinesis_queues import KinesisQueues
from control_plane.registry import Registry
from control_plane.tls import tls_files
from data_plane.core.addresses import is_loopback
from data_plane.core.queue import KINESIS_ID
from data_plane.http.logs import LogWriter
from data_plane.http.metrics import QUEUES_MAX, QueueName
from data_plane.http.origins import ForeignPages, foreign, host_name, refuse_none
from data_plane.http.overload import Overload, OverloadSettings
from data_plane.http.scrapes import HEALTH_KEPT_S, Make, Scrapes, Shared, Turns
from data_plane.http.server import HttpServer, HttpSettings, Page
from data_plane.http.tracebacks import traceback_text
from data_plane.ports import Entropy
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.protocol.query_xml import UNKNOWN_OPERATION
from data_plane.settings import METRICS_ON, ServerSettings

_METRICS: Final = "/metrics"
_NAMES_IN_A_TURN: Final = 20
_CONNECTIONS_MAX: Final = 64
"""At an address of their own, metrics are for a few scrapers."""

_GRACE_S: Final = 1.0
"""A scrape holds up no stop for longer."""

_KEY: Final = re.compile(rb"[!-~]{16,1024}")
_FOR_ALL: Final = stat.S_IWGRP | stat.S_IRWXO
_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")

_UNAUTHORIZED: Final = HttpResponse(
    401,
    (("content-type", "text/plain"), ("www-authenticate", "Bearer")),
    b"Metrics are shown to who has the key of --metrics-key: Authorization: Bearer KEY\n",
)
_FORBIDDEN: Final = HttpResponse(
    403,
    (("content-type", "text/plain"),),
    b"Metrics name accounts and queues, so they are shown on this machine alone. For others start"
    b" the server with --metrics-key FILE, or with --metrics HOST:PORT.\n",
)


@dataclass(frozen=True, slots=True)
class WebPages:
    """The pages of a server's own address, and what serves metrics at another one (None: none)."""

    pages: Mapping[str, Page]
    metrics: HttpServer | None


def pages(
    settings: ServerSettings,
    health: Make,
    metrics: Make,
    foreign_pages: ForeignPages,
    entropy: Entropy,
) -> WebPages:
    """Pages that `health` and `metrics` make, for who may see them. Raises StartError."""
    at = settings.metrics_at
    key = read_key(settings.metrics_key) if settings.metrics_key is not None else None
    shared_health, scrapes = Shared(health, HEALTH_KEPT_S), Scrapes(metrics)

    async def show_health(_headers: Mapping[str, str], _client: str) -> HttpResponse:
        return await shared_health.get()

    async def show_metrics(headers: Mapping[str, str], client: str) -> HttpResponse:
        if key is not None:
            if not has_key(headers, key):
                return _UNAUTHORIZED
        elif settings.verifies and at is None and not is_here(headers, client):
            return _FORBIDDEN
        return await scrapes.get(headers)

    own: dict[str, Page] = {"/health": show_health}
    if settings.metrics == METRICS_ON:
        own[_METRICS] = show_metrics
    if at is None:
        return WebPages(own, None)
    server = HttpServer(
        _unknown,
        {_METRICS: show_metrics},
        HttpSettings(
            body_bytes_max=0,
            grace_s=_GRACE_S,
            connections_max=_CONNECTIONS_MAX,
            tls=tls_files(settings),
        ),
        Overload(OverloadSettings(), lambda: 0, entropy),
        None,
        # No page has the key, and another address than loopback is for who can reach it.
        foreign_pages.refusal if key is None and is_loopback(at[0]) else refuse_none,
    )
    return WebPages(own, server)


async def queue_names(
    registry: Registry, settings: ServerSettings, turns: Turns
) -> list[QueueName]:
    """Queues of the default account, QUEUES_MAX of them at most. Raises CellUnavailableError."""
    account, region = settings.account, settings.region

    async def page(after: str) -> dict[str, str]:
        limit = _NAMES_IN_A_TURN
        own = await registry.names(account, region, prefix="", after=after, limit=limit)
        return {name: name for name in own}

    return [(account, region, name) for name in await _walked(page, turns)]


async def kinesis_queue_ids(
    queues: KinesisQueues, settings: ServerSettings, turns: Turns
) -> list[QueueName]:
    """As `queue_names`, queues of the Kinesis API with their ids."""
    account, region = settings.account, settings.region

    async def page(after: str) -> dict[str, str]:
        own = await queues.page(account, region, after=after, limit=_NAMES_IN_A_TURN)
        return {one.name: one.attributes.get(KINESIS_ID, "") for one in own}

    return [(account, region, queue_id) for queue_id in await _walked(page, turns)]


async def _walked(page: Callable[[str], Awaitable[Mapping[str, str]]], turns: Turns) -> list[str]:
    """What pages of _NAMES_IN_A_TURN have by name, each behind the last name of the one before."""
    found: list[str] = []
    after = ""
    while len(found) < QUEUES_MAX:
        own = await page(after)
        found += own.values()
        if len(own) < _NAMES_IN_A_TURN:
            break
        after = list(own)[-1]
        await turns.rest()
    return found


async def _unknown(_request: HttpRequest) -> HttpResponse:
    return UNKNOWN_OPERATION


@asynccontextmanager
async def metrics_served(
    server: HttpServer | None,
    listener: socket.socket | None,
    stop: asyncio.Event,
    log: LogWriter,
) -> AsyncIterator[None]:
    """Serve metrics at their own address meanwhile; queues are served also where that fails."""
    if server is None or listener is None:
        yield
        return

    async def serve() -> None:
        try:
            await server.serve(stop, listener, _nobody_waits)
        except Exception as error:  # noqa: BLE001 - serving goes on, and the log says it all
            log.event("error", "metrics are not served", traceback=traceback_text(error))

    serving = asyncio.create_task(serve())
    try:
        yield
    finally:
        stop.set()
        await serving


def _nobody_waits() -> None:
    """What is done when metrics are served at their own address: nothing."""


def check_pages(settings: ServerSettings) -> None:
    """Raise StartError unless the file that the settings name has a key."""
    if settings.metrics_key is not None:
        read_key(settings.metrics_key)


def read_key(path: Path) -> bytes:
    """The key in this file. Raises StartError."""
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            key = file.read(2048).strip()
    except OSError as error:
        raise StartError(f"metrics-key: {path}: {error.strerror}") from error
    if mode & _FOR_ALL:
        raise StartError(f"metrics-key: {path}: others may use it (mode {mode:o}); chmod 640 it")
    if _KEY.fullmatch(key) is None:
        raise StartError(
            f"metrics-key: {path}: a key has 16 to 1024 characters without spaces;"
            f" openssl rand -hex 32 > {path}"
        )
    return key


def has_key(headers: Mapping[str, str], key: bytes) -> bool:
    """Whether the request shows the key; how long that takes tells nothing of it."""
    scheme, _, shown = (headers.get("authorization") or "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(shown.strip().encode(), key)


def is_here(headers: Mapping[str, str], client: str) -> bool:
    """Whether who asks is on this machine, and no proxy or page on it asks for somebody else."""
    address = client.rpartition(":")[0].strip("[]")
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    if not found.is_loopback or any(name in headers for name in _FORWARDED):
        return False
    host = headers.get("host") or ""
    return is_loopback(host_name(host)) and not foreign(headers.items())
