"""The ports through which core code reaches the world: cells, clock, entropy, waiting.

Core code awaits nothing but these (docs/architecture.md), so the same coroutines run under the
server's event loop, under a blocking driver, and under the simulator. An item is a flat mapping of
attribute names to values; docs/storage.md lists every item that exists.
"""

from collections.abc import Awaitable, Callable, Generator, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

import msgspec

from data_plane.core.caller import AccessKey
from data_plane.core.conditions import (
    ALWAYS,
    ITEM_ABSENT,
    Absent,
    AnyOf,
    Attributes,
    Clause,
    Condition,
    Equals,
    Lacks,
    LessThan,
    Update,
    Value,
)
from data_plane.core.eras import Eras
from data_plane.core.queue import Queue
from data_plane.core.quotas import Quotas

# The language of conditions is a part of the Cell port: callers find all of it here.
__all__ = [
    "ALWAYS",
    "ITEM_ABSENT",
    "Absent",
    "AnyOf",
    "Attributes",
    "Clause",
    "Condition",
    "Equals",
    "Lacks",
    "LessThan",
    "Update",
    "Value",
]

T = TypeVar("T")

LATE_US_MAX = 2_000_000
"""An append that reaches its cell later than this after its slice is announced by a late marker."""

SETTLE_US = 3_000_000
"""LATE_US_MAX, and what the clocks within one store may differ by."""


class Key(NamedTuple):
    """Address of an item: items of one partition are ordered by `sort`, bytewise."""

    partition: str
    sort: bytes


class Item(NamedTuple):
    """A stored item as a query returns it."""

    key: Key
    attributes: Attributes


class Tally(NamedTuple):
    """An amount to add to the counter item `key`, attribute `name`.

    Counters are approximate by contract: exact on cells that can add them in the transaction of
    the write they belong to (memory, embedded), summed up and flushed within seconds on others.
    A counter whose sums are 0 may be dropped.
    """

    key: Key
    amount: int
    name: str = "n"


Tallies = Callable[[Attributes | None], Iterable[Tally]]
"""From the item as it was before an applied write (None: absent) to the counters it moves. Pure."""


StampTallies = Callable[[int], Iterable[Tally]]
"""The same for an append, from the stamp that it got."""


def no_tallies(_write: Attributes | int | None) -> Iterable[Tally]:
    """Count nothing."""
    return ()


class Written(msgspec.Struct, frozen=True, gc=False):
    """What became of a write.

    `before` is the item as it was before the write; where the condition failed (`applied` is
    False) it is the occupant that failed it. `time_ms` is the store's own time of the write.
    """

    applied: bool
    before: Attributes | None
    time_ms: int


class Append(msgspec.Struct, frozen=True):
    """A new item for a time-ordered partition, under a key that no other write uses.

    The sort key is `be64(stamp_us + delay_us) + suffix`, and the stamp is stored as attribute `t`.
    Cells with one writer (memory, embedded) choose the stamp inside their write transaction:
    `max(last stamp + 1, their clock)`, persisted, so that no key is ever below one that a reader
    has passed. Others take `proposed_us`; then the caller compares `Appended.time_ms` with the
    stamp and leaves a marker if the write came late.
    """

    partition: str
    suffix: bytes
    attributes: Attributes
    proposed_us: int
    delay_us: int = 0
    tallies: StampTallies = no_tallies


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The key under which an append was stored, its stamp, and the store's own time."""

    key: Key
    stamp_us: int
    time_ms: int


class CellUnavailableError(Exception):
    """The cell did not answer, or not in time: the call may or may not have taken effect."""


class CellFullError(CellUnavailableError):
    """The cell has no room for more data: nothing was written. Reads and deletes still work."""


class DamagedItemError(CellUnavailableError):
    """A stored item is not as it was stored: what needs it fails, and the cell serves the rest."""


class CellThrottledError(CellUnavailableError):
    """The cell answers, and takes no more of this kind for now."""


class NoThreadError(CellUnavailableError):
    """So many calls wait for a cell that this one was not made; nobody knows how the cell is."""


class DeadlinePassedError(CellUnavailableError):
    """The request's time is over (core/deadline.py), which says nothing about the cell.

    The call was not made, or nobody waits for its outcome any more.
    """


