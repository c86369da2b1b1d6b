"""PutRecord and PutRecords: records go to the shards of their hash keys, behind all others."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count, groupby, pairwise
from typing import Final

from data_plane.core.digests import call_hash, producer_hash
from data_plane.core.errors import (
    FENCED_PRODUCER,
    INVALID_ARGUMENT,
    THROUGHPUT_EXCEEDED,
    RefusedError,
    stream_not_found,
)
from data_plane.core.record import STORED_BEFORE, Numbered, OutgoingRecord, Put, PutCall
from data_plane.core.sequence_number import parse, sequence_numbers
from data_plane.core.stream import HASH_KEY_MAX, Shard, Stream, hash_key_of
from data_plane.operations.stream_address import (
    KnownStreams,
    end_dry_run,
    named,
    permission,
    shard_id,
    stream_of,
)
from data_plane.operations.strict_streams import StrictStreams
from data_plane.ports import CellUnavailableError, Waits
from data_plane.protocol.constraints import blob_too_long, missing, refuse
from data_plane.protocol.operation import Call, Operation, Params, Work
from data_plane.protocol.stream_shapes import (
    BEFORE,
    EPOCH,
    PRODUCER,
    PUT_RECORD_INPUT,
    PUT_RECORD_OUTPUT,
    PUT_RECORDS_INPUT,
    PUT_RECORDS_OUTPUT,
    SEQUENCE,
)
from data_plane.streams.appending import PutOutcome, ShardClosedError
from data_plane.streams.bounds import REPEATS_US
from data_plane.streams.engine import Streams
from data_plane.streams.producers import check_epoch

PUT_BYTES_MAX: Final = 10 * 1024 * 1024
PAYLOAD_UNIT_BYTES: Final = 25 * 1024
"""AWS bills each record by units of so much, begun ones included."""

_ROUNDS_MAX: Final = 4
"""How often records follow shards that are split or merged while they are put."""

_KMS: Final = {"EncryptionType": "KMS"}


@dataclass(slots=True)
class _Putting:
    """Records on their way, and where those are that are stored, by position in the call.

    Those that `failed` may be stored or not: nobody puts them elsewhere within this call. They are
    `numbered` as their producer says.
    """

    stream: Stream
    records: Sequence[OutgoingRecord]
    hash_keys: Sequence[int]
    call: PutCall
    numbered: Numbered | None = None
    stored: dict[int, tuple[Shard, Put]] = field(default_factory=dict)
    failed: dict[int, Exception] = field(default_factory=dict)

    def shares(self) -> dict[Shard, list[int]]:
        """The positions of what is not stored yet, by the shard it goes to."""
        shares: dict[Shard, list[int]] = {}
        for position, hash_key in enumerate(self.hash_keys):
            if position not in self.stored and position not in self.failed:
                shares.setdefault(self.stream.shard_of(hash_key), []).append(position)
        return shares

    def stop_behind_failures(self) -> None:
        """Let fail what a producer numbers above a failed record of the shard that it goes to.

        A shard knows a producer by the last number: nothing below it is put there any more. What
        failed may have failed in a shard that was merged with others since.
        """
        failures: dict[Shard, Exception] = {}
        for position, hash_key in enumerate(self.hash_keys if self.failed else ()):
            shard = self.stream.shard_of(hash_key)
            if position in self.failed:
                failures.setdefault(shard, self.failed[position])
            elif position not in self.stored and shard in failures:
                self.failed[position] = failures[shard]

    def give_up(self, why: Exception) -> None:
        """Let fail what is not stored yet."""
        for positions in self.shares().values():
            self.failed.update(dict.fromkeys(positions, why))

    def left_in(self, shard: Shard) -> list[int]:
        """The positions of what is not stored yet, and may have gone to this shard.

        Where a stream spreads its records by itself, that depended on what was open.
        """
        return [
            position
            for position, hash_key in enumerate(self.hash_keys)
            if position not in self.stored
            and (self.stream.spreads or shard.first_hash <= hash_key <= shard.last_hash)
        ]


CheckRoom = Callable[[Stream, int], Awaitable[None]]
"""Raises RefusedError where so many bytes more are not to lie in a stream."""


class Puts:
    """Puts of records over one engine, as far as there is room, and rates of `strict` streams."""

    def __init__(
        self,
        engine: Streams,
        streams: KnownStreams,
        waits: Waits,
        check_room: CheckRoom | None = None,
        strict: StrictStreams | None = None,
    ) -> None:
        self._engine = engine
        self._streams = streams
        self._waits = waits
        self._check_room = check_room
        self._strict = strict
        self._turns = count()

    async def stream_for(self, call: Call) -> Stream:
        """The stream that a call puts into. Raises RefusedError."""
        stream = await stream_of(self._streams, named(call.account, call.region, call.params))
        if stream.creating_until_us > call.now_us:
            raise stream_not_found(stream.name, stream.account)
        return stream

    async def check_room(self, stream: Stream, size_bytes: int) -> None:
        """Raise RefusedError where so many bytes more are not to lie in the stream."""
        if self._check_room is not None:
            await self._check_room(stream, size_bytes)

    async def put(
        self, operation: str, call: Call, stream: Stream, entries: Sequence[Params]
    ) -> _Putting:
        """Store the records, each in its shard; those of one shard in their order."""
        numbered = _numbered(call, stream, entries)
        # What is numbered is known by that.
        named_call = PutCall()
        if numbered is None:
            named_call = _named_call(operation, call, stream, entries)
        # A call that is repeated takes the turns that it took before.
        turn = int.from_bytes(named_call.name) if named_call.name else next(self._turns)
        putting = _Putting(
            stream,
            [OutgoingRecord(entry.get("PartitionKey"), entry["Data"]) for entry in entries],
            _hash_keys(stream, entries, turn),
            named_call,
            numbered,
        )
        if self._strict is not None:
            _hold_back(self._strict, putting)
        if named_call.repeated:
            await self._find_in_closed(putting, call.now_us)
        for _ in range(_ROUNDS_MAX):
            if numbered is not None:
                await self._pass_over_in_closed(putting, numbered)
                putting.stop_behind_failures()
            if not await self._round(putting):
                break
            putting.stream = await self._streams.renewed(putting.stream)
            # That took time, in which another attempt of the call may have got ahead.
            putting.call = putting.call._replace(repeated=True)
            await self._find_in_closed(putting, call.now_us)
        else:
            putting.give_up(CellUnavailableError("shards end faster than records follow them"))
        failures = [one for one in putting.failed.values() if not _is_of_a_rate(one)]
        if not putting.stored and failures:
            raise failures[-1]
        return putting

    async def _pass_over_in_closed(self, putting: _Putting, numbered: Numbered) -> None:
        """What the producer put before its shard was closed: its records go elsewhere by now.

        Raises CellUnavailableError; RefusedError (FencedProducer).
        """
        for shard in putting.stream.shards:
            if shard.is_open or shard.was_never_open or not (left := putting.left_in(shard)):
                continue
            last = await self._engine.produced(putting.stream, shard, numbered.name)
            if last is None:
                continue
            check_epoch(numbered, last)
            for position in left:
                if numbered.sequences[position] <= last.sequence:
                    putting.stored[position] = (shard, STORED_BEFORE)

    async def _find_in_closed(self, putting: _Putting, now_us: int) -> None:
        """What the call stored before its shard was closed: its records go elsewhere by now."""
        for shard in putting.stream.shards if putting.call.name else ():
            if shard.is_open or shard.closed_us < now_us - REPEATS_US:
                continue
            left = set(putting.left_in(shard))
            found = await self._engine.stored_of(putting.stream, shard, putting.call.name, left)
            putting.stored.update({position: (shard, put) for position, put in found.items()})

    async def _round(self, putting: _Putting) -> bool:
        """Put what is not stored yet; whether some of it has to follow a shard that was closed."""
        shares = putting.shares()
        outcomes = await self._waits.all_of(
            [
                self._engine.put(
                    putting.stream,
                    shard,
                    {position: putting.records[position] for position in positions},
                    putting.call,
                    putting.numbered,
                )
                for shard, positions in shares.items()
            ]
        )
        moved_on = False
        for (shard, positions), outcome in zip(shares.items(), outcomes, strict=True):
            appended = outcome if isinstance(outcome, PutOutcome) else PutOutcome({}, outcome)
            puts = appended.stored
            putting.stored.update({position: (shard, put) for position, put in puts.items()})
            if isinstance(appended.failure, ShardClosedError):
                moved_on = True
            elif isinstance(appended.failure, CellUnavailableError | RefusedError):
                left = [position for position in positions if position not in puts]
                putting.failed.update(dict.fromkeys(left, appended.failure))
            elif appended.failure is not None:
                raise appended.failure
        return moved_on


def _hold_back(strict: StrictStreams, putting: _Putting) -> None:
    """Let fail what is beyond the rates of its shard, and what comes behind it there.

    Or numbers of a producer would be passed over.
    """
    for shard, positions in putting.shares().items():
        records = [putting.records[position] for position in positions]
        sizes_bytes = [len(one.data) + len((one.partition_key or "").encode()) for one in records]
        taken, refusal = strict.take_writes(putting.stream, shard, sizes_bytes)
        if refusal is not None:
            putting.failed.update(dict.fromkeys(positions[taken:], refusal))


def _is_of_a_rate(failure: Exception) -> bool:
    return isinstance(failure, RefusedError) and failure.fault is THROUGHPUT_EXCEEDED


def _hash_keys(stream: Stream, entries: Sequence[Params], turn: int) -> list[int]:
    """Where the records go. Raises RefusedError for a hash key that is none."""
    explicit = [entry.get("ExplicitHashKey") for entry in entries]
    for given in explicit:
        if given is not None and int(given) > HASH_KEY_MAX:
            raise RefusedError(
                INVALID_ARGUMENT,
                "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]."
                f" Specified value was {given}",
            )
    if stream.spreads:
        opened = stream.open_shards
        return [opened[(turn + n) % len(opened)].first_hash for n in range(len(entries))]
    return [
        int(given) if given is not None else hash_key_of(entry["PartitionKey"])
        for given, entry in zip(explicit, entries, strict=True)
    ]


def _numbered(call: Call, stream: Stream, entries: Sequence[Params]) -> Numbered | None:
    """How the call's records are numbered; None: not at all. Raises RefusedError."""
    producer = call.params.get(PRODUCER)
    texts = [text for entry in entries if (text := entry.get(SEQUENCE)) is not None]
    if producer is None and not texts:
        return None
    if producer is None or len(texts) < len(entries):
        raise RefusedError(
            INVALID_ARGUMENT,
            f"With {PRODUCER} each record has a {SEQUENCE}, and without it none has one.",
        )
    if stream.spreads:
        raise RefusedError(
            INVALID_ARGUMENT,
            f"Stream {stream.name} under account {stream.account} distributes records by itself:"
            f" {PRODUCER} needs a stream whose partition keys decide.",
        )
    sequences = [int(text) for text in texts]
    if any(later <= earlier for earlier, later in pairwise(sequences)):
        raise RefusedError(
            INVALID_ARGUMENT, f"Each {SEQUENCE} has to be above that of the record before it."
        )
    name = producer_hash(stream, f"{call.account} {producer}")
    return Numbered(name, call.params.get(EPOCH, 0), sequences)


