"""The cell on DynamoDB: one request to one item for each write, and no transactions or indexes.

What it promises beyond the port:

* A write that failed in a way that says nothing about its effect (timeout, reset, 5xx, a damaged
  answer) is repeated until the deadline, so one that took effect may meet its own traces. An append
  and an unconditional write then do the same again. A conditional write is *applied* if its
  condition also holds after itself; else it is refused with its own item as the occupant, by whose
  nonce the caller knows it. So every condition has to recognise its own write: leases are compared
  with "as seen or already mine" (data_plane/bag), definitions by `w` (control_plane/registry.py).
* `before` and the counters it moves are those of the last attempt: where that met its own traces,
  counters miss what the first one moved.
* CellUnavailableError leaves open whether a write took effect, as the port says; it is raised at
  the latest when the deadline and the timeouts of one attempt have passed.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final

from data_plane.core.deadline import left_us
from data_plane.core.dropping import Dropped, Superfluous
from data_plane.core.eras import ONE_TIME, Eras
from data_plane.core.limits import DELAY_S_MAX
from data_plane.dynamodb.expressions import range_parameters, write_parameters
from data_plane.dynamodb.items import (
    TypedItem,
    decode_attributes,
    decode_item,
    decode_key,
    encode_item,
    encode_key,
)
from data_plane.dynamodb.requests import Answer, RequestCounters, Requests
from data_plane.dynamodb.store_time import StoreTime
from data_plane.dynamodb.tables import PARTITION, SORT, TIME_TO_LIVE
from data_plane.ports import (
    ALWAYS,
    Append,
    Appended,
    Attributes,
    Clock,
    Condition,
    Item,
    Key,
    Offload,
    Tallies,
    Tally,
    Update,
    Written,
    no_tallies,
)
from data_plane.stored.keys import be64, before
from data_plane.stored.superfluous import Verdict, verdict

DEADLINE_S: Final = 5.0
GET_MANY_KEYS_MAX: Final = 100
BATCH_WRITES_MAX: Final = 25
DROP_ITEMS_MAX: Final = 100
"""Looked at in one step of dropping: a query, and four batches at most."""

COUNTER_TTL_S: Final = 15 * 86_400
"""Counters outlive the messages they count, of which the oldest are 14 days old."""


_RUNNING: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Runs on while a machine sleeps, where there is such a clock: the store's runs on, too."""


def _monotonic_us() -> int:
    return time.clock_gettime_ns(_RUNNING) // 1000


def _every(_key: Key) -> bool:
    return True


def _tallies_of(pending: Iterable[tuple[Key, Mapping[str, int]]]) -> Iterator[Tally]:
    return (Tally(key, sums[name], name) for key, sums in pending for name in sums)


def _last_of(part: Superfluous) -> bytes:
    """Up to where there may be something to drop: what is delayed lies ahead of its stamp."""
    if part.below:
        return before(part.below)
    return be64(part.until_us + DELAY_S_MAX * 1_000_000 + 1)


