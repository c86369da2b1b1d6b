"""`python -m tests.benchmarks.shared_metadata`: how often servers with a shared cache read.

Front ends' registries and accounts in one process, over one registry in memory that counts the
items it is asked for, and three nodes of memcached. What is asked is what every signed request
needs to know: its access key, its account's quotas, its queue.
"""

import argparse
import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from control_plane.accounts import Accounts
from control_plane.metadata_cache.cached_cell import CachedCell
from control_plane.metadata_cache.entries import Entries
from control_plane.metadata_cache.opening import (
    CachePorts,
    CacheSettings,
    MetadataCache,
    open_beside_event_loop,
)
from control_plane.registry import Registry
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, Key
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import CACHE_LAYOUTS
from data_plane.system import SystemClock, SystemEntropy
from tests.conformance.memcached_server import Memcached

SECRET: Final = bytes(32)
REGION: Final = "eu-west-1"
NODES: Final = 3
NONE: Final = "none"


class CountingCell(MemoryCell):
    """Counts the items that it is asked for."""

    reads = 0

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        self.reads += 1
        return await super().get(key, strong=strong)

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        self.reads += len(keys)
        return await super().get_many(keys, strong=strong)


@dataclass
class FrontEnd:
    registry: Registry
    accounts: Accounts
    cache: MetadataCache | None


def open_front_end(cell: MemoryCell, layout: str, nodes: Sequence[Memcached]) -> FrontEnd:
    clock, entropy = SystemClock(), SystemEntropy()
    cache = cached = None
    if layout != NONE:
        ports = CachePorts(clock, entropy, EventLoopWaits(clock), print)
        settings = CacheSettings([node.address for node in nodes], layout)
        cache = open_beside_event_loop(settings, ports)
        cached = CachedCell(cell, cache.nodes, Entries(SECRET), clock, entropy)
    asked = cached or cell
    registry = Registry(asked, ["a"], clock, entropy, secret=SECRET, recent=cached)
    return FrontEnd(registry, Accounts(asked, clock, entropy, SECRET, cached), cache)


async def measure(
    layout: str, servers: int, options: argparse.Namespace, nodes: Sequence[Memcached]
) -> str:
    cell, clock, dice = CountingCell(SystemClock()), SystemClock(), random.Random(1)
    maker = open_front_end(cell, NONE, nodes)
    account = await maker.accounts.create_account("bench")
    key = await maker.accounts.create_key(account.id)
    names = [f"queue-{number}" for number in range(options.queues)]
    for name in names:
        place = {"account": account.id, "region": REGION, "name": name}
        now_us = clock.now_us()
        wanted = maker.registry.define(**place, attributes={}, tags={}, now_us=now_us)
        await maker.registry.create(wanted, {}, now_us)
    front_ends = [open_front_end(cell, layout, nodes) for _ in range(servers)]
    cell.reads = requests = slowest_us = 0
    loop = asyncio.get_running_loop()
    until_s = loop.time() + options.seconds

    async def serve(front_end: FrontEnd) -> None:
        nonlocal requests, slowest_us
        while loop.time() < until_s:
            started_us = clock.now_us()
            assert await front_end.accounts.find_key(key.id) is not None
            await front_end.accounts.find_quotas(account.id)
            found = await front_end.registry.find(account.id, REGION, dice.choice(names))
            assert found is not None
            slowest_us = max(slowest_us, clock.now_us() - started_us)
            requests += 1
            # The load itself: requests that know nothing of each other.
            await asyncio.sleep(dice.expovariate(options.rate))

    await asyncio.gather(*(serve(front_end) for front_end in front_ends))
    left_alone = 0.0
    for front_end in front_ends:
        if front_end.cache is not None:
            gauges = front_end.cache.gauges().values()
            left_alone += sum(each["circuit_opened_total"] for each in gauges)
            front_end.cache.close()
    return (
        f"{layout:<11} {servers:>7} {requests:>9} {cell.reads:>9}"
        f" {cell.reads / requests * 1000:>11.1f} {slowest_us / 1000:>10.1f} {left_alone:>6.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Ask what requests need, and count reads.")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--rate", type=float, default=25, help="requests a second and server")
    parser.add_argument("--queues", type=int, default=10)
    options = parser.parse_args()
    nodes = [Memcached() for _ in range(NODES)]
    print("cache       servers  requests     reads  a thousand  slowest ms  opened")
    try:
        for servers in options.servers:
            for layout in (NONE, *CACHE_LAYOUTS):
                print(asyncio.run(measure(layout, servers, options, nodes)), flush=True)
    finally:
        for node in nodes:
            node.stop()


if __name__ == "__main__":
    main()
