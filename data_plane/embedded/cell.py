"""The embedded cell: one directory, one writer, one fsync for all writes that wait together.

Writes are queued on the event loop. When no commit is under way, one turn of the loop takes all
that wait, evaluates them in one LMDB transaction and hands it to the committing thread, which does
nothing but commit; so the two threads never compete for the interpreter. All of them are answered
by one callback, after which the readers' snapshot moves on.
"""

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Final, TypeVar

import lmdb

from data_plane.core.deadline import deadline_us
from data_plane.embedded.copying import CellCopy
from data_plane.embedded.encoding import (
    PRESENT_KEY,
    encode_key,
    time_to_live_s,
)
from data_plane.embedded.reads import read_many, read_partitions, read_range
from data_plane.embedded.store import CellOpenError, Store, StoreSizes
from data_plane.embedded.transaction import WriteTransaction
from data_plane.ports import (
    ALWAYS,
    Append,
    Appended,
    Attributes,
    CellFullError,
    CellUnavailableError,
    Clock,
    Condition,
    DeadlinePassedError,
    Item,
    Key,
    Tallies,
    Update,
    Written,
    no_tallies,
)

EXPIRE_AFTER_S: Final = 1.0
"""How long removals that nobody waits for may wait for a commit that they can share."""

GET_MANY_KEYS_MAX: Final = 100

WRITE_BYTES: Final = 16 * 1024
"""What a write costs besides its value: copies of tree pages, generously."""

_LOOKED_AT_ONCE: Final = 50
_LOOK_PAUSE_S: Final = 0.01
"""Between looks for items whose time is over. Each step of LMDB's cursor gives up the interpreter,
and waits until other threads do: a thousand on end hold up requests for tens of milliseconds."""

LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class CellCounters:
    """What the cell did since it was opened; `commit_s` is spent in commits, fsyncs included."""

    commits: int = 0
    writes: int = 0
    bytes_written: int = 0
    commit_s: float = 0.0
    commit_s_last: float = 0.0
    commit_s_max: float = 0.0
    failed_commits: int = 0

    def note(self, transaction: WriteTransaction, commit_s: float) -> None:
        """Count a commit."""
        self.commits += 1
        self.writes += transaction.writes
        self.bytes_written += transaction.bytes_written
        self.commit_s += commit_s
        self.commit_s_last = commit_s
        self.commit_s_max = max(self.commit_s_max, commit_s)


@dataclass(slots=True)
class _Write:
    """A queued write: what it does, whom it answers (nobody: None), and about how big it is.

    After `until_us` nobody waits for it any more: then it is not begun.
    """

    run: Callable[[WriteTransaction], object]
    answer: asyncio.Future[object] | None
    size_bytes: int = 0
    until_us: int | None = None


@dataclass(slots=True)
class _Batch:
    """Writes of one transaction and their outcomes, in order."""

    transaction: WriteTransaction
    writes: list[_Write]
    outcomes: list[object] = field(default_factory=list)


