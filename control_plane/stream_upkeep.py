"""Upkeep of streams: a step every minute or so, by any server; several at once do no harm."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

from control_plane.consumer_groups.forgetting import Forgetting
from control_plane.core import shard_map
from control_plane.core.stream_definition import StreamDefinition
from control_plane.last_known import LAST_KNOWN_US_MAX
from control_plane.streams import StreamRegistry, place_of
from data_plane.core.errors import STREAM_NOT_FOUND, RefusedError
from data_plane.ports import CellUnavailableError, Clock
from data_plane.streams.engine import Streams

STREAMS_EVERY_S: Final = 60.0
"""How often a server looks after its streams."""

_ALL_KNOW_US: Final = LAST_KNOWN_US_MAX + 300_000_000
"""After this no front end goes by a definition of before."""


class LookedAfter(NamedTuple):
    """Behind which stream to go on (None: there are no more), and what one failed of."""

    left: bytes | None
    failure: CellUnavailableError | None


class StreamUpkeep:
    """What streams need beside requests, over one registry, its engine and its groups."""

    def __init__(
        self, registry: StreamRegistry, engine: Streams, groups: Forgetting, clock: Clock
    ) -> None:
        self._registry = registry
        self._engine = engine
        self._groups = groups
        self._clock = clock

    async def step(self) -> None:
        """Look after every stream once. Raises CellUnavailableError, when it has tried all."""
        walked = await self.walk()
        if walked.failure is not None:
            raise walked.failure

    async def walk(
        self, after: bytes = b"", is_late: Callable[[], bool] = lambda: False
    ) -> LookedAfter:
        """Look after streams, those behind `after`, until it is late.

        Raises CellUnavailableError where the registry does not answer.
        """
        failure: CellUnavailableError | None = None
        left: bytes | None = None
        async for definition in self._registry.everywhere(after):
            try:
                await self._look_after(definition)
            except CellUnavailableError as error:
                failure = error
            except RefusedError as refusal:
                if refusal.fault is not STREAM_NOT_FOUND:
                    raise
                # It was deleted meanwhile.
            if is_late():
                left = place_of(definition)
                break
        return LookedAfter(left, failure)

    async def _look_after(self, definition: StreamDefinition) -> None:
        stream = self._registry.stream(definition)
        if definition.resharding is not None:
            definition = await self._registry.complete(stream)
            stream = self._registry.stream(definition)
        for shard in stream.open_shards:
            await self._engine.anchor(stream, shard)
        if definition.raised_ms:
            await self._keep_for_longer(definition)
            definition = await self._as_now(definition)
        if definition.trimmed_until_ms:
            await self._trim(definition)
            definition = await self._as_now(definition)
        stream = self._registry.stream(definition)
        expired_us = self._registry.removable_us(definition)
        left = partial(shard_map.forgotten, expired_us=expired_us)
        gone = set(definition.shards).difference(left(definition.shards))
        if gone:
            # First: of a shard that is not known any more nobody knows the offsets.
            await self._groups.forget(stream, {shard.number for shard in gone})
            await self._registry.change(
                definition, lambda known: replace(known, shards=left(known.shards))
            )

    async def _as_now(self, definition: StreamDefinition) -> StreamDefinition:
        """The definition after what may have taken hours: more may be to be kept by now."""
        return await self._registry.change(definition, lambda known: known)

    async def _trim(self, definition: StreamDefinition) -> None:
        """Let what is past a retention that was lowered go before its time to live is over."""
        stream = self._registry.stream(definition)
        for shard in stream.shards:
            await self._engine.trim(stream, shard)
        if self._clock.now_us() // 1_000 > definition.trimmed_until_ms:
            await self._cleared(definition, "trimmed_until_ms")

    async def _keep_for_longer(self, definition: StreamDefinition) -> None:
        """Re-stamp what is stored, and for good once nobody appends by an older definition.

        What is to stay has an hour, and what is appended meanwhile a day.
        """
        began_us = self._clock.now_us()
        stream = self._registry.stream(definition)
        for shard in stream.shards:
            await self._engine.restamp(stream, shard)
        if began_us - definition.raised_ms * 1_000 >= _ALL_KNOW_US:
            await self._cleared(definition, "raised_ms")

    async def _cleared(self, definition: StreamDefinition, mark: str) -> None:
        """Set a mark of the definition to 0, unless somebody has set it anew meanwhile."""
        cleared_mark: dict[str, Any] = {mark: 0}

        def cleared(known: StreamDefinition) -> StreamDefinition:
            if getattr(known, mark) != getattr(definition, mark):
                return known
            return replace(known, **cleared_mark)

        await self._registry.change(definition, cleared)
