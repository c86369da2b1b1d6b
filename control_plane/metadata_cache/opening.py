"""The nodes that settings name, opened. Nothing is asked of them yet: a start needs none."""

import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from control_plane.metadata_cache.memcached import (
    ANSWER_S,
    RULES,
    THREADS_MAX,
    MemcachedNode,
    choose_node,
)
from control_plane.metadata_cache.nodes import CacheNodes
from data_plane.ports import Clock, Entropy, Offload, Waits
from data_plane.runtime.event_loop import EventLoopOffload
from data_plane.runtime.guard import Guard, OnChange
from data_plane.settings import WHOLE_COPY

_OWN_NAME_BYTES: Final = 8


class CacheSettings(NamedTuple):
    """Host and port of each node, and one of data_plane.settings.CACHE_LAYOUTS.

    `tls` is how they prove who they are (memcached.tls_context); None: they do not.
    """

    addresses: Sequence[tuple[str, int]]
    layout: str
    tls: ssl.SSLContext | None = None


class CachePorts(NamedTuple):
    """What a front end has for its cache; `on_change` is told of nodes that are left alone."""

    clock: Clock
    entropy: Entropy
    waits: Waits
    on_change: OnChange


@dataclass(frozen=True, slots=True)
class MetadataCache:
    """The shared cache as one front end has it: what it asks, its metrics, and its end."""

    nodes: CacheNodes
    memcached: tuple[MemcachedNode, ...]
    offloads: tuple[EventLoopOffload, ...] = ()

    def gauges(self) -> dict[str, dict[str, float]]:
        """Metrics, by node and name."""
        return {node.guard.name: node.gauges() for node in self.memcached}

    def close(self) -> None:
        """End the threads, and close the connections."""
        for offload in self.offloads:
            offload.close()
        for node in self.memcached:
            node.close()


def open_cache(
    settings: CacheSettings, ports: CachePorts, offload_of: Callable[[Guard], Offload]
) -> MetadataCache:
    """The cache of a front end. `offload_of` answers what makes calls behind a guard."""
    opened: list[MemcachedNode] = []
    for host, port in settings.addresses:
        guard = Guard(f"metadata-cache/{host}:{port}", ports.clock, ports.on_change, RULES)
        opened.append(MemcachedNode(host, port, offload_of(guard), guard, settings.tls))
    nodes = CacheNodes(
        opened,
        ports.clock,
        ports.waits,
        choose_node,
        own_name=ports.entropy.random_bytes(_OWN_NAME_BYTES).hex(),
        whole_copy=settings.layout == WHOLE_COPY,
    )
    return MetadataCache(nodes, tuple(opened))


def open_beside_event_loop(settings: CacheSettings, ports: CachePorts) -> MetadataCache:
    """The cache of a server: each node has threads of its own."""
    offloads: list[EventLoopOffload] = []

    def offload_of(guard: Guard) -> Offload:
        offloads.append(EventLoopOffload(THREADS_MAX, ports.clock, guard, patience_s=ANSWER_S))
        return offloads[-1]

    return replace(open_cache(settings, ports, offload_of), offloads=tuple(offloads))
