"""Consumer groups as they are stored: each is one item, which changes by compare-and-set.

Whoever serves a member does what is due for the group: there is no coordinator. Two that do the
same at once do no harm, since one of both writes fails.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, cast

from control_plane.consumer_groups.room import GroupRoom
from control_plane.consumer_groups.sessions import Sessions
from control_plane.core import group_changes, group_keys
from control_plane.core.consumer_group import ConsumerGroup, GroupedStream, decode, encode
from control_plane.last_known import Asked, LastKnown, Seen
from data_plane.core.errors import (
    INTERNAL_FAILURE,
    LIMIT_EXCEEDED,
    RESOURCE_IN_USE,
    RefusedError,
    group_not_found,
)
from data_plane.core.limits import GROUP_SHARDS_MAX, STREAM_GROUPS_MAX
from data_plane.core.stream import Stream
from data_plane.operations.stream_address import KnownStreams
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    Cell,
    Clock,
    Condition,
    Entropy,
    Equals,
    Waits,
)
from data_plane.stored.coalescing import coalesce

ATTEMPTS_MAX: Final = 16
CACHED_GROUPS_MAX: Final = 10_000
_UID_BYTES: Final = 8
_NONCE_BYTES: Final = 8
_PAGE: Final = 100
_BACK_OFF_US: Final = 1_000


class _Desk(NamedTuple):
    waits: Waits
    clock: Clock


class GroupRegistry:
    """Groups in the registry's `cell`, of the `streams` there are.

    Methods raise CellUnavailableError.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - a front end is these ports
        self,
        cell: Cell,
        streams: KnownStreams,
        clock: Clock,
        entropy: Entropy,
        waits: Waits,
        room: GroupRoom,
    ) -> None:
        self._cell = cell
        self._known_streams = streams
        self._clock = clock
        self._entropy = entropy
        self._waits = waits
        self.room = room
        self.sessions = Sessions(cell, clock)
        self._recent: LastKnown[tuple[str, str, str], ConsumerGroup] = LastKnown(
            self._read_recent, clock, CACHED_GROUPS_MAX, absent_us=0
        )

    # Reading

    async def read(self, account: str, region: str, name: str) -> ConsumerGroup:
        """The group as it is now. Raises RefusedError (ResourceNotFound)."""
        asked = self._recent.asking()
        return self._known(account, region, name, await self._item(account, region, name), asked)

    async def recent(self, account: str, region: str, name: str) -> ConsumerGroup:
        """The group as of at most 5 s ago. Raises RefusedError (ResourceNotFound)."""
        found = await self._recent.find((account, region, name))
        if found is None:
            raise group_not_found(name, account)
        return found

    def used_lately(self) -> list[tuple[str, str, str]]:
        """Account, region and name of groups that this front end has read or changed of late."""
        return self._recent.names()

    async def _read_recent(self, name: tuple[str, str, str]) -> Seen[ConsumerGroup]:
        asked_us = self._clock.now_us()
        item = await self._item(*name)
        group = decode(*name, item) if item is not None else None
        return Seen(None if group is None or group.is_deleted else group, asked_us)

    async def _item(self, account: str, region: str, name: str) -> Attributes | None:
        return await self._cell.get(group_keys.group(account, region, name))

    async def again(self, group: ConsumerGroup) -> ConsumerGroup:
        """The group as it is now: the same object where it is as it was.

        Raises RefusedError (ResourceNotFound) where it is gone, also if there is another one.
        """
        asked = self._recent.asking()
        item = await self._item(group.account, group.region, group.name)
        if item is not None and item.get("w") == group.nonce:
            return group
        return self._same(group, item, asked)

    def _known(
        self, account: str, region: str, name: str, item: Attributes | None, asked: Asked
    ) -> ConsumerGroup:
        """The group of an item that was asked for then. Raises RefusedError (ResourceNotFound).

        What this front end knows by its nonce is not decoded again: members that wait all look at
        each change.
        """
        if item is None:
            raise group_not_found(name, account)
        key = (account, region, name)
        recent = self._recent.peek(key, self._clock.now_us())
        if recent is not None and recent.nonce == item.get("w"):
            return recent
        group = decode(account, region, name, item)
        if group.is_deleted:
            raise group_not_found(name, account)
        self._recent.learnt(key, group, asked)
        return group

    def _same(self, group: ConsumerGroup, item: Attributes | None, asked: Asked) -> ConsumerGroup:
        found = self._known(group.account, group.region, group.name, item, asked)
        if found.uid != group.uid:
            raise group_not_found(group.name, group.account)
        return found

    async def page(
        self, account: str, region: str, *, after: str, limit: int
    ) -> list[ConsumerGroup]:
        """Groups in order of their names, those past `after`, at most `limit`."""
        found: list[ConsumerGroup] = []
        position = after.encode()
        while len(found) < limit:
            items = await self._cell.query(
                group_keys.groups(account, region), after=position, limit=limit - len(found)
            )
            if not items:
                break
            position = items[-1].key.sort
            groups = (
                decode(account, region, one.key.sort.decode(), one.attributes) for one in items
            )
            found += [group for group in groups if not group.is_deleted]
        return found

    async def all_of(self, account: str, region: str) -> AsyncIterator[ConsumerGroup]:
        """All groups of an account in a region, in order of their names."""
        after = ""
        while page := await self.page(account, region, after=after, limit=_PAGE):
            after = page[-1].name
            for group in page:
                yield group

    # Changing

    async def check_room(self, wanted: ConsumerGroup) -> None:
        """Raise RefusedError where there are too many groups for another one (LimitExceeded).

        And where its name is taken (ResourceInUse). Those that are made at the same moment do not
        see each other, and may exceed it.
        """
        limits = await self.room.limits(wanted.account)
        names: set[str] = set()
        readers: Counter[str] = Counter()
        async for group in self.all_of(wanted.account, wanted.region):
            if group.name == wanted.name:
                raise _taken(wanted)
            names.add(group.name)
            readers.update(stream.name for stream in group.streams)
        if len(names) >= limits.groups:
            raise RefusedError(
                LIMIT_EXCEEDED,
                f"Account {wanted.account} has {len(names)} groups in {wanted.region},"
                f" and its quota is {limits.groups}.",
            )
        if any(readers[stream.name] >= STREAM_GROUPS_MAX for stream in wanted.streams):
            raise RefusedError(
                LIMIT_EXCEEDED, f"A stream is read by {STREAM_GROUPS_MAX} groups at most."
            )

    def new_uid(self) -> str:
        """A name for an incarnation of a group."""
        return self._entropy.random_bytes(_UID_BYTES).hex()

    async def create(self, wanted: ConsumerGroup) -> ConsumerGroup:
        """Store a new group. Raises RefusedError (ResourceInUse) where the name is taken.

        One that `is_deleted` has only its name until `complete`. Where there is such a one its
        maker, or remover, gets the time to end; after that it is removed.
        """
        for attempt in range(ATTEMPTS_MAX):
            stored, occupant = await self._put(wanted, ITEM_ABSENT)
            stored = stored or _made(wanted, occupant)
            if stored is not None:
                return stored
            other = _marked(wanted, occupant)
            await self._back_off(attempt)
            if other is not None and attempt == ATTEMPTS_MAX - 2:
                # Marked anew: who makes it cannot complete it without what is removed now.
                other, _ = await self._put(other, ((Equals("w", other.nonce),),))
                if other is not None:
                    await self._remove(other)
        raise too_many_changes(wanted)

    async def complete(self, marked: ConsumerGroup) -> ConsumerGroup:
        """Let a group that was created as deleted be there, with the offsets that it has by now.

        Raises RefusedError where another one came for the name meanwhile: then nothing is left of
        this one.
        """
        wanted = replace(marked, is_deleted=False)
        stored, occupant = await self._put(wanted, ((Equals("w", marked.nonce),),))
        stored = stored or _made(wanted, occupant)
        if stored is None:
            await self._remove(marked)
            _marked(wanted, occupant)
            raise too_many_changes(wanted)
        return stored

    async def change(self, known: ConsumerGroup, edit: group_changes.Edit) -> ConsumerGroup:
        """Do what is due for a group, and what `edit` says: the group as it is then.

        `edit` may run several times, and its RefusedError goes to the caller. Members whose
        sessions are over are gone before. Raises RefusedError (ResourceNotFound) where the group
        is gone.
        """
        [outcome] = await self._change_all(known, [edit])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def change_together(
        self, known: ConsumerGroup, edit: group_changes.Edit
    ) -> ConsumerGroup:
        """As `change`, by one write with what others want of this front end meanwhile.

        So members that come at once do not hinder each other.
        """
        desk = _Desk(self._waits, self._clock)
        lane = ("change of a group", known.uid)
        return cast(ConsumerGroup, await coalesce(desk, lane, (known, edit), self._flush))

    async def _flush(self, wanted: Sequence[object]) -> Sequence[ConsumerGroup | Exception]:
        """Do what several want, from the latest group that any of them knows.

        Who knows that would be fenced by an earlier one, and an edit of its own change nothing.
        """
        entries = cast(Sequence[tuple[ConsumerGroup, group_changes.Edit]], wanted)
        latest = max((known for known, _ in entries), key=lambda known: known.epoch)
        return await self._change_all(latest, [edit for _, edit in entries])

    async def _change_all(
        self, known: ConsumerGroup, edits: Sequence[group_changes.Edit]
    ) -> Sequence[ConsumerGroup | Exception]:
        """Do them in their order, by one write: of each the group as it is then, or its refusal."""
        group = known
        for attempt in range(ATTEMPTS_MAX):
            streams = await self._streams_of(group)
            now_us = self._clock.now_us()
            gone = group_changes.too_slow(group, now_us)
            if self.sessions.is_due(group):
                gone |= await self.sessions.expired(group)
            edited = group_changes.without(group, gone)
            refusals: list[Exception | None] = []
            for edit in edits:
                try:
                    edited = edit(edited)
                    refusals.append(None)
                except RefusedError as refusal:
                    refusals.append(refusal)
            if all(refusals):
                return [refusal for refusal in refusals if refusal is not None]
            after = group_changes.with_streams(edited, streams)
            balanced = group_changes.balanced(group, after, now_us)
            if balanced is group:
                return [refusal or group for refusal in refusals]
            asked = self._recent.asking()
            stored, occupant = await self._put(balanced, ((Equals("w", group.nonce),),))
            if stored is not None:
                return [refusal or stored for refusal in refusals]
            group = self._same(group, occupant, asked)
            await self._back_off(attempt)
        raise too_many_changes(known)

    async def fence(self, known: ConsumerGroup, edit: group_changes.Edit) -> ConsumerGroup:
        """As `change`, of a group without members, and under a new epoch in any case.

        Raises RefusedError (ResourceInUse) where it has members.
        """

        def edited(group: ConsumerGroup) -> ConsumerGroup:
            check_empty(group)
            return edit(replace(group, nonce=b""))  # Never as it was.

        return await self.change(await self.again(known), edited)

    async def delete(self, known: ConsumerGroup) -> None:
        """Remove a group and all that it has. Raises as `fence`.

        It is marked first: so whoever comes for the name after a crash goes on with it.
        """
        marked = await self.fence(known, lambda group: replace(group, is_deleted=True))
        await self._remove(marked)

    async def _remove(self, group: ConsumerGroup) -> None:
        for partition in (group_keys.offsets(group.uid), group_keys.members(group.uid)):
            while items := await self._cell.query(partition, limit=_PAGE):
                for item in items:
                    await self._cell.delete(item.key)
        key = group_keys.group(group.account, group.region, group.name)
        await self._cell.delete(key, ((Equals("w", group.nonce),),))

    async def _put(
        self, group: ConsumerGroup, condition: Condition
    ) -> tuple[ConsumerGroup | None, Attributes | None]:
        """The group as it is stored now, or None and what is there instead."""
        stored = replace(group, nonce=self._entropy.random_bytes(_NONCE_BYTES))
        key = group_keys.group(group.account, group.region, group.name)
        asked = self._recent.asking()
        written = await self._cell.put(key, encode(stored), condition)
        if not written.applied and (written.before or {}).get("w") != stored.nonce:
            return None, written.before
        name = (group.account, group.region, group.name)
        self._recent.changed(name, None if stored.is_deleted else stored, asked)
        self._waits.signal(channel(group), GROUP_SHARDS_MAX)
        return stored, None

    async def _back_off(self, attempt: int) -> None:
        """Let others be first: for longer each time, and each for another while."""
        random = int.from_bytes(self._entropy.random_bytes(2), "big")
        wait_us = random % (_BACK_OFF_US << min(attempt, 6))
        await self._waits.sleep_until(self._clock.now_us() + wait_us)

    # What is due

    async def is_due(self, group: ConsumerGroup) -> bool:
        """Whether something but its members' will may change the group by now."""
        if self.sessions.is_due(group) or group_changes.too_slow(group, self._clock.now_us()):
            return True
        streams = await self._streams_of(group)
        return any(_is_news(group, position, stream) for position, stream in streams.items())

    async def as_served(self, group: ConsumerGroup) -> ConsumerGroup:
        """The group with its streams as there are now, as whoever serves it next has it.

        Nothing is stored.
        """
        return group_changes.with_streams(group, await self._streams_of(group))

    async def _streams_of(self, group: ConsumerGroup) -> dict[int, Stream | None]:
        """The group's streams by their positions, as late as it knows them; others are absent."""
        found: dict[int, Stream | None] = {}
        for position, known in enumerate(group.streams):
            stream = await self._known_streams.find(group.account, group.region, known.name)
            if stream is not None and _is_doubtful(known, stream):
                try:
                    stream = await self._known_streams.renewed(stream)
                except RefusedError:
                    continue  # It was deleted, and shows as such in a moment.
            found[position] = stream
        return found


