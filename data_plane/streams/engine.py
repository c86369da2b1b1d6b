"""The stream engine as its callers see it. Each method is a module of this package."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from data_plane.core.record import Numbered, OutgoingRecord, Put, PutCall
from data_plane.core.stream import Shard, Stream
from data_plane.ports import Cell, Clock, Entropy, Waits
from data_plane.stored.bodies import BodyStore
from data_plane.stored.data_keys import DataKeys
from data_plane.streams import (
    appending,
    lag,
    measuring,
    producers,
    reading,
    repeats,
    searching,
    tails,
    upkeep,
)
from data_plane.streams.appending import PutOutcome
from data_plane.streams.bounds import READ_BYTES_MAX
from data_plane.streams.consuming import StreamDefinitions, StreamSources
from data_plane.streams.desk import Access, Desk, access_of
from data_plane.streams.measuring import Measured
from data_plane.streams.reading import LookAgain, Place, Read
from data_plane.streams.slots import Produced


class Streams:
    """Streams on cells; `bodies` has, by cell, where those too big for its items go.

    Without `data_keys` no stream can have a KMS key. A read answers `read_bytes_max` of records,
    or one record. Methods raise CellUnavailableError where a cell fails them.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a front end is these ports
        self,
        cells: Mapping[str, Cell],
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
        bodies: Mapping[str, BodyStore] = MappingProxyType({}),
        data_keys: DataKeys | None = None,
        read_bytes_max: int = READ_BYTES_MAX,
    ) -> None:
        self._desk = Desk(cells, clock, entropy, waits, bodies, data_keys, read_bytes_max)

    async def put(
        self,
        stream: Stream,
        shard: Shard,
        records: Mapping[int, OutgoingRecord],
        call: PutCall,
        numbered: Numbered | None = None,
    ) -> PutOutcome:
        """Store the records, by position in the call, behind all others of the shard.

        What is answered as stored is durable. What a call that is repeated has stored before is
        answered as it was then; what a producer that numbers its records has, is STORED_BEFORE.
        """
        return await appending.append(self._at(stream, shard), records, call, numbered)

    async def produced(self, stream: Stream, shard: Shard, producer: bytes) -> Produced | None:
        """What a producer that numbers its records put into a closed shard; None for nothing."""
        return (await producers.of_closed(self._at(stream, shard))).get(producer)

    async def stored_of(
        self, stream: Stream, shard: Shard, call: bytes, wanted: AbstractSet[int]
    ) -> dict[int, Put]:
        """Where the records at these positions of a call are, of those that a shard has."""
        return await repeats.find(self._at(stream, shard), call, wanted)

    async def read(  # noqa: PLR0913 - what a reader asks for
        self,
        stream: Stream,
        shard: Shard,
        place: Place,
        *,
        records_max: int,
        until_us: int = 0,
        look_again: LookAgain | None = None,
    ) -> Read:
        """Up to so many records from a place on, of 10 MiB at most if of several.

        Waits for a first one until `until_us`; `look_again` may end that by what it raises. What is
        older than the retention is passed over.
        """
        return await reading.read(
            self._at(stream, shard),
            place,
            records_max=records_max,
            until_us=until_us,
            look_again=look_again,
        )

    async def latest(self, stream: Stream, shard: Shard) -> Place:
        """The place behind the last record that there is now."""
        return await reading.latest(self._at(stream, shard))

    async def place_of(self, stream: Stream, shard: Shard, offset: int) -> Place:
        """The place of the record at an offset; of one that is not there, of what comes after."""
        return await reading.place_of(self._at(stream, shard), offset)

    async def since(self, stream: Stream, shard: Shard, time_us: int) -> Place:
        """The place of the first record that arrived at this time or later."""
        at, now_us = self._at(stream, shard), self._desk.clock.now_us()
        eras = at.log.eras
        # All stamps up to this one are of before.
        before_us = eras.before_us(now_us, eras.world_us(now_us) - time_us + 1)
        return Place(await searching.first_since(at, before_us + 1))

    async def lag(self, stream: Stream, shard: Shard, offset: int) -> lag.Lag:
        """How much there is behind this offset, up to which a reader has read all."""
        return await lag.lag_behind(self._at(stream, shard), offset)

    def sources(self, known: StreamDefinitions) -> StreamSources:
        """The streams as queues read them."""
        return StreamSources(self._desk, known)

    async def measure(self, stream: Stream, known: Mapping[Shard, Measured]) -> None:
        """Look anew at what is known of the bytes in these shards.

        What was looked at is known, also where others could not be.
        """
        looks = [measuring.look(self._at(stream, shard), of) for shard, of in known.items()]
        for failure in filter(None, await self._desk.waits.all_of(looks)):
            raise failure

    def horizon_us(self, stream: Stream) -> int:
        """The last stamp of what has expired, in all of its shards."""
        return reading.horizon_us(self._at(stream, stream.shards[0]))

    async def close(self, stream: Stream, shard: Shard) -> int:
        """Append nothing to the shard any more: the stamp of its end."""
        return await appending.close(self._at(stream, shard))

    async def restamp(self, stream: Stream, shard: Shard) -> None:
        """Let what is stored of the shard stay for as long as the stream says.

        Takes time with what is stored.
        """
        await upkeep.restamp(self._at(stream, shard))

    async def trim(self, stream: Stream, shard: Shard) -> None:
        """Let what is stored of the shard go that a retention was lowered for."""
        await upkeep.trim(self._at(stream, shard))

    async def anchor(self, stream: Stream, shard: Shard) -> None:
        """Let the shard's offsets go on when its records are gone; to be called every hour."""
        await tails.anchor(self._at(stream, shard))

    @property
    def damaged_slots(self) -> int:
        """How many slots could not be read; they stay stored, and are passed over."""
        return self._desk.damaged_slots

    def _at(self, stream: Stream, shard: Shard) -> Access:
        return access_of(self._desk, stream, shard)