class Cell(Protocol):
    """One independent store. A write is durable when its call returns; reads see all of those.

    Raises CellUnavailableError from any method. Attribute names are not empty, and no attribute is
    an empty set.
    """

    @property
    def chooses_stamps(self) -> bool:
        """Whether the cell stamps appends in the write itself, so that no key is ever late."""
        ...

    @property
    def eras(self) -> Eras:
        """What the world's time was at the stamps that the cell has given out.

        ONE_TIME where its time is the world's, as of a store with a clock of its own. Others count
        retention and windows by it, and show times by it.
        """
        ...

    def has_room(self, size_bytes: int) -> bool:
        """Whether it takes so much more of what is sent, as far as can be told beforehand."""
        ...

    def settled_us(self) -> int:
        """Up to this slice, what was acknowledged is stored, or announced by a late marker.

        `now_us()` on a cell that chooses stamps. On others SETTLE_US before the latest time of the
        store that an answer has proved to be past, whatever this process's clock says.
        """
        ...

    def now_us(self) -> int:
        """The store's present as this process last knew it, in microseconds since the epoch.

        Never below a stamp that the cell has given out, and never ahead of the store's own clock
        otherwise: readers look no further, so that no later write lands behind them.
        """
        ...

    async def append(self, record: Append) -> Appended:
        """Store a new item under a key of its own."""
        ...

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Replace the whole item if the condition holds."""
        ...

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Change single attributes if the condition holds."""
        ...

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """Remove the item if the condition holds. Removing an absent item is applied."""
        ...

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        """Read one item."""
        ...

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """Read up to 100 items in one request; absent ones are missing from the answer."""
        ...

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
        """Read items with `after < sort <= until` in order of `sort`, at most `limit` of them.

        A page also ends after the item that takes it past 1 MiB, so a short answer that is not
        empty says nothing about what follows; an empty one says that the range is empty.
        """
        ...

    def expire(self, keys: Sequence[Key]) -> None:
        """Say that nobody needs these items any more.

        The cell removes all of them together, soon, or leaves each to its time to live (`x`).
        Costs no request and waits for nothing.
        """
        ...


@runtime_checkable
class Replicated(Protocol):
    """A cell of several, where an append that failed may be seen before all of them have it."""

    async def complete(
        self,
        key: Key,
        state: Key,
        is_needed: Callable[[Attributes, Attributes | None], bool],
    ) -> bool:
        """See that all have an item, before it counts as acknowledged, unless nobody needs it.

        Before that, that they know `state`, which says what became of it, by `share`; `is_needed`
        judges by both. False where the one that decides has no item. Raises CellUnavailableError.
        """
        ...

    def collects(self) -> bool:
        """Whether some of them remove at once what they hear that nobody needs any more."""
        ...

    async def share(self, key: Key) -> Attributes | None:
        """See that all know of an item what the one that decides knows: that. Raises as above."""
        ...

    async def get_now(self, key: Key) -> Attributes | None:
        """Read an item where it is by now: an older map may lead to a cell that was dropped."""
        ...

    async def tell(self) -> None:
        """See that all know of all that was done through here until now. Raises as above."""
        ...

    def decider(self) -> str:
        """Which of them decides: what another has granted, this one may not have heard of."""
        ...


def is_replicated(cell: object) -> TypeGuard[Replicated]:
    """Whether this cell is one of several; asked of each class once, for Python asks slowly."""
    kind: type = type(cell)
    return _is_replicated(kind)


@cache
def _is_replicated(kind: type) -> bool:
    return issubclass(kind, Replicated)


class Blob(NamedTuple):
    """A stored blob as a listing returns it: its name and when it was stored, by the store."""

    name: str
    stored_us: int


class Blobs(Protocol):
    """Bodies that are too big for a cell's items, under names that are never used twice.

    Raises CellUnavailableError from any method.
    """

    async def put(self, name: str, body: bytes) -> None:
        """Store a body; durable when it returns. To store the same again is harmless."""
        ...

    async def get(self, name: str) -> bytes | None:
        """The body, or None where there is none under this name."""
        ...

    async def delete(self, names: Sequence[str]) -> None:
        """Remove up to 1,000 blobs; those that do not exist are none to remove."""
        ...

    async def names(self, after: str = "", *, limit: int) -> list[Blob]:
        """Up to `limit` blobs whose names are greater than `after`, in order of the names."""
        ...


class Offload(Protocol):
    """Runs a call that blocks (an SDK's) so that nothing else waits for it.

    What the adapters of remote stores are given: a bounded pool of threads beside an event loop, or
    the blocking driver.
    """

    async def __call__(self, call: Callable[[], T]) -> T:
        """Answer what `call` returns, or raise what it raises."""
        ...


