"""Message move tasks as they are stored, beside the registry's definitions (docs/storage.md)."""

from collections.abc import Callable
from typing import Final, NamedTuple

from control_plane.core import move_task
from control_plane.core.item_field import UnknownItemFormatError, check_format
from control_plane.core.move_task import MoveTask, Tasks
from data_plane.core.errors import SERVICE_UNAVAILABLE, RefusedError
from data_plane.core.identifiers import random_uuid_text
from data_plane.core.queue import Queue
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    Cell,
    Clock,
    Condition,
    Entropy,
    Equals,
    Item,
    Key,
)

FORMAT: Final = 1
RUNNING: Final = "J|"
"""Partition of what leads to the tasks that run."""

ATTEMPTS_MAX: Final = 8
LEFTOVER_KEPT_US: Final = 60_000_000
TASKS_KEPT_S: Final = 30 * 86_400

_NONCE_BYTES: Final = 8
_ID_BYTES: Final = 16


class Lead(NamedTuple):
    """Leads to a dead-letter queue that may have a running task."""

    key: Key
    account: str
    region: str
    name: str
    put_us: int


def nobody_waits() -> None:
    """For who runs tasks at times of their own."""


class MessageMoves:
    """The tasks of all dead-letter queues, in the registry's cell.

    `begun` is called when a task was started here. Methods raise CellUnavailableError.
    """

    def __init__(
        self,
        cell: Cell,
        clock: Clock,
        entropy: Entropy,
        begun: Callable[[], None] = nobody_waits,
    ) -> None:
        self._begun = begun
        self._cell = cell
        self._clock = clock
        self._entropy = entropy

    def new_id(self) -> str:
        """An id for a task."""
        return random_uuid_text(self._entropy.random_bytes(_ID_BYTES))

    async def tasks(self, source: Queue) -> Tasks:
        """The last tasks of a dead-letter queue, newest first."""
        return _decoded(source, await self._cell.get(_key(source)))

    async def change(self, source: Queue, edit: Callable[[Tasks], Tasks]) -> Tasks:
        """Replace the tasks of a queue by what `edit` makes of them; a no-op is not written.

        `edit` may run several times, and its RefusedError goes to the caller. Raises RefusedError
        (ServiceUnavailable) when others win the race every time.
        """
        key = _key(source)
        nonce = self._entropy.random_bytes(_NONCE_BYTES)
        occupant = await self._cell.get(key)
        for _ in range(ATTEMPTS_MAX):
            before = _decoded(source, occupant)
            after = edit(before)
            if after == before:
                return before
            item: Attributes = {
                "v": FORMAT,
                "w": nonce,
                "u": source.uid,
                "z": move_task.encode(after),
                "x": self._clock.now_us() // 1_000_000 + TASKS_KEPT_S,
            }
            written = await self._cell.put(key, item, _unchanged_since(occupant))
            if written.applied or (written.before or {}).get("w") == nonce:
                return after
            occupant = written.before
        raise RefusedError(
            SERVICE_UNAVAILABLE, f"Too many concurrent changes of the move tasks of {source.name}."
        )

    async def start(self, source: Queue, task: MoveTask) -> None:
        """Store a new task where front ends find it.

        Raises RefusedError where the queue has an active one.
        """
        await self._lead_to(source)
        await self.change(source, lambda tasks: move_task.started(tasks, task))
        # Whoever found the first lead too early may have removed it.
        await self._lead_to(source)
        self._begun()

    async def _lead_to(self, source: Queue) -> None:
        key = Key(RUNNING, f"{source.account}|{source.region}|{source.name}".encode())
        await self._cell.put(key, {"v": FORMAT, "t": self._clock.now_us()})

    async def leads(self, after: bytes, limit: int) -> list[Lead]:
        """Queues that may have running tasks, those past the sort key `after`."""
        return [_lead(item) for item in await self._cell.query(RUNNING, after=after, limit=limit)]

    async def leads_nowhere(self, lead: Lead) -> None:
        """Remove a lead, unless a task may just be on its way."""
        if lead.put_us + LEFTOVER_KEPT_US <= self._clock.now_us():
            await self._cell.delete(lead.key, ((Equals("t", lead.put_us),),))


def _key(source: Queue) -> Key:
    return Key(f"K|{source.account}|{source.region}", source.name.encode())


def _decoded(source: Queue, item: Attributes | None) -> Tasks:
    """The tasks of this incarnation of the queue."""
    if item is None:
        return ()
    check_format(f"move tasks of {source.arn}", item, FORMAT)
    return move_task.decode(str(item["z"])) if item["u"] == source.uid else ()


def _unchanged_since(occupant: Attributes | None) -> Condition:
    return ITEM_ABSENT if occupant is None else ((Equals("w", occupant["w"]),),)


def _lead(item: Item) -> Lead:
    put_us = item.attributes["t"]
    if item.attributes.get("v") != FORMAT or not isinstance(put_us, int):
        raise UnknownItemFormatError(f"lead to move tasks: format {item.attributes.get('v')!r}")
    account, region, name = item.key.sort.decode().split("|")
    return Lead(item.key, account, region, name, put_us)