def _named_call(operation: str, call: Call, stream: Stream, entries: Sequence[Params]) -> PutCall:
    """What a repeated call has in common with the first attempt, and no other call has.

    What is put is part of it, so that a client that reuses an invocation id loses nothing.
    """
    if not call.invocation_id:
        return PutCall()
    contents = sha256(usedforsecurity=False)
    for entry in entries:
        contents.update(entry["Data"])
    parts = [
        *(operation, call.account, stream.uid, call.invocation_id, contents.hexdigest()),
        [len(entry["Data"]) for entry in entries],
        [entry.get("PartitionKey") for entry in entries],
        [entry.get("ExplicitHashKey") for entry in entries],
    ]
    # The representation of lists is unambiguous, whatever the texts contain.
    return PutCall(call_hash(stream, repr(parts)), repeated=call.attempt > 1)


def put_record(puts: Puts) -> Operation:
    """PutRecord."""

    async def perform(call: Call) -> Params:
        stream = await puts.stream_for(call)
        size_bytes = _size_bytes(call.params)
        _check_entry(stream, call.params, size_bytes, "")
        ordered = call.params.get("SequenceNumberForOrdering")
        if ordered is not None:
            _check_ordering(stream, ordered, call.now_us)
        await puts.check_room(stream, size_bytes)
        end_dry_run(call.params)
        putting = await puts.put("PutRecord", call, stream, [call.params])
        if putting.failed:
            raise putting.failed[0]
        _note(call, [size_bytes])
        (answer,) = _answers(putting, 1)
        return {**answer, **_sealed_by(stream)}

    return Operation(
        "PutRecord",
        PUT_RECORD_INPUT,
        PUT_RECORD_OUTPUT,
        perform,
        on_queue=False,
        measure=lambda params, _output: _work([params], 0),
        permissions=permission("PutRecord"),
    )