def check_empty(group: ConsumerGroup) -> None:
    """Raise RefusedError (ResourceInUse) where a group has members."""
    if group.members:
        raise RefusedError(
            RESOURCE_IN_USE,
            f"Group {group.name} under account {group.account} has members. Stop them first.",
        )


def _taken(group: ConsumerGroup) -> RefusedError:
    return RefusedError(
        RESOURCE_IN_USE, f"Group {group.name} under account {group.account} already exists."
    )


def _made(wanted: ConsumerGroup, occupant: Attributes | None) -> ConsumerGroup | None:
    """This very group, by a write whose reply was lost: others may have changed it since."""
    if occupant is None or occupant.get("u") != wanted.uid:
        return None
    made = decode(wanted.account, wanted.region, wanted.name, occupant)
    return None if made.is_deleted else made


def _marked(wanted: ConsumerGroup, occupant: Attributes | None) -> ConsumerGroup | None:
    """What has the name and is being made or removed. Raises RefusedError where a group has it."""
    if occupant is None:
        return None
    other = decode(wanted.account, wanted.region, wanted.name, occupant)
    if not other.is_deleted:
        raise _taken(wanted)
    return other


def too_many_changes(group: ConsumerGroup) -> RefusedError:
    """Others were faster, again and again."""
    return RefusedError(INTERNAL_FAILURE, f"Too many concurrent changes of group {group.name}.")


def channel(group: ConsumerGroup) -> tuple[str, str]:
    """The channel on which members wait for changes of their group."""
    return ("consumer group", group.uid)


def _is_doubtful(known: GroupedStream, stream: Stream) -> bool:
    """Whether the group may know a later stream than this front end does."""
    return known.uid != stream.uid or group_changes.is_outdated(known, stream)


def _is_news(group: ConsumerGroup, position: int, stream: Stream | None) -> bool:
    if stream is None:
        return any(key.stream == position for key in group.holds)
    known = group.streams[position]
    return (known.uid, known.version) != (stream.uid, stream.version)
