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
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import lmdb

from data_plane.core.cell_clock import CellClock
from data_plane.core.deadline import deadline_us
from data_plane.core.dropping import Dropped, Superfluous
from data_plane.core.eras import ONE_TIME, Eras
from data_plane.embedded.batch import (
    Batch,
    QueuedWrite,
    StoredEras,
    answer_all,
    outcome_of,
    size_of,
    taken_of,
)
from data_plane.embedded.committer import Commits, commit_all
from data_plane.embedded.copying import CellCopy
from data_plane.embedded.counters import CellCounters
from data_plane.embedded.dead_items import DeadItems
from data_plane.embedded.disk import RoomTries, asked_on
from data_plane.embedded.encoding import ERAS_KEY, PRESENT_KEY, encode_key
from data_plane.embedded.reads import read_many, read_partitions, read_range
from data_plane.embedded.room import full_batch_bytes
from data_plane.embedded.standing import OpenFile, Standing
from data_plane.embedded.store import CellOpenError, Store, StoreRoom, StoreSizes
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

LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")


class EmbeddedCell:
    """Implements `data_plane.ports.Cell`; belongs to the event loop that first uses it.

    With a CellClock its time is cell time, which goes on from where the directory was left.
    Raises CellOpenError where the directory is in use, damaged, or of another format.
    """

    def __init__(self, directory: Path, clock: Clock, sizes: StoreSizes | None = None) -> None:
        self.counters = CellCounters()
        self._clock = clock
        self._sizes = sizes or StoreSizes()
        self._store = Store(directory, self._sizes)
        self._present_us = int.from_bytes(self._store.snapshot.get(PRESENT_KEY, b""), "big")
        self._stored_eras = StoredEras()
        self._cell_clock = clock if isinstance(clock, CellClock) else None
        if self._cell_clock is not None:
            eras = self._store.snapshot.get(ERAS_KEY)
            self._stored_eras.are_there = bool(eras)
            self._cell_clock.learn(self._present_us, eras, str(directory))
        self._waiting: deque[QueuedWrite] = deque()
        self._committing: Batch | None = None
        self._commit_us = 0
        self._room_tries = RoomTries(clock)
        self._started = self._ends = False
        self._failure: str | None = None
        self._standing = Standing()
        self._closing: asyncio.Future[None] | None = None
        self._dead_items = DeadItems()
        self._copies: set[CellCopy] = set()
        self._commits: Commits = queue.SimpleQueue()
        name = f"commit {directory.name}"
        threading.Thread(target=self._commit_all, name=name, daemon=True).start()

    @property
    def chooses_stamps(self) -> bool:
        """Yes, in the transaction that stores what is stamped."""
        return True

    @property
    def eras(self) -> Eras:
        """Those of the clock, where that is cell time."""
        return ONE_TIME if self._cell_clock is None else self._cell_clock.eras

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

    def has_room(self, size_bytes: int) -> bool:
        """Whether the store, or its disk, has room for so much more of what is sent."""
        if self._failure is not None or self._store.has_room(size_bytes):
            return True
        # Whoever asks writes nothing where there is none, so no write finds that there is again.
        if self._committing is not None or not self._room_tries.are_due():
            return False
        try:
            return self._store.grows_again(size_bytes)
        except (lmdb.Error, OSError) as error:
            self._recover([], error)
            return False

    def room(self) -> StoreRoom:
        """What the cell can still take. Raises CellUnavailableError."""
        self._check()
        try:
            return self._store.room()
        except OSError as error:
            raise CellUnavailableError(f"nobody knows what its disk has left: {error}") from error

    async def append(self, record: Append) -> Appended:
        """Store a new item under a key of its own."""
        return await self._submit(
            lambda transaction: transaction.append(record), size_of(record.attributes)
        )

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Replace the whole item if the condition holds."""
        return await self._submit(
            lambda transaction: transaction.put(key, attributes, condition, tallies),
            size_of(attributes),
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
        self._waiting.append(QueuedWrite(lambda transaction: transaction.expire(stored_keys), None))
        asyncio.get_running_loop().call_later(EXPIRE_AFTER_S, self._start_soon)

    async def collect(self, now_s: int, budget: int) -> int:
        """Look at the next `budget` items and remove those whose time to live (`x`) is over.

        Successive calls walk over all items, again and again; answers how many were removed. It
        looks at a few at a time: requests are not to wait for all of them.
        """
        if isinstance(self._clock, CellClock):
            now_s = min(now_s, self._clock.removable_us() // 1_000_000)
        dead = await self._dead_items.among_next(self._readable, now_s, budget)
        if not dead:
            return 0
        return await self._submit(lambda transaction: transaction.collect(dead, now_s))

    def look_over(self, leaf_pages: int) -> None:
        """Look at some more pages of the data file; the cell fails where one is damaged.

        LMDB would end the process when it came there.
        """
        if self._failure is not None or self._committing is not None:
            return
        try:
            self._store.look_over(leaf_pages)
        except CellOpenError as error:
            LOG.error("%s", error)  # noqa: TRY400 - the line says it all
            self._failure = str(error)
            for copy in self._copies:
                copy.fail()
            self._store.let_go()
            writes, self._waiting = list(self._waiting), deque()
            answer_all(writes, [CellUnavailableError(self._failure)] * len(writes))

    @property
    def damaged_items(self) -> int:
        """How many items are known to be damaged: they are answered as unavailable."""
        return len(self._store.damaged)

    async def drop(self, partition: str, budget: int) -> int:
        """Remove up to `budget` items of a partition; answers how many there were."""
        return await self._submit(lambda transaction: transaction.drop(partition, budget))

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """Remove what a purge has made superfluous among the next items of a partition."""
        return await self._submit(lambda transaction: transaction.drop_superfluous(part, after))

    async def copy(self) -> AsyncIterator[bytes]:
        """All items as they are at one moment, as a stream (copying.py), while the cell goes on.

        Raises CellUnavailableError where that cannot be finished.
        """
        with self.copying() as copy:
            async for page in copy.pages():
                yield page

    @contextmanager
    def copying(self) -> Iterator[CellCopy]:
        """A copy that whoever asks for it reads page by page. Raises CellUnavailableError."""
        self._check()
        copy = CellCopy(self._readable, self.now_us, self._eras_to_keep)
        self._copies.add(copy)
        try:
            yield copy
        finally:
            self._copies.discard(copy)

    def _readable(self) -> Store:
        self._check()
        return self._store

    def _eras_to_keep(self) -> bytes:
        eras = self.eras
        return b"" if eras.is_plain and not eras.closed_us else eras.to_bytes()

    async def read_disk(self) -> None:
        """See whether the disk answers, without a write; what is being written comes first.

        Raises CellUnavailableError.
        """
        await self.look_at_file()
        await asked_on(self._commits.put, self._store.read_disk)

    async def look_at_file(self) -> None:
        """See whether the data file still stands where it was opened, and go on where it is back.

        Raises CellUnavailableError.
        """
        if self._failure is None:
            self._standing.note(await asked_on(self._commits.put, self._store.missing))
        self._check()

    @property
    def missing(self) -> str:
        """Why its file is not what stands at its path, so that nothing is answered; "" if it is."""
        return self._standing.missing

    @property
    def file(self) -> OpenFile | None:
        """The data file that is open."""
        return None if self._failure is not None else self._store.file

    async def close(self) -> None:
        """Finish what is queued, then let go of the directory. Later calls are refused."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_future()
            self._start_soon()
        # Who stops waiting for it does not keep it from being done.
        await asyncio.shield(self._closing)

    def _check(self) -> None:
        if reason := self._failure or self._standing.missing:
            raise CellUnavailableError(reason)

    async def _submit(self, run: Callable[[WriteTransaction], T], size_bytes: int = 0) -> T:
        self._check()
        if self._closing is not None:
            raise CellUnavailableError("the cell is closing")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(QueuedWrite(run, answer, size_bytes, deadline_us()))  # type: ignore[arg-type]
        self._start_soon()
        return await answer

    def _start_soon(self) -> None:
        # Not at once: what else this turn of the loop brings goes into the same commit.
        if not self._started and self._committing is None:
            self._started = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._started = False
        if self._committing is not None or self._ends:
            return
        writes = self._take()
        if not writes:
            self._close_if_asked()
            return
        try:
            batch = self._evaluate(writes)
            if batch.transaction.writes:
                batch.eras = self.eras
                txn = batch.transaction.finish(self._stored_eras.to_store(batch.eras))
        except (lmdb.Error, OSError) as error:
            self._recover(writes, error)
            return
        except Exception as error:
            # A mistake in this program: those who wait learn it, and it is raised all the same.
            self._recover(writes, error)
            raise
        if batch.transaction.writes:
            self._committing = batch
            self._commits.put((txn, asyncio.get_running_loop()))
        else:
            batch.transaction.abort()
            answer_all(batch.writes, batch.outcomes)
            self._start_soon()

    def _take(self) -> list[QueuedWrite]:
        """What waits, as much of it as one transaction may write."""
        most_bytes = self._sizes.batch
        if self._store.cannot_grow:
            most_bytes = full_batch_bytes(self._sizes.reserve)
        self._commit_us = self._clock.now_us()
        taken, late = taken_of(self._waiting, most_bytes, self._commit_us)
        if late:
            answer_all(late, [DeadlinePassedError("the request's time was over")] * len(late))
        return taken

    def _evaluate(self, writes: list[QueuedWrite]) -> Batch:
        """Run the writes in a transaction; one that the store has no room for is left out."""
        refused: dict[int, CellFullError] = {}
        adds = any(write.size_bytes for write in writes) or (
            self._store.cannot_grow and self._room_tries.are_due()
        )
        while True:
            txn, room_bytes = self._store.begin(adds=adds)
            transaction = WriteTransaction(
                txn,
                self._store.bodies,
                self._store.damaged,
                now_us=self._commit_us,
                present_us=self._present_us,
                room_bytes=room_bytes,
                reserve_bytes=self._sizes.reserve,
            )
            batch = Batch(transaction, writes)
            try:
                for index, write in enumerate(writes):
                    batch.outcomes.append(refused.get(index) or outcome_of(write, transaction))
                return batch
            except lmdb.MapFullError:
                # LMDB gives up the whole transaction: repeat it without the write too much.
                transaction.abort()
                refused[len(batch.outcomes)] = CellFullError("the cell is full")
            except BaseException:
                transaction.abort()
                raise

    def _commit_all(self) -> None:
        commit_all(self._commits, self._committed)

    def _committed(self, error: lmdb.Error | None, commit_s: float) -> None:
        batch = self._committing
        if batch is None:
            raise AssertionError("a commit ended that nobody began")
        self._committing = None
        self._present_us = max(self._present_us, batch.transaction.present_us)
        if error is not None:
            self._recover(batch.writes, error)
            return
        self._stored_eras.last = batch.eras
        self.counters.note(batch.transaction, commit_s)
        self._store.renew()
        for copy in self._copies:
            copy.note(batch.transaction.keys_written)
        # Here, not in the committing thread: that waits for the interpreter after each look.
        self._standing.note(missing := self._store.missing())
        lost = [CellUnavailableError(missing)] * len(batch.writes) if missing else None
        answer_all(batch.writes, lost or batch.outcomes)
        # The tasks just answered run first, so that what they write next shares the next commit.
        # Where nothing else waits, they begin it.
        if self._waiting or self._closing is not None:
            self._start_soon()

    def _recover(self, writes: list[QueuedWrite], error: Exception) -> None:
        """After a failed write nothing on this handle can be trusted: begin with a new one."""
        self.counters.failed_commits += 1
        for copy in self._copies:
            copy.fail()
        failed = CellUnavailableError(f"the commit failed: {error}")
        try:
            self._store.reopen()
        except (CellOpenError, lmdb.Error, OSError) as reason:
            self._failure = f"the cell cannot be opened again after a failed commit: {reason}"
            writes, self._waiting = [*writes, *self._waiting], deque()
        answer_all(writes, [failed] * len(writes))
        self._start_soon()

    @property
    def failure(self) -> str:
        """Why it answers nothing any more, until somebody opens it anew; "" while it may answer."""
        return self._failure or ""

    def _close_if_asked(self) -> None:
        if self._closing is None or self._closing.done():
            return
        self._ends = True
        # The loop does not wait: what the thread does last may hang, as its disk does.
        tell = asyncio.get_running_loop().call_soon_threadsafe
        self._commits.put(partial(tell, self._let_go, self._closing))

    def _let_go(self, closing: asyncio.Future[None]) -> None:
        self._commits.put(None)
        if self._failure is None:
            self._store.close()
        else:
            self._store.unlock()  # the rest was closed when it failed
        self._failure = "the cell is closed"
        closing.set_result(None)