def put_records(puts: Puts) -> Operation:
    """PutRecords: up to 500 records, each of which may fail by itself."""

    async def perform(call: Call) -> Params:
        stream = await puts.stream_for(call)
        entries = call.params["Records"]
        sizes_bytes = list(map(_size_bytes, entries))
        for position, (entry, size_bytes) in enumerate(zip(entries, sizes_bytes, strict=True)):
            if size_bytes > stream.record_bytes_max or "PartitionKey" not in entry:
                _check_entry(stream, entry, size_bytes, f"records.{position + 1}.member.")
        if sum(sizes_bytes) > PUT_BYTES_MAX:
            raise RefusedError(INVALID_ARGUMENT, "Records size exceeds 10 MB limit")
        await puts.check_room(stream, sum(sizes_bytes))
        end_dry_run(call.params)
        putting = await puts.put("PutRecords", call, stream, entries)
        new = [n for n, (_, put) in putting.stored.items() if put is not STORED_BEFORE]
        _note(call, [sizes_bytes[position] for position in new])
        return {
            "FailedRecordCount": len(entries) - len(putting.stored),
            "Records": _answers(putting, len(entries)),
            **_sealed_by(stream),
        }

    return Operation(
        "PutRecords",
        PUT_RECORDS_INPUT,
        PUT_RECORDS_OUTPUT,
        perform,
        on_queue=False,
        measure=_measure,
        permissions=permission("PutRecords"),
    )


