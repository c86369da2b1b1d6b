"""A node of the shared cache that speaks memcached's protocol, through pymemcache.

Its PooledClient, one for each node: the library's HashClient is not safe in threads
(https://github.com/pinterest/pymemcache/issues/124). The placement is that of HashClient.
"""

import logging
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, TypeVar

from pymemcache.client.base import PooledClient
from pymemcache.client.rendezvous import RendezvousHash
from pymemcache.exceptions import (
    MemcacheError,
    MemcacheServerError,
    MemcacheUnexpectedCloseError,
)

from control_plane.metadata_cache.entries import ENTRY_BYTES_MAX
from control_plane.metadata_cache.nodes import ANSWER_US, Held, NodeCounters
from data_plane.core.circuit_breaker import BreakerRules
from data_plane.ports import CellFullError, CellUnavailableError, Offload
from data_plane.runtime.guard import Guard
from data_plane.settings import CACHE_TLS_OFF, CACHE_TLS_ON

T = TypeVar("T")

RULES: Final = BreakerRules(outcomes_max=5, weight_min=3, open_us=60_000_000, probes=1)
"""Three failures among five looks, and a node is left alone for a minute; then one look tries it.
So one that hangs costs three requests ANSWER_US, and then one request a minute."""

THREADS_MAX: Final = 2
"""Of one node beside an event loop."""

ANSWER_S: Final = ANSWER_US / 1_000_000
HANDSHAKE_S: Final = 0.05
"""For a connection, and for its TLS: it takes more than an answer, and comes before many."""

_IDLE_S: Final = 20
"""A connection that was not used for so long is closed: a firewall may have forgotten it."""

_ANSWER_BYTES_MAX: Final = 4 * ENTRY_BYTES_MAX

_DAMAGE: Final = (MemcacheError, ValueError, KeyError, IndexError, TypeError)
"""What pymemcache raises over answers that are none."""

LOG: Final = logging.getLogger(__name__)


class _BoundedSocket(socket.socket):
    """A connection whose answers are bounded as a whole, in time and in bytes.

    A time-out of a socket alone starts anew with each byte that arrives.
    """

    _until_s = 0.0
    _left_bytes = 0

    def sendall(self, *args: Any) -> None:
        """Send a command; its answer is what arrives from now on."""
        self._until_s = time.monotonic() + ANSWER_S
        self._left_bytes = _ANSWER_BYTES_MAX
        self.settimeout(ANSWER_S)
        super().sendall(*args)

    def recv(self, *args: Any) -> bytes:
        """Receive a part of the answer. Raises TimeoutError, ValueError."""
        if not self._until_s:
            # The module ssl sees whether somebody spoke before the handshake.
            return super().recv(*args)
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the answer took too long")
        self.settimeout(left_s)
        received = super().recv(*args)
        self._left_bytes -= len(received)
        if self._left_bytes < 0:
            raise ValueError("the answer is too big")
        return received


class _BoundedTlsSocket(_BoundedSocket, ssl.SSLSocket):
    """The same over TLS, whose socket class a context is told."""


class CacheTlsError(Exception):
    """The file of authorities cannot be used; the message is one line."""


def tls_context(setting: str) -> ssl.SSLContext | None:
    """How nodes are to prove who they are (data_plane.settings.metadata_cache_tls); None: not.

    Their certificates have to be for the host, name or address, that the setting of nodes names.
    Raises CacheTlsError.
    """
    if setting == CACHE_TLS_OFF:
        return None
    try:
        context = ssl.create_default_context(cafile=None if setting == CACHE_TLS_ON else setting)
    except ssl.SSLError as error:
        raise CacheTlsError(f"{setting} has no certificate in PEM form") from error
    except OSError as error:
        raise CacheTlsError(f"{setting}: {error.strerror}") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.sslsocket_class = _BoundedTlsSocket
    return context


_SOCKETS: Final = SimpleNamespace(**{**vars(socket), "socket": _BoundedSocket})
"""The module `socket` with our own class in it, as pymemcache takes it."""


class MemcachedNode:
    """Implements the port CacheNode for one address; `guard` stands before `offload`.

    With `tls` (tls_context) nothing is said in clear, nor to anybody who cannot prove to be it.
    """

    def __init__(
        self,
        host: str,
        port: int,
        offload: Offload,
        guard: Guard,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = address_text(host, port)
        self.counters = NodeCounters()
        self.guard = guard
        self._offload = offload
        self._client = PooledClient(
            (host, port),
            connect_timeout=ANSWER_S if tls is None else max(ANSWER_S, HANDSHAKE_S),
            timeout=ANSWER_S,
            no_delay=True,
            pool_idle_timeout=_IDLE_S,
            socket_module=_SOCKETS,
            tls_context=tls,
        )

    @property
    def is_left_alone(self) -> bool:
        """Whether it has failed, and a call would not be made."""
        return self.guard.is_open

    async def find(self, names: Sequence[str]) -> Mapping[str, Held]:
        """What it has under these names."""
        found = await self._call(lambda: self._client.gets_many(list(names)))
        return {name: Held(*held) for name, held in found.items()}

    async def replace(self, name: str, value: bytes, seen: Held | None, ttl_s: int) -> bool:
        """Put a value where `seen` still is (None: nothing); whether that was so."""
        client = self._client
        if seen is None:
            done = await self._call(lambda: client.add(name, value, expire=ttl_s, noreply=False))
        else:
            version = seen.version
            done = await self._call(lambda: client.cas(name, value, version, expire=ttl_s))
        return done is True

    async def put(self, name: str, value: bytes, ttl_s: int) -> None:
        """Put a value, whatever is there."""
        await self._call(lambda: self._client.set(name, value, expire=ttl_s, noreply=False))

    def gauges(self) -> dict[str, float]:
        """Metrics, by name."""
        counters = self.counters
        return {
            **self.guard.gauges(),
            "hits_total": counters.hits,
            "misses_total": counters.absent + counters.outdated + counters.damaged,
            "outdated_total": counters.outdated,
            "damaged_total": counters.damaged,
            "fills_total": counters.fills,
        }

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    async def _call(self, call: Callable[[], T]) -> T:
        def answered() -> T:
            try:
                return call()
            except ssl.SSLError as error:
                # Nobody would see but that the node is never used.
                LOG.warning("%s does not speak TLS as it should: %s", self.name, error)
                raise CellUnavailableError(f"{self.name} speaks no TLS: {error}") from error
            except (MemcacheUnexpectedCloseError, OSError) as error:
                raise CellUnavailableError(f"{self.name} does not answer: {error}") from error
            except MemcacheServerError as error:
                raise CellFullError(f"{self.name} refuses: {error}") from error
            except _DAMAGE as error:
                raise CellUnavailableError(f"{self.name} answers nonsense: {error!r}") from error

        return await self._offload(answered)


def choose_node(name: str, nodes: Sequence[str]) -> str | None:
    """By rendezvous hashing: the node that scores highest for this name."""
    chosen: str | None = RendezvousHash(list(nodes)).get_node(name)
    return chosen


def address_text(host: str, port: int) -> str:
    """The address as one text, as HashClient has it: what placement rests on."""
    return f"{host}:{port}"