class DynamoCell:
    """Implements `data_plane.ports.Cell` on a table as tables.py describes it.

    `client` is one that opening.connect() made: it makes one attempt, and checks answers; `patient`
    is another one, for while the table is slow (None: there is none). Its calls
    run through `offload`, each at most for about `deadline_s` with what it waits there, and not
    beyond the deadline of the request that they serve, by the clock `deadlines`, where that is
    another one. Belongs to one event loop or driver.
    """

    def __init__(  # noqa: PLR0913 - its ports, and the numbers that an operator may choose
        self,
        client: Any,
        table: str,
        clock: Clock,
        offload: Offload,
        *,
        deadline_s: float = DEADLINE_S,
        report_units: bool = False,
        patient: Any = None,
        monotonic_us: Callable[[], int] = _monotonic_us,
        deadlines: Clock | None = None,
    ) -> None:
        self._requests = Requests(client, monotonic_us, report_units=report_units, patient=patient)
        self._deadline_us = round(deadline_s * 1_000_000)
        self._clock = deadlines or clock
        self._monotonic_us = monotonic_us
        self._table = table
        self._offload = offload
        self._time = StoreTime(clock, monotonic_us)
        self._tallies: dict[str, dict[Key, dict[str, int]]] = {}

    def through(self, offload: Offload) -> "DynamoCell":
        """The same cell through other threads: what is known of the table is shared."""
        other = copy(self)
        other._offload = offload  # noqa: SLF001 - its own class
        return other

    @property
    def chooses_stamps(self) -> bool:
        """No: writers propose them."""
        return False

    @property
    def counters(self) -> RequestCounters:
        """What was sent since the start."""
        return self._requests.counters

    @property
    def retries_refused(self) -> int:
        """How many failed requests the retry budget did not let be repeated."""
        return self._requests.budget.refused

    def now_us(self) -> int:
        """The present of the store, as its answers tell it."""
        return self._time.now_us()

    @property
    def eras(self) -> Eras:
        """The store's time is the world's."""
        return ONE_TIME

    def has_room(self, size_bytes: int) -> bool:  # noqa: ARG002 - as others'
        """Always: a table takes what is paid for."""
        return True

    def settled_us(self) -> int:
        """Up to this slice, what was acknowledged is stored, or announced by a late marker."""
        return self._time.settled_us()

    async def append(self, record: Append) -> Appended:
        """Store a new item under the proposed stamp, without a condition."""
        stamp_us = record.proposed_us
        sort = (stamp_us + record.delay_us).to_bytes(8, "big") + record.suffix
        key = Key(record.partition, sort)
        answer = await self._send(
            "put_item", {"Item": encode_item(key, {**record.attributes, "t": stamp_us})}
        )
        self._count(record.tallies(stamp_us))
        return Appended(key, stamp_us, answer.exchange.store_ms_max)

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Replace the whole item if the condition holds. Raises ItemTooBigError."""
        parameters = write_parameters(condition)
        parameters["Item"] = encode_item(key, attributes)
        return await self._write("put_item", parameters, tallies)

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Change single attributes if the condition holds. Raises ItemTooBigError."""
        parameters = write_parameters(condition, change)
        parameters["Key"] = encode_key(key)
        return await self._write("update_item", parameters, tallies)

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """Remove the item if the condition holds. Removing an absent item is applied."""
        parameters = write_parameters(condition)
        parameters["Key"] = encode_key(key)
        return await self._write("delete_item", parameters, tallies)

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        """Read one item."""
        answer = await self._send("get_item", {"Key": encode_key(key), "ConsistentRead": strong})
        item = answer.body.get("Item")
        return None if item is None else decode_attributes(item)

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """Read up to 100 items in one request; absent ones are missing from the answer."""
        if len(keys) > GET_MANY_KEYS_MAX:
            raise ValueError(f"get_many reads at most {GET_MANY_KEYS_MAX} items, not {len(keys)}")
        if not keys:
            return {}
        wanted = [encode_key(key) for key in dict.fromkeys(keys)]
        items = await self._send_batch(
            "batch_get_item", {"Keys": wanted, "ConsistentRead": strong}, "UnprocessedKeys"
        )
        return dict(map(decode_item, items))

    async def query(  # noqa: PLR0913 - a range has that many sides
        self,
        partition: str,
        *,
        after: bytes = b"",
        until: bytes | None = None,
        limit: int,
        reverse: bool = False,
        strong: bool = True,
    ) -> list[Item]:
        """Read items with `after < sort <= until` in order of `sort`, at most `limit` of them."""
        if limit < 1:
            raise ValueError(f"a query reads at least one item, not {limit}")
        if until is not None and until <= after:
            return []
        if partition in self._tallies:
            await self._flush(partition)
        parameters = range_parameters(partition, after, until)
        parameters |= {
            "Limit": limit,
            "ScanIndexForward": not reverse,
            "ConsistentRead": strong,
        }
        return [decode_item(item) for item in await self._page(parameters)]

    def expire(self, keys: Sequence[Key]) -> None:
        """Nothing: the items go when their time to live is over, which costs no writes."""

    async def drop(self, partition: str, budget: int) -> int:
        """Remove up to `budget` items of a partition; answers how many there were."""
        removed = 0
        while removed < budget:
            found = await self._page(
                {
                    "KeyConditionExpression": f"{PARTITION} = :pk",
                    "ExpressionAttributeValues": {":pk": {"S": partition}},
                    "ProjectionExpression": f"{PARTITION}, {SORT}",
                    "ConsistentRead": True,
                    "Limit": budget - removed,
                }
            )
            if not found:
                break
            for start in range(0, len(found), BATCH_WRITES_MAX):
                chunk = found[start : start + BATCH_WRITES_MAX]
                await self._delete_all([decode_key(item) for item in chunk])
                removed += len(chunk)
        return removed

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """Remove what a purge has made superfluous among the next items of a partition.

        A batch has no conditions. So only what nobody changes any more goes by it: segments, and
        what lies below a log's purge point. The states of blocks stay, and places of moved messages
        stay as they are: to empty one costs as much as to remove it.
        """
        if part.partition.startswith("S|"):
            return Dropped(b"")
        page = await self.query(
            part.partition, after=after, until=_last_of(part), limit=DROP_ITEMS_MAX
        )
        gone = [
            item.key
            for item in page
            if verdict(part, item.key.sort, item.attributes) is Verdict.REMOVE
        ]
        for start in range(0, len(gone), BATCH_WRITES_MAX):
            await self._delete_all(gone[start : start + BATCH_WRITES_MAX])
        return Dropped(page[-1].key.sort if page else b"", len(gone))

    async def _delete_all(self, keys: Sequence[Key]) -> None:
        deletes = [{"DeleteRequest": {"Key": encode_key(key)}} for key in keys]
        await self._send_batch("batch_write_item", deletes, "UnprocessedItems")

    async def flush(self, is_wanted: Callable[[Key], bool] = _every) -> None:
        """Write the counters that were moved since the last time, those that are wanted.

        What was moved to and fro meanwhile costs nothing. Counters are written before a query of
        theirs, too, so that whoever moved them reads them. Those that could not be written are kept
        for the next time. Raises CellUnavailableError.
        """
        for partition in list(self._tallies):
            await self._flush(partition, is_wanted)

    async def _flush(self, partition: str, is_wanted: Callable[[Key], bool] = _every) -> None:
        pending = self._tallies.pop(partition, {})
        moved = {key: sums for key, sums in pending.items() if is_wanted(key)}
        self._count(_tallies_of((key, pending[key]) for key in pending.keys() - moved.keys()))
        expires_s = self.now_us() // 1_000_000 + COUNTER_TTL_S
        while moved:
            key, sums = moved.popitem()
            added = {name: amount for name, amount in sums.items() if amount}
            if not added:
                continue
            try:
                await self.update(key, Update({TIME_TO_LIVE: expires_s}, added))
            except BaseException:
                self._count(_tallies_of([(key, sums), *moved.items()]))
                raise

    def _count(self, moved: Iterable[Tally]) -> None:
        for key, amount, name in moved:
            sums = self._tallies.setdefault(key.partition, {}).setdefault(key, {})
            sums[name] = sums.get(name, 0) + amount

    async def _write(self, operation: str, parameters: dict[str, Any], tallies: Tallies) -> Written:
        parameters["ReturnValues"] = "ALL_OLD"
        answer = await self._send(operation, parameters)
        stored = answer.body.get("Item" if answer.refused else "Attributes")
        before = None if not stored else decode_attributes(stored)
        if not answer.refused:
            self._count(tallies(before))
        return Written(not answer.refused, before, answer.exchange.store_ms_max)

    async def _page(self, parameters: dict[str, Any]) -> list[TypedItem]:
        """The first items of a range; none only where the range is empty.

        DynamoDB may end a page anywhere, also before the first item.
        """
        while True:
            answer = await self._send("query", parameters)
            found: list[TypedItem] = answer.body["Items"]
            further = answer.body.get("LastEvaluatedKey")
            if found or not further:
                return found
            parameters = {**parameters, "ExclusiveStartKey": further}

    def _until_us(self) -> int:
        """When the last attempt of a request wanted now may begin (`monotonic_us`)."""
        left = left_us(self._clock.now_us())
        patience_us = self._deadline_us if left is None else min(self._deadline_us, left)
        return self._monotonic_us() + patience_us

    async def _send(self, operation: str, parameters: dict[str, Any]) -> Answer:
        parameters["TableName"] = self._table
        until_us = self._until_us()
        answer = await self._offload(lambda: self._requests.send(operation, parameters, until_us))
        self._time.observe(answer.exchange)
        return answer

    async def _send_batch(self, operation: str, of_table: Any, unprocessed: str) -> list[TypedItem]:
        """Send a batch whole; the items that it brought."""
        parameters = {"RequestItems": {self._table: of_table}}
        until_us = self._until_us()
        answers = await self._offload(
            lambda: self._requests.send_batch(operation, parameters, until_us, unprocessed)
        )
        found: list[TypedItem] = []
        for answer in answers:
            self._time.observe(answer.exchange)
            if operation == "batch_get_item":
                found += answer.body["Responses"].get(self._table, [])
        return found