class EmbeddedCell:
    """Implements `data_plane.ports.Cell`; belongs to the event loop that first uses it.

    Raises CellOpenError where the directory is in use, damaged, or of another format.
    """

    def __init__(self, directory: Path, clock: Clock, sizes: StoreSizes | None = None) -> None:
        self.counters = CellCounters()
        self._clock = clock
        self._sizes = sizes or StoreSizes()
        self._store = Store(directory, self._sizes)
        self._present_us = int.from_bytes(self._store.snapshot.get(PRESENT_KEY, b""), "big")
        self._waiting: deque[_Write] = deque()
        self._committing: _Batch | None = None
        self._commit_us = 0
        self._started = False
        self._failure: str | None = None
        self._closing: asyncio.Future[None] | None = None
        self._collected_to = b""
        self._copies: set[CellCopy] = set()
        self._commits: queue.SimpleQueue[tuple[lmdb.Transaction, asyncio.AbstractEventLoop] | None]
        self._commits = queue.SimpleQueue()
        self._committer = threading.Thread(
            target=self._commit_all, name=f"commit {directory.name}", daemon=True
        )
        self._committer.start()

    @property
    def chooses_stamps(self) -> bool:
        """Yes, in the transaction that stores what is stamped."""
        return True

    def settled_us(self) -> int:
        """The present: nothing is late."""
        return self.now_us()

    def now_us(self) -> int:
        """The present, which no later stamp will be below and no visible item's stamp above.

        It stands still while a commit is under way: what that commit holds is not visible yet.
        """
        known_us = self._clock.now_us() if self._committing is None else self._commit_us - 1
        self._present_us = max(self._present_us, known_us)
        return self._present_us

    @property
    def disk_bytes(self) -> int:
        """Size of the data file."""
        return self._store.disk_bytes

    @property
    def used_bytes(self) -> int:
        """How much of the data file holds items."""
        self._check()
        return self._store.used_bytes

    @property
    def is_full(self) -> bool:
        """Whether appends are refused because the disk has no room."""
        return self._store.is_full

    async def append(self, record: Append) -> Appended:
        """Store a new item under a key of its own."""
        size_bytes = sum(len(v) for v in record.attributes.values() if isinstance(v, bytes))
        return await self._submit(lambda transaction: transaction.append(record), size_bytes)

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Replace the whole item if the condition holds."""
        size_bytes = sum(len(v) for v in attributes.values() if isinstance(v, bytes))
        return await self._submit(
            lambda transaction: transaction.put(key, attributes, condition, tallies), size_bytes
        )

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Change single attributes if the condition holds."""
        return await self._submit(
            lambda transaction: transaction.update(key, change, condition, tallies)
        )

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """Remove the item if the condition holds. Removing an absent item is applied."""
        return await self._submit(lambda transaction: transaction.delete(key, condition, tallies))

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:  # noqa: ARG002
        """Read one item."""
        self._check()
        return read_many(self._store, (key,)).get(key)

    async def get_many(
        self,
        keys: Sequence[Key],
        *,
        strong: bool = True,  # noqa: ARG002
    ) -> dict[Key, Attributes]:
        """Read up to 100 items in one request; absent ones are missing from the answer."""
        if len(keys) > GET_MANY_KEYS_MAX:
            raise ValueError(f"get_many reads at most {GET_MANY_KEYS_MAX} items, not {len(keys)}")
        self._check()
        return read_many(self._store, keys)

    async def query(  # noqa: PLR0913 - a range has that many sides
        self,
        partition: str,
        *,
        after: bytes = b"",
        until: bytes | None = None,
        limit: int,
        reverse: bool = False,
        strong: bool = True,  # noqa: ARG002
    ) -> list[Item]:
        """Read items with `after < sort <= until` in order of `sort`, at most `limit` of them."""
        if limit < 1:
            raise ValueError(f"a query reads at least one item, not {limit}")
        self._check()
        return read_range(self._store, partition, after, until, limit, reverse=reverse)

    def partitions(self, after: str, limit: int) -> list[str]:
        """Names of partitions that have items, in order, those behind `after`."""
        self._check()
        return read_partitions(self._store, after, limit)

    def expire(self, keys: Sequence[Key]) -> None:
        """Remove items that nobody needs any more, all in one commit that others pay for."""
        self._check()
        stored_keys = [encode_key(key) for key in keys]
        self._waiting.append(_Write(lambda transaction: transaction.expire(stored_keys), None))
        asyncio.get_running_loop().call_later(EXPIRE_AFTER_S, self._start_soon)

    async def collect(self, now_s: int, budget: int) -> int:
        """Look at the next `budget` items and remove those whose time to live (`x`) is over.

        Successive calls walk over all items, again and again; answers how many were removed. It
        looks at a few at a time: requests are not to wait for all of them.
        """
        dead: list[bytes] = []
        while budget > 0:
            self._check()
            looked_at = min(budget, _LOOKED_AT_ONCE)
            dead += self._look_for_dead(now_s, looked_at)
            budget -= looked_at
            if not self._collected_to:
                break
            if budget > 0:
                await asyncio.sleep(_LOOK_PAUSE_S)
        if not dead:
            return 0
        return await self._submit(lambda transaction: transaction.collect(dead, now_s))

    def _look_for_dead(self, now_s: int, count: int) -> list[bytes]:
        dead: list[bytes] = []
        for seen, (key, stored) in enumerate(self._store.scan(self._collected_to), start=1):
            self._collected_to = key
            if 0 < time_to_live_s(stored) < now_s:
                dead.append(key)
            if seen == count:
                return dead
        self._collected_to = b""
        return dead

    async def drop(self, partition: str, budget: int) -> int:
        """Remove up to `budget` items of a partition; answers how many there were."""
        return await self._submit(lambda transaction: transaction.drop(partition, budget))

    async def copy(self) -> AsyncIterator[bytes]:
        """All items as they are at one moment, as a stream (copying.py), while the cell goes on.

        Raises CellUnavailableError where that cannot be finished.
        """
        self._check()
        copy = CellCopy(lambda: self._store, self.now_us)
        self._copies.add(copy)
        try:
            async for page in copy.pages():
                yield page
                self._check()
        finally:
            self._copies.discard(copy)

    async def close(self) -> None:
        """Finish what is queued, then let go of the directory. Later calls are refused."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_future()
            self._start_soon()
        await self._closing

    def _check(self) -> None:
        if self._failure is not None:
            raise CellUnavailableError(self._failure)

    async def _submit(self, run: Callable[[WriteTransaction], T], size_bytes: int = 0) -> T:
        self._check()
        if self._closing is not None:
            raise CellUnavailableError("the cell is closing")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Write(run, answer, size_bytes, deadline_us()))  # type: ignore[arg-type]
        self._start_soon()
        return await answer

    def _start_soon(self) -> None:
        # Not at once: what else this turn of the loop brings goes into the same commit.
        if not self._started and self._committing is None:
            self._started = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._started = False
        if self._committing is not None:
            return
        writes = self._take()
        if not writes:
            self._close_if_asked()
            return
        try:
            batch = self._evaluate(writes)
            if batch.transaction.writes:
                txn = batch.transaction.finish()
        except (lmdb.Error, OSError) as error:
            self._recover(writes, error)
            return
        if batch.transaction.writes:
            self._committing = batch
            self._commits.put((txn, asyncio.get_running_loop()))
        else:
            batch.transaction.abort()
            _answer(batch.writes, batch.outcomes)
            self._start_soon()

    def _take(self) -> list[_Write]:
        """What waits, as much of it as one transaction may write."""
        writes: list[_Write] = []
        late: list[_Write] = []
        size_bytes, now_us = 0, self._clock.now_us()
        while self._waiting:
            write = self._waiting[0]
            if write.until_us is not None and write.until_us <= now_us:
                late.append(self._waiting.popleft())
                continue
            size_bytes += write.size_bytes + WRITE_BYTES
            if writes and size_bytes > self._sizes.batch:
                break
            writes.append(self._waiting.popleft())
        if late:
            _answer(late, [DeadlinePassedError("the request's time was over")] * len(late))
        return writes

    def _evaluate(self, writes: list[_Write]) -> _Batch:
        """Run the writes in a transaction; one that the store has no room for is left out."""
        self._commit_us = self._clock.now_us()
        refused: dict[int, CellFullError] = {}
        while True:
            txn, room_bytes = self._store.begin()
            transaction = WriteTransaction(
                txn,
                self._store.bodies,
                now_us=self._commit_us,
                present_us=self._present_us,
                room_bytes=room_bytes,
                reserve_bytes=self._sizes.reserve,
            )
            batch = _Batch(transaction, writes)
            try:
                for index, write in enumerate(writes):
                    batch.outcomes.append(refused.get(index) or _outcome(write, transaction))
                return batch
            except lmdb.MapFullError:
                # LMDB gives up the whole transaction: repeat it without the write too much.
                transaction.abort()
                refused[len(batch.outcomes)] = CellFullError("the cell is full")
            except BaseException:
                transaction.abort()
                raise

    def _commit_all(self) -> None:
        """Commit what the event loop hands over: the whole life of the committing thread."""
        while (handed_over := self._commits.get()) is not None:
            txn, loop = handed_over
            started_s = perf_counter()
            error: lmdb.Error | None = None
            try:
                txn.commit()
            except lmdb.Error as raised:
                error = raised
            del txn, handed_over
            loop.call_soon_threadsafe(self._committed, error, perf_counter() - started_s)

    def _committed(self, error: lmdb.Error | None, commit_s: float) -> None:
        batch = self._committing
        if batch is None:
            raise AssertionError("a commit ended that nobody began")
        self._committing = None
        self._present_us = max(self._present_us, batch.transaction.present_us)
        if error is not None:
            self._recover(batch.writes, error)
            return
        self.counters.note(batch.transaction, commit_s)
        self._store.renew()
        for copy in self._copies:
            copy.note(batch.transaction.keys_written)
        _answer(batch.writes, batch.outcomes)
        # The tasks just answered run first, so that what they write next shares the next commit.
        self._start_soon()

    def _recover(self, writes: list[_Write], error: Exception) -> None:
        """After a failed write nothing on this handle can be trusted: begin with a new one."""
        self.counters.failed_commits += 1
        for copy in self._copies:
            copy.fail()
        failed = CellUnavailableError(f"the commit failed: {error}")
        try:
            self._store.reopen()
        except (CellOpenError, lmdb.Error, OSError) as reason:
            self._failure = f"the cell cannot be opened again after a failed commit: {reason}"
            writes = [*writes, *self._waiting]
            self._waiting.clear()
        _answer(writes, [failed] * len(writes))
        self._start_soon()

    @property
    def failure(self) -> str:
        """Why it answers nothing any more, until somebody opens it anew; "" while it may answer."""
        return self._failure or ""

    def _close_if_asked(self) -> None:
        if self._closing is None or self._closing.done():
            return
        self._commits.put(None)
        self._committer.join()
        if self._failure is None:
            self._store.close()
        else:
            self._store.unlock()  # the rest was closed when it failed
        self._failure = "the cell is closed"
        self._closing.set_result(None)


def _outcome(write: _Write, transaction: WriteTransaction) -> object:
    """What the write answers; a refused write or a caller's mistake concerns nobody else."""
    try:
        return write.run(transaction)
    except lmdb.Error:
        raise
    except Exception as error:  # noqa: BLE001 - raised again, to the one who waits for it
        return error


def _answer(writes: Sequence[_Write], outcomes: Sequence[object]) -> None:
    for write, outcome in zip(writes, outcomes, strict=True):
        if write.answer is None:
            if isinstance(outcome, Exception):
                LOG.warning("items that nobody needs were not removed: %s", outcome)
        elif write.answer.done():
            continue  # its caller was cancelled
        elif isinstance(outcome, Exception):
            write.answer.set_exception(outcome)
        else:
            write.answer.set_result(outcome)
