"""The registry of streams: which exist, stored in a cell, answered from a bounded cache.

As with queues (registry.py) every write is a compare-and-set on the nonce of the write before it.
The items are described in docs/storage.md.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from control_plane.core import shard_map
from control_plane.core.definition import FORMAT
from control_plane.core.stream_definition import (
    ACTIVE,
    PROVISIONED,
    Resharding,
    StreamDefinition,
    decode,
    encode,
    key_of_stream,
)
from control_plane.core.to_drop import DELETED, key_of, stream_item
from control_plane.definition_room import DefinitionCount, text_bytes
from control_plane.last_known import Asked, LastKnown, Seen
from control_plane.recent_items import FromCell, RecentItems
from control_plane.registry import Placing, RoomForDefinitions
from data_plane.core.cell_clock import eras_of
from data_plane.core.errors import (
    INTERNAL_FAILURE,
    LIMIT_EXCEEDED,
    RESOURCE_IN_USE,
    RefusedError,
    stream_not_found,
)
from data_plane.core.identifiers import is_region
from data_plane.core.limits import STREAM_SHARDS_KEPT_MAX
from data_plane.core.sealing import TokenSeal
from data_plane.core.stream import Shard, Stream, is_stream_name
from data_plane.ports import ITEM_ABSENT, Attributes, Cell, Clock, Entropy, Equals, Key
from data_plane.protocol.operation import Permission

CACHED_STREAMS_MAX: Final = 10_000
ATTEMPTS_MAX: Final = 8
_LEADS: Final = "I|"
_TIME: Final = 8
_PAGE: Final = 100
_HOUR_US: Final = 3_600_000_000
_NONCE_BYTES: Final = 8
_UID_BYTES: Final = 8
_Name = tuple[str, str, str]
"""Account, region and name of a stream."""


class ShardLogs(Protocol):
    """What the registry asks of the engine."""

    async def close(self, stream: Stream, shard: Shard) -> int:
        """Append nothing to the shard any more: the stamp of its end."""
        ...

    def horizon_us(self, stream: Stream) -> int:
        """The last stamp of what has expired."""
        ...


class StreamRegistry:
    """Definitions of streams in `cell`; new ones are placed in one of `cells`, or by `placing`.

    From `secret`, the registry's own (32 bytes), follow those of the streams. What requests need is
    read from `recent`, where the cell itself need not be asked. `logs` are the streams' own. What
    is added has to have `room`. Clients are told for `settling_us` that a stream is made, or
    changed. Methods raise CellUnavailableError.
    """

    def __init__(  # noqa: PLR0913 - ports, and what its server decides
        self,
        cell: Cell,
        cells: Sequence[str],
        clock: Clock,
        entropy: Entropy,
        logs: ShardLogs,
        *,
        secret: bytes,
        recent: RecentItems | None = None,
        placing: Placing | None = None,
        room: RoomForDefinitions | None = None,
        settling_us: int = 0,
    ) -> None:
        self._cell = cell
        self._cells = tuple(cells)
        self._clock = clock
        self._entropy = entropy
        self._logs = logs
        self._secret = secret
        self._placing = placing
        self._room = room
        self._settling_us = settling_us
        self._recent = recent or FromCell(cell, clock)
        self._streams: LastKnown[_Name, Stream] = LastKnown(
            self._read_stream,
            clock,
            CACHED_STREAMS_MAX,
            absent_us=0,
            refresh_after_us=self._recent.refresh_after_us,
        )

    # Reading

    async def find(self, account: str, region: str, name: str) -> Stream | None:
        """The stream as of at most 5 s ago, or None where there is none.

        While the cell does not answer, or not within a second, the definition known last serves for
        10 minutes.
        """
        if not (is_region(region) and is_stream_name(name)):
            return None  # Policies are asked for before a request is validated.
        return await self._streams.find((account, region, name))

    async def read(self, account: str, region: str, name: str) -> StreamDefinition | None:
        """The definition as it is stored now, or None where there is no such stream."""
        item = await self._cell.get(key_of_stream(account, region, name))
        return None if item is None else decode(account, region, name, item)

    async def names(self, account: str, region: str, *, after: str, limit: int) -> list[str]:
        """Names of streams in order, those past `after`, at most `limit`."""
        found: list[str] = []
        position = after.encode()
        while len(found) < limit:
            items = await self._cell.query(
                _partition(account, region), after=position, limit=limit - len(found)
            )
            if not items:
                break
            position = items[-1].key.sort
            found += [item.key.sort.decode() for item in items]
        return found

    async def all_of(self, account: str, region: str) -> AsyncIterator[StreamDefinition]:
        """The definitions of an account's streams in a region, in order of their names."""
        position = b""
        while items := await self._cell.query(
            _partition(account, region), after=position, limit=_PAGE
        ):
            position = items[-1].key.sort
            for item in items:
                yield decode(account, region, item.key.sort.decode(), item.attributes)

    async def everywhere(self, after: bytes = b"") -> AsyncIterator[StreamDefinition]:
        """The definitions of all streams, in order of when they were made.

        Those behind the one of which `after` is the `place_of`.
        """
        position = after
        while items := await self._cell.query(_LEADS, after=position, limit=_PAGE):
            position = items[-1].key.sort
            for item in items:
                account, region, name = str(item.attributes["n"]).split("|")
                definition = await self.read(account, region, name)
                if definition is not None and definition.uid.encode() == item.key.sort[_TIME:]:
                    yield definition

    async def has_any(self) -> bool:
        """Whether there is a stream at all, or was a moment ago."""
        return bool(await self._cell.query(_LEADS, limit=1))

    async def renewed(self, stream: Stream) -> Stream:
        """The definition as it is now, once a change of its shards that is under way is done.

        Raises RefusedError (ResourceNotFound) where the stream is not there any more.
        """
        return self.stream(await self.complete(stream))

    def stream(self, definition: StreamDefinition) -> Stream:
        """What the data plane must know of a stream of this registry, its secret included."""
        return definition.to_stream(self._secret)

    async def policy_of(self, permission: Permission) -> str:
        """The resource policy of the stream that a permission is about; "" for none."""
        kind, _, name = permission.name.partition("/")
        if kind != "stream":
            return ""  # Consumer groups have none.
        stream = await self.find(permission.account, permission.region, name)
        return stream.policy if stream is not None else ""

    def token_seal(self, purpose: str) -> TokenSeal:
        """The seal of tokens for a purpose of its own."""
        return TokenSeal(self._secret, purpose)

    async def _read_stream(self, name: _Name) -> Seen[Stream]:
        key = key_of_stream(*name)
        recent = await self._recent.recent([key])
        item = recent.items.get(key)
        stream = None if item is None else self.stream(decode(*name, item))
        return Seen(stream, recent.asked_us)

    # Changing

    def define(  # noqa: PLR0913 - what a request says of a new stream
        self,
        *,
        account: str,
        region: str,
        name: str,
        shards: int,
        mode: str = PROVISIONED,
        kept_hours: int = 0,
        record_kib_max: int = 1024,
        spreads: bool = False,
        tags: Mapping[str, str],
    ) -> StreamDefinition:
        """A definition with a new uid, placed in a cell; nothing is stored."""
        uid = self._entropy.random_bytes(_UID_BYTES).hex()
        now_us = self._clock.now_us()
        return StreamDefinition(
            account=account,
            region=region,
            name=name,
            uid=uid,
            cell=self._place(uid),
            created_ms=now_us // 1_000,
            creating_until_ms=(now_us + self._settling_us) // 1_000 if self._settling_us else 0,
            mode=mode,
            shards=shard_map.first_shards(shards, now_us // 1_000_000),
            kept_hours=kept_hours,
            record_kib_max=record_kib_max,
            spreads=spreads,
            tags=tags,
        )

    def _place(self, uid: str) -> str:
        if self._placing is not None:
            return self._placing.place(uid, {})
        return self._cells[int(uid, 16) % len(self._cells)]

    async def create(self, wanted: StreamDefinition) -> StreamDefinition:
        """Store the new stream.

        Raises RefusedError: ResourceInUse where the name is taken, OverLimit beyond a quota.
        """
        stored = replace(wanted, nonce=self._entropy.random_bytes(_NONCE_BYTES))
        item = encode(stored)
        counted = DefinitionCount(streams=1, size_bytes=text_bytes(item))
        if self._room is not None:
            await self._room.take(wanted.account, wanted.region, counted)
        # First: one too many leads to nothing, one too few leaves a stream without upkeep.
        name = f"{wanted.account}|{wanted.region}|{wanted.name}"
        await self._cell.put(_lead(wanted), {"v": FORMAT, "n": name})
        if self._placing is not None:
            await self._placing.placed(wanted)
        key = key_of_stream(wanted.account, wanted.region, wanted.name)
        asked = self._streams.asking()
        written = await self._cell.put(key, item, ITEM_ABSENT)
        occupant = item if written.applied else written.before or {}
        if occupant.get("u") != wanted.uid:
            await self._cell.delete(_lead(wanted))
            if self._placing is not None:
                await self._placing.gone(wanted.uid, wanted.cell)
            await self._give_back(wanted, counted)
            raise stream_exists(wanted.name, wanted.account)
        # Its own, whose reply was lost: somebody may have changed it since.
        present = decode(wanted.account, wanted.region, wanted.name, occupant)
        self._note_stored(present, asked)
        return present

    async def change(
        self,
        known: Stream | StreamDefinition,
        edit: Callable[[StreamDefinition], StreamDefinition],
    ) -> StreamDefinition:
        """Replace the definition by what `edit` makes of it; a no-op is not written.

        `edit` may run several times, and its RefusedError goes to the caller. Raises RefusedError:
        ResourceNotFound if the stream is not there any more, OverLimit beyond a quota.
        """
        account, region, name = known.account, known.region, known.name
        key = key_of_stream(account, region, name)
        nonce = self._entropy.random_bytes(_NONCE_BYTES)
        asked = self._streams.asking()
        occupant = await self._cell.get(key)
        for _ in range(ATTEMPTS_MAX):
            before = _decoded(known, occupant)
            edited = edit(before)
            if edited == before:
                self._note_read(before, asked)
                return before
            stored = replace(edited, version=before.version + 1, nonce=nonce)
            item = encode(stored)
            grown = DefinitionCount(size_bytes=text_bytes(item) - text_bytes(occupant or {}))
            if grown.size_bytes > 0 and self._room is not None:
                await self._room.take(account, region, grown)
            condition = ((Equals("w", before.nonce),),)
            asked = self._streams.asking()
            written = await self._cell.put(key, item, condition)
            if written.applied or (written.before or {}).get("w") == nonce:
                if grown.size_bytes < 0:
                    await self._give_back(known, DefinitionCount(size_bytes=-grown.size_bytes))
                self._note_stored(stored, asked)
                return stored
            if grown.size_bytes > 0:
                await self._give_back(known, grown)
            occupant = written.before
        raise RefusedError(INTERNAL_FAILURE, f"Too many concurrent changes of stream {name}.")

    async def delete(self, stream: Stream) -> None:
        """Remove the definition, and leave the records to the sweep.

        The sweep's item comes first: it does nothing while the stream is there, so a crash between
        the two writes neither loses a stream nor leaves records behind. Raises RefusedError
        (ResourceNotFound).
        """
        definition = _decoded(stream, await self._cell.get(_key_of(stream)))
        dropped = key_of(DELETED, stream.uid, self._clock.now_us())
        await self._cell.put(dropped, stream_item(self.stream(definition)))
        condition = ((Equals("u", stream.uid),),)
        written = await self._cell.delete(_key_of(stream), condition)
        self._streams.changed((stream.account, stream.region, stream.name), None)
        if not written.applied and written.before is not None:
            raise stream_not_found(stream.name, stream.account)
        last = _decoded(stream, written.before) if written.before else definition
        if last.shards != definition.shards:  # Somebody has just split one, or merged two.
            await self._cell.put(dropped, stream_item(self.stream(last)))
        await self._cell.delete(_lead(definition))
        if written.applied:  # Else somebody else did, or a write whose reply was lost.
            gone = DefinitionCount(streams=1, size_bytes=text_bytes(written.before or {}))
            await self._give_back(stream, gone)

    async def _give_back(self, stream: Stream | StreamDefinition, less: DefinitionCount) -> None:
        if self._room is not None:
            await self._room.give_back(stream.account, stream.region, less)

    async def reshard(
        self,
        stream: Stream,
        plan: Callable[[StreamDefinition], Resharding | None],
    ) -> StreamDefinition:
        """Change the shards as `plan` says, and answer when that is done; None: nothing to do.

        The plan is stored first, so whoever finds it goes on with it; a change that was under way
        is completed before. `plan` raises RefusedError where the shards do not allow it, and so
        does this (LimitExceeded) where the stream would have too many, closed ones among them.
        """
        await self.complete(stream)

        def begin(definition: StreamDefinition) -> StreamDefinition:
            check_active(definition, self._clock.now_us())
            planned = plan(definition)
            if planned is not None:
                kept = shard_map.forgotten(definition.shards, self.removable_us(definition))
                _check_kept(definition, len([*kept, *planned.children]))
            return replace(definition, resharding=planned)

        begun = await self.change(stream, begin)
        return begun if begun.resharding is None else await self._carry_out(begun)

    def updating(self, definition: StreamDefinition) -> StreamDefinition:
        """The definition, of which clients of a test bed are told for a while that it changes."""
        if not self._settling_us:
            return definition
        until_us = self._clock.now_us() + self._settling_us
        return replace(definition, updating_until_ms=until_us // 1_000)

    def horizon_us(self, definition: StreamDefinition) -> int:
        """The last stamp of what has expired of the stream, as this definition has it."""
        return self._logs.horizon_us(self.stream(definition))

    def readable_above_us(self, definition: StreamDefinition) -> int:
        """The last stamp of what nobody reads any more, by the clock of this server."""
        span_us = definition.retention_hours * _HOUR_US
        past_us = eras_of(self._clock).before_us(self._clock.now_us(), span_us)
        return max(past_us, definition.expired_us)

    def removable_us(self, definition: StreamDefinition) -> int:
        """The last stamp of what may go for good: a clock that was ahead may have been wrong."""
        span_us = definition.hours_kept * _HOUR_US
        return eras_of(self._clock).removable_us(self._clock.now_us(), span_us)

    async def complete(self, stream: Stream) -> StreamDefinition:
        """Go on with a change of the shards that somebody has begun, if there is one."""
        asked = self._streams.asking()
        item = await self._cell.get(_key_of(stream))
        try:
            definition = _decoded(stream, item)
        except RefusedError:
            # There may be another one by now, which is to be found.
            self._streams.changed((stream.account, stream.region, stream.name))
            raise
        if definition.resharding is None:
            self._note_read(definition, asked)
            return definition
        return await self._carry_out(definition)

    async def _carry_out(self, definition: StreamDefinition) -> StreamDefinition:
        """End the parents' logs, then let the children take records: a bounded number of writes."""
        resharding = definition.resharding
        if resharding is None:
            return definition
        stream = self.stream(definition)
        by_number = {shard.number: shard for shard in definition.shards}
        ended_us = {
            number: await self._logs.close(stream, by_number[number])
            for number in resharding.parents
        }
        removable_us = self.removable_us(definition)

        def done(present: StreamDefinition) -> StreamDefinition:
            if present.resharding != resharding:
                return present  # Somebody else was faster.
            shards = shard_map.carried_out(present.shards, resharding, ended_us)
            kept = shard_map.forgotten(shards, removable_us)
            return self.updating(replace(present, shards=kept, resharding=None))

        return await self.change(definition, done)

    def _note_read(self, definition: StreamDefinition, asked: Asked) -> None:
        """What was read when it was asked for shows at once, unless there was more since."""
        self._streams.learnt(_name_of(definition), self.stream(definition), asked)

    def _note_stored(self, definition: StreamDefinition, asked: Asked) -> None:
        """Own changes show at once. What others stored before the reply came is read anew."""
        self._streams.changed(_name_of(definition), self.stream(definition), asked)


def stream_exists(name: str, account: str) -> RefusedError:
    """The name is taken."""
    return RefusedError(RESOURCE_IN_USE, f"Stream {name} under account {account} already exists.")


def check_active(definition: StreamDefinition, now_us: int) -> None:
    """Raise RefusedError (ResourceInUse) while the stream is made, or changed."""
    status = definition.status_at(now_us)
    if status != ACTIVE:
        raise RefusedError(
            RESOURCE_IN_USE,
            f"Stream {definition.name} under account {definition.account} not ACTIVE, instead in"
            f" state {status}",
        )


def _check_kept(definition: StreamDefinition, shards: int) -> None:
    """Raise RefusedError (LimitExceeded) for more shards than a definition has room for."""
    if shards > STREAM_SHARDS_KEPT_MAX:
        raise RefusedError(
            LIMIT_EXCEEDED,
            f"Stream {definition.name} under account {definition.account} would have {shards}"
            f" shards with those that are closed and kept. Limit: {STREAM_SHARDS_KEPT_MAX}.",
        )


def place_of(definition: StreamDefinition) -> bytes:
    """Where a stream is among all."""
    return _lead(definition).sort


def _decoded(known: Stream | StreamDefinition, item: Attributes | None) -> StreamDefinition:
    """The definition of this very stream. Raises RefusedError (ResourceNotFound)."""
    if item is None:
        raise stream_not_found(known.name, known.account)
    definition = decode(known.account, known.region, known.name, item)
    if definition.uid != known.uid:
        raise stream_not_found(known.name, known.account)
    return definition


def _name_of(definition: StreamDefinition) -> _Name:
    return definition.account, definition.region, definition.name


def _lead(definition: StreamDefinition) -> Key:
    return Key(_LEADS, definition.created_ms.to_bytes(_TIME, "big") + definition.uid.encode())


def _partition(account: str, region: str) -> str:
    return key_of_stream(account, region, "").partition


def _key_of(stream: Stream) -> Key:
    return key_of_stream(stream.account, stream.region, stream.name)