_TOLD: Final = frozenset({FENCED_PRODUCER, THROUGHPUT_EXCEEDED})
"""Faults of single records that are told as such."""
_FAILED: Final = {"ErrorCode": "InternalFailure", "ErrorMessage": "Internal Service Failure"}


def _answers(putting: _Putting, count: int) -> list[Params]:
    """What is said of each record, in their order."""
    answers: list[Params] = [_FAILED] * count
    for position, failure in putting.failed.items():
        if isinstance(failure, RefusedError) and failure.fault in _TOLD:
            told = {"ErrorCode": failure.fault.shape, "ErrorMessage": failure.message}
            answers[position] = told
    for shard, items in groupby(putting.stored.items(), lambda item: item[1][0]):
        of_shard, shown = list(items), shard_id(shard.number)
        numbers = sequence_numbers(shard, (put for _, (_, put) in of_shard))
        for (position, _), number in zip(of_shard, numbers, strict=True):
            answers[position] = {"ShardId": shown, "SequenceNumber": number}
    for position, (shard, put) in putting.stored.items() if putting.numbered else ():
        if put is STORED_BEFORE:
            answers[position] = {"ShardId": shard_id(shard.number), BEFORE: True}
    return answers


def _sealed_by(stream: Stream) -> Params:
    return _KMS if stream.master_key_id else {}


def _size_bytes(entry: Params) -> int:
    return len(entry["Data"]) + len((entry.get("PartitionKey") or "").encode())


def _check_entry(stream: Stream, entry: Params, size_bytes: int, path: str) -> None:
    """Raise RefusedError (Validation) for a record without a key, or a bigger one than may be."""
    if entry.get("PartitionKey") is None and not stream.spreads:
        refuse([missing(f"{path}partitionKey")])
    if size_bytes > stream.record_bytes_max:
        refuse([blob_too_long(f"{path}data", stream.record_bytes_max)])


def _check_ordering(stream: Stream, text: str, now_us: int) -> None:
    """Raise RefusedError for what is no sequence number; every later one is greater anyway."""
    refusal = RefusedError(
        INVALID_ARGUMENT,
        f"ExclusiveMinimumSequenceNumber {text} used in PutRecord on stream {stream.name} under"
        f" account {stream.account} is invalid.",
    )
    if stream.spreads:
        raise refusal
    if text.strip("0") == "":
        return
    try:
        number = parse(text)
    except ValueError:
        raise refusal from None
    # Shards that follow others quickly begin some seconds ahead.
    latest_s = max(now_us // 1_000_000, *(shard.made_s for shard in stream.shards))
    if max(number.stamp_s, number.made_s) > latest_s + 1:
        raise refusal


def _measure(params: Params, output: Params) -> Work:
    stored, failed = params["Records"], output["FailedRecordCount"]
    if failed or PRODUCER in params:
        results = zip(stored, output["Records"], strict=True)
        stored = [entry for entry, result in results if "SequenceNumber" in result]
    return _work(stored, failed)


def _work(stored: Sequence[Params], failed: int) -> Work:
    sizes_bytes = list(map(_size_bytes, stored))
    units = sum([-(-size_bytes // PAYLOAD_UNIT_BYTES) or 1 for size_bytes in sizes_bytes])
    return Work(len(stored), sum(sizes_bytes), failed, sent=True, units=units)


def _note(call: Call, sizes_bytes: Sequence[int]) -> None:
    """Note what the call has stored; what a repeated one had stored before is among it."""
    call.stored.messages += len(sizes_bytes)
    call.stored.size_bytes += sum(sizes_bytes)
