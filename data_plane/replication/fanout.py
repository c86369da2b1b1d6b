"""Independent cells with the same messages: any of them can serve (docs/replication.md).

What is appended goes to all members at once, under one key; nothing orders it. What consumers do
is decided at the first member and told to the others soon after. Sets of deleted messages only
grow, so whatever order that arrives in, it comes to the same.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from data_plane.core.dropping import Dropped, Superfluous
from data_plane.ports import (
    ALWAYS,
    Append,
    Appended,
    Attributes,
    Cell,
    CellUnavailableError,
    Condition,
    DamagedItemError,
    Item,
    Key,
    Tallies,
    Update,
    Waits,
    Written,
    no_tallies,
)
from data_plane.replication.dropping import drop_in_all
from data_plane.replication.giving import IsNeeded, give_all, give_needed
from data_plane.replication.lately import Lately
from data_plane.replication.member_cell import (
    LeftGroupError,
    MemberCell,
    check_in_group,
    check_joined,
    members_of,
)
from data_plane.replication.placement import Member, Placement, uid_of
from data_plane.replication.replaying import Merging, replay
from data_plane.replication.unneeded import Unneeded

PENDING_MAX: Final = 100_000
"""Changes kept for a member that does not take them; beyond, the oldest are forgotten here, and
somebody else has to compare the copies (reconciling.py)."""
ROUND_MAX: Final = 64


Play = Callable[[MemberCell, MemberCell], Awaitable[Written]]
"""Makes a change at a member, the second one; the first decides."""


class _Change(NamedTuple):
    """What a member is still to be told: `play` does it there, and may ask the first one.

    `since_us` is when it was done, and `decided_by` the member that did it first.
    """

    key: Key
    play: Play
    since_us: int
    decided_by: Member


class Fanout(Lately):
    """Implements `data_plane.ports.Cell` over the members of a placement.

    `placement` answers the front end's present map of the group, taken once for each call, and
    `lacking` what an item of another member lacks of what it is told. With
    `acknowledge_first` an append counts when the first member has it, and the others are told
    soon after: if the first is lost meanwhile, so is the append. `alone` answers, by the same map,
    the uids of queues that have left the group for one of their own, and `heir` the fan-out that
    has such a queue: it gets what copies are still to be told of it. `latest` is as of a chain.
    """

    def __init__(  # noqa: PLR0913 - members, how they are used, and who has left
        self,
        placement: Callable[[], Placement],
        cells: Mapping[str, Cell],
        waits: Waits,
        lacking: Merging,
        *,
        acknowledge_first: bool = False,
        alone: Callable[[], Collection[str]] = tuple,
        heir: Callable[[str], "Fanout"] | None = None,
        latest: Callable[[], Placement] | None = None,
    ) -> None:
        super().__init__(latest or placement, cells)
        self._placement = placement
        self._cells = cells
        self._waits = waits
        self._lacking = lacking
        self._acknowledge_first = acknowledge_first
        self._alone = alone
        self._heir = heir
        self._unneeded = Unneeded(placement, cells, alone)
        self._pending: dict[Member, deque[_Change]] = {}
        self._met: set[Member] = set()
        self._met_epoch = 0
        self._shipping = False
        self.forgotten = 0
        self.forgotten_since_us: int | None = None

    def _at(self, *partitions: str) -> Placement:
        """As `Chain._at`."""
        at = self._placement()
        check_in_group(at.group, partitions, self._alone())
        return at

    @property
    def chooses_stamps(self) -> bool:
        """Never: all members have one key."""
        return False

    def settled_us(self) -> int:
        """What the member that serves has settled.

        A write counts only when the store's time of none of the members was late.
        """
        return self._settled_us(self._latest().members[0])

    # Writing

    async def append(self, record: Append) -> Appended:
        """Store a new item in all members, under the proposed key: one write each, side by side."""
        at = self._at(record.partition)
        self._unneeded.let_go()
        members = members_of(at, self._cells)
        stamp_us = record.proposed_us
        sort = (stamp_us + record.delay_us).to_bytes(8, "big") + record.suffix
        key, item = Key(record.partition, sort), {**record.attributes, "t": stamp_us}

        def store(member: MemberCell) -> Awaitable[Written]:
            # One that is repeated under its key was counted before.
            counted: Tallies = lambda before: (  # noqa: E731
                record.tallies(stamp_us) if before is None else ()
            )
            return member.put(key, item, ALWAYS, counted)

        if self._acknowledge_first:
            written = await store(members[0])
            self._tell(at, key, lambda _first, member: store(member))
            return Appended(key, stamp_us, written.time_ms)
        latest_ms = 0
        for outcome in await self._waits.all_of([store(member) for member in members]):
            if isinstance(outcome, Exception):
                raise outcome
            latest_ms = max(latest_ms, outcome.time_ms)
        check_joined(at, self._at(record.partition))
        return Appended(key, stamp_us, latest_ms)

    async def complete(self, key: Key, state: Key, is_needed: IsNeeded) -> bool:
        """See that all members have an item that was read: who appended it may have failed.

        Readers need not; whoever counts on it as acknowledged has to. False where the first member
        does not have it: it was collected, or read at a member that was dropped since. Raises
        CellUnavailableError.
        """
        at = self._at(key.partition)
        first, *others = members_of(at, self._cells)
        is_there = await give_needed(
            self._waits, first, others, key, state, is_needed, self._lacking
        )
        check_joined(at, self._at(key.partition))
        return is_there

    async def share(self, key: Key) -> Attributes | None:
        """See that all members know of an item what the first does: that.

        Who did it may have stopped before it told anybody. Raises CellUnavailableError.
        """
        at, first = self._decider(key.partition)
        found = await first.get(key)
        if found is not None:
            others = members_of(at, self._cells)[1:]
            await give_all(self._waits, first, others, Item(key, found), self._lacking)
            check_joined(at, self._at(key.partition))
        return found

    async def get_now(self, key: Key) -> Attributes | None:
        """As `get`: whoever gives the placement reads it anew."""
        return await self.get(key)

    async def tell(self) -> None:
        """See that the others know of all that was done here until now, or are no members.

        Raises CellUnavailableError where some do not answer, or are being told.
        """
        until_us = self.now_us()
        await self.ship()
        oldest_us = self.oldest_us()
        if oldest_us is not None and oldest_us <= until_us:
            raise CellUnavailableError(f"copies of {self._placement().group} are not told yet")

    def collects(self) -> bool:
        """Whether a cell may remove at once what it is told to expire: those of one writer do."""
        return any(cell.chooses_stamps for cell in self._cells.values())

    def decider(self) -> str:
        """The first member, which grants leases. Raises StalePlacementError."""
        first = self._placement().members[0]
        return f"{first.cell}@{first.incarnation}"

    async def put(
        self,
        key: Key,
        attributes: Attributes,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Replace the whole item if the condition holds where it is decided."""
        at, first = self._decider(key.partition)
        written = await first.put(key, attributes, condition, tallies)
        if written.applied:
            self._tell(at, key, lambda _, member: member.put(key, attributes, ALWAYS, tallies))
        return written

    async def update(
        self,
        key: Key,
        change: Update,
        condition: Condition = ALWAYS,
        tallies: Tallies = no_tallies,
    ) -> Written:
        """Change single attributes if the condition holds where it is decided."""
        at, first = self._decider(key.partition)
        written = await first.update(key, change, condition, tallies)
        if written.applied:
            told = (key, change, condition, tallies, self._lacking)
            self._tell(at, key, lambda first, member: replay(first, member, *told))
        return written

    async def delete(
        self, key: Key, condition: Condition = ALWAYS, tallies: Tallies = no_tallies
    ) -> Written:
        """Remove the item if the condition holds where it is decided."""
        at, first = self._decider(key.partition)
        written = await first.delete(key, condition, tallies)
        if written.applied:
            self._tell(at, key, lambda _, member: member.delete(key, ALWAYS, tallies))
        return written

    def expire(self, keys: Sequence[Key]) -> None:
        """Say to all members that nobody needs these items any more, once nobody joins."""
        self._unneeded.expire(keys)

    def let_go(self) -> None:
        """As `Chain.let_go`."""
        self._unneeded.let_go()

    async def drop(self, partition: str, budget: int) -> int:
        """Remove up to `budget` items, in every member, of a partition that nobody writes to."""
        members = members_of(self._at(partition), self._cells)
        return max([await member.drop(partition, budget) for member in members])

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """Drop in every member what a purge has made superfluous: a bounded step."""
        at = self._at(part.partition)
        members = members_of(at, self._cells)
        return await drop_in_all(self._waits, at, members, part, after)

    # Telling the others

    def oldest_us(self, member: Member | None = None) -> int | None:
        """Since when the oldest change is known to the first member alone; None: there is none.

        With a `member` only what that one is still to be told counts.
        """
        pending = self._pending.values() if member is None else [self._pending.get(member)]
        return min((told[0].since_us for told in pending if told), default=None)

    def lag_us(self, now_us: int, member: Member | None = None) -> int:
        """For how long the oldest change has been known to the first member alone.

        With a `member` as `oldest_us`.
        """
        oldest_us = self.oldest_us(member)
        return 0 if oldest_us is None else max(0, now_us - oldest_us)

    def pending(self) -> dict[Member, int]:
        """How many changes each member is still to be told."""
        return {member: len(changes) for member, changes in self._pending.items()}

    def hand_over(self) -> None:
        """Give away what copies are still to be told of queues that lie alone by now.

        Raises StalePlacementError.
        """
        alone = self._alone()
        if not alone or self._heir is None:
            return
        for uid in alone:
            self._heir(uid)  # One that is made just now asks for what is its own.
        gone: dict[int, _Change] = {}
        for changes in self._pending.values():
            gone |= {id(one): one for one in changes if uid_of(one.key.partition) in alone}
        for change in sorted(gone.values(), key=lambda one: one.since_us):
            self._heir(uid_of(change.key.partition)).take_over(change)
        for changes in self._pending.values() if gone else ():
            kept = [one for one in changes if id(one) not in gone]
            changes.clear()  # In place: they may be being told.
            changes.extend(kept)

    def take_over(self, change: _Change) -> None:
        """Tell it all members but who decided it: who joined meanwhile may lack it.

        Twice does no harm to a copy, which the first member mends then.
        """
        for member in self._placement().members:
            self._remember(member._replace(full=True), change)

    def _tell(self, at: Placement, key: Key, play: Play) -> None:
        """Remember what the first member of `at` has decided for all others, and who joined since.

        Raises StalePlacementError where nobody knows who did.
        """
        try:
            self._tell_members(at, key, play)
        except LeftGroupError:
            self.hand_over()
            raise

    def _tell_members(self, at: Placement, key: Key, play: Play) -> None:
        told = list(at.members[1:])
        try:
            present = self._at(key.partition)
            self._meet(present)
            told += [member for member in present.members if not at.has(member)]
        finally:
            first = at.members[0]._replace(full=True)
            change = _Change(key, play, self.now_us(), first)
            for member in told:
                self._remember(member._replace(full=True), change)

    def _meet(self, at: Placement) -> None:
        """Who joined is to be told what others still are to be told.

        The copy that it gets may have been read at one that had not heard of it.
        """
        if at.epoch <= self._met_epoch:
            return
        self.hand_over()
        members = {member._replace(full=True) for member in at.members}
        left = {id(change): change for told in self._pending.values() for change in told}
        for member in members - self._met:
            heard = {id(change) for change in self._pending.get(member, ())}
            for change in sorted(left.values(), key=lambda change: change.since_us):
                if id(change) not in heard:
                    self._remember(member, change)
        self._met, self._met_epoch = members, at.epoch

    def _remember(self, member: Member, change: _Change) -> None:
        if member == change.decided_by:
            return  # It may have changed its mind since: a lease of then would take back that.
        changes = self._pending.setdefault(member, deque())
        changes.append(change)
        if len(changes) > PENDING_MAX:
            since_us = changes.popleft().since_us
            self.forgotten += 1
            if self.forgotten_since_us is None:
                self.forgotten_since_us = since_us

    async def ship(self) -> int:
        """Tell the other members what was done: how many changes are left to be told.

        A member that does not answer is told the next time. Changes of one item go in their order.
        """
        if self._shipping:
            return sum(map(len, self._pending.values()))
        self._shipping = True
        try:
            at = self._placement()
            self.hand_over()
            self._meet(at)
            members = {
                member._replace(full=True): cell
                for member, cell in zip(at.members, members_of(at, self._cells), strict=True)
            }
            for gone in self._pending.keys() - members.keys():
                del self._pending[gone]
            outcomes = await self._waits.all_of(
                [
                    self._ship_to(at, members[member], changes)
                    for member, changes in self._pending.items()
                ]
            )
        finally:
            self._shipping = False
        for outcome in outcomes:
            if isinstance(outcome, Exception) and not isinstance(outcome, CellUnavailableError):
                raise outcome
        return sum(map(len, self._pending.values()))

    async def _ship_to(self, at: Placement, member: MemberCell, changes: deque[_Change]) -> None:
        """Changes stay in the queue until they are told, whatever ends this: some are told twice.

        Until then they count as untold, and a member that joins meanwhile is to be told of them.
        What the member has damaged keeps nothing else waiting.
        """
        left, damaged = len(changes), set[Key]()
        while left > 0 and changes:
            first = self._first()
            together = _next_round(changes, damaged)
            left -= len(together)
            if not together:
                break
            outcomes = await self._waits.all_of([change.play(first, member) for change in together])
            # What was told late may be missing in the copy that who joined got before.
            check_joined(at, self._at(*(change.key.partition for change in together)))
            told, failed = set[int](), list[Exception]()
            for change, outcome in zip(together, outcomes, strict=True):
                if isinstance(outcome, DamagedItemError):
                    damaged.add(change.key)
                elif isinstance(outcome, Exception):
                    failed.append(outcome)
                else:
                    told.add(id(change))
            _drop(told, changes, len(changes) if damaged else len(together))
            if failed:
                raise failed[0]

    # Reading

    def _first(self, *partitions: str) -> MemberCell:
        return self._decider(*partitions)[1]

    def _decider(self, *partitions: str) -> tuple[Placement, MemberCell]:
        at = self._at(*partitions)
        return at, members_of(at, self._cells)[0]

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        """Read one item."""
        return await self._first(key.partition).get(key, strong=strong)

    async def get_many(self, keys: Sequence[Key], *, strong: bool = True) -> dict[Key, Attributes]:
        """Read up to 100 items in one request; absent ones are missing from the answer."""
        first = self._first(*(key.partition for key in keys))
        return await first.get_many(keys, strong=strong)

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
        return await self._first(partition).query(
            partition, after=after, until=until, limit=limit, reverse=reverse, strong=strong
        )


def _next_round(changes: deque[_Change], but: Collection[Key]) -> list[_Change]:
    """Changes at the front that may be made side by side: no two of one item."""
    together: dict[Key, _Change] = {}
    for change in changes:
        if change.key in but:
            continue
        if change.key in together or len(together) == ROUND_MAX:
            break
        together[change.key] = change
    return list(together.values())


def _drop(told: Collection[int], changes: deque[_Change], among: int) -> None:
    """Those that were told are no more to be told: they are `among` so many at the front.

    Some may be gone: with a queue that left, or beyond PENDING_MAX.
    """
    front = [changes.popleft() for _ in range(min(among, len(changes)))]
    changes.extendleft(change for change in reversed(front) if id(change) not in told)