class Clock(Protocol):
    """Wall-clock time. It may jump, and nothing exclusive may rest on it."""

    def now_us(self) -> int:
        """Microseconds since the epoch."""
        ...


class Entropy(Protocol):
    """The only source of randomness."""

    def random_bytes(self, count: int) -> bytes:
        """Unpredictable bytes."""
        ...


class Waits(Protocol):
    """What must overlap or wait."""

    async def sleep_until(self, time_us: int) -> None:
        """Return at this wall-clock time, or at once if it has passed."""
        ...

    async def all_of(self, calls: Sequence[Awaitable[T]]) -> list[T | Exception]:
        """Run the calls side by side; an exception stands in its call's place."""
        ...

    async def coalesce(
        self,
        lane: Hashable,
        entry: object,
        flush: Callable[[list[object]], Awaitable[Sequence[object | Exception]]],
        until_us: int | None = None,
    ) -> object:
        """Hand the entry to `flush` together with all that arrive in the lane meanwhile.

        One flush of a lane runs at a time; entries that arrive while it runs form the next.
        `flush` answers an outcome for each entry in its order; an exception is raised to its owner.
        Whoever waits is let go at `until_us` by DeadlinePassedError; what is not under way by then
        may be left out. Where calls are served one at a time all in a lane have one deadline.
        """
        ...

    def in_turns(self, work: Generator[None, None, T]) -> Awaitable[T]:
        """Do long work, which yields where others may have their turn."""
        ...

    def signals(self, channel: Hashable) -> int:
        """A mark that says which signals were so far: to be read before looking for work."""
        ...

    def signal(self, channel: Hashable, count: int = 1) -> None:
        """Wake up to `count` waiters of the channel, those first that wait longest."""
        ...

    async def wait_for(self, channel: Hashable, seen: int, until_us: int) -> bool:
        """Return when the channel was signalled after `seen` was read, or at this time.

        False means that the process is about to stop: what merely waits for work ends now.
        """
        ...


class WrappedKey(NamedTuple):
    """A key as it may be stored: sealed under a master key, which has this name."""

    master_key: str
    wrapped: bytes


class MasterKeysError(Exception):
    """The master keys are there, and do not serve; one line says why.

    `reason` is the name of KMS's exception without what services append to it ("NotFound",
    "Disabled", "AccessDenied"), "" for what has none.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class MasterKeys(Protocol):
    """Keys that never lie where what they seal lies: a key file, or KMS.

    A wrapped key opens for the context (names and values) alone that it was wrapped for. Raises
    MasterKeysError, and CellUnavailableError where the keys are not to be had at present.
    """

    async def generate(
        self, context: Mapping[str, str], key_id: str = ""
    ) -> tuple[bytes, WrappedKey]:
        """A new data key of 32 bytes, and as it may be stored.

        `key_id` is a queue's KmsMasterKeyId; "" for the service's own master key.
        """
        ...

    async def wrap(self, plain: bytes, context: Mapping[str, str]) -> WrappedKey:
        """Seal a key under the service's own master key, the newest version of it."""
        ...

    async def unwrap(self, key: WrappedKey, context: Mapping[str, str]) -> bytes:
        """The key that was wrapped."""
        ...

    def is_current(self, key: WrappedKey) -> bool:
        """Whether `wrap` would seal under the same master key."""
        ...


class Queues(Protocol):
    """Where the data plane learns what a queue is; the control plane answers, from a cache."""

    async def find(self, account: str, region: str, name: str) -> Queue | None:
        """The queue's definition, or None where there is none."""
        ...


class Credentials(Protocol):
    """Where the data plane learns whom an access key authenticates; the control plane answers."""

    async def find_key(self, access_key_id: str) -> AccessKey | None:
        """The key, or None where it does not exist, is revoked, or its account is closed.

        Answers from a cache, so that a revocation shows after some seconds (docs/promises.md).
        Raises CellUnavailableError.
        """
        ...


class AccountQuotas(Protocol):
    """Where the data plane learns what an account may ask of it; the control plane answers."""

    async def find_quotas(self, account: str) -> Quotas:
        """The account's quotas; of one that does not exist, those without a limit.

        Answers from a cache, so that a change shows after some seconds. Raises
        CellUnavailableError.
        """
        ...
