"""The queues of a file: made where they are missing, left as they are where they exist."""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from control_plane.core import queue_attributes, queue_tags
from control_plane.core.definition import Definition
from control_plane.core.queue_lifecycle import FIFO_SUFFIX, check_name
from control_plane.core.queues_file import DeclaredQueue, QueuesFileError
from control_plane.operations.dead_letter_target import check_dead_letter_target
from control_plane.registry import Registry
from data_plane.core.errors import QUEUE_DELETED_RECENTLY, RefusedError
from data_plane.core.partitions import arn_of

CREATED: Final = "queue created"
DIFFERS: Final = "queue differs from the file"
DELETED: Final = "queue not created: its name was deleted less than 60 s ago"


class Outcome(NamedTuple):
    """What became of a queue; of one that differs, in which attribute and how."""

    event: str
    queue: str
    attribute: str = ""
    held: str = ""
    wanted: str = ""


class _Wanted(NamedTuple):
    definition: Definition
    given: dict[str, str]
    parsed: dict[str, str]


class QueuesAtStart:
    """Makes the queues of one account and region."""

    def __init__(self, registry: Registry, account: str, region: str) -> None:
        self._registry = registry
        self._account = account
        self._region = region
        self._wanted: dict[str, _Wanted] = {}

    async def make(self, declared: Iterable[DeclaredQueue], now_us: int) -> list[Outcome]:
        """Make those that are missing, once all of them have passed the rules of CreateQueue.

        Raises QueuesFileError with one line that names the queue, and CellUnavailableError.
        """
        for queue in declared:
            given, parsed = checked(queue, self._account, self._region)
            try:
                self._wanted[queue.name] = self._define(queue, given, parsed, now_us)
            except RefusedError as refusal:
                raise _wrong(queue.name, refusal) from refusal
        for name, wanted in self._wanted.items():
            try:
                source = self._registry.queue(wanted.definition)
                await check_dead_letter_target(self, source, wanted.given, wanted.parsed)
            except RefusedError as refusal:
                raise _wrong(name, refusal) from refusal
        outcomes: list[Outcome] = []
        # Dead-letter queues before those that name them, should the server stop in between.
        for wanted in sorted(
            self._wanted.values(), key=lambda one: bool(one.definition.dead_letter_queue)
        ):
            outcomes += await self._make(wanted, now_us)
        return outcomes

    async def read(self, account: str, region: str, name: str) -> Definition | None:
        """The queue as it is, or as it is going to be."""
        found = await self._registry.read(account, region, name)
        if found is None and (account, region) == (self._account, self._region):
            wanted = self._wanted.get(name)
            return wanted.definition if wanted is not None else None
        return found

    def _define(
        self, queue: DeclaredQueue, given: dict[str, str], parsed: dict[str, str], now_us: int
    ) -> _Wanted:
        """The definition of a queue. Raises RefusedError as CreateQueue does."""
        definition = self._registry.define(
            account=self._account,
            region=self._region,
            name=queue.name,
            attributes=queue_attributes.apply({}, parsed),
            tags=queue_tags.merged({}, queue.tags, queue.name),
            now_us=now_us,
        )
        return _Wanted(definition, given, parsed)

    async def _make(self, wanted: _Wanted, now_us: int) -> list[Outcome]:
        definition = wanted.definition
        existing = await self._registry.read(self._account, self._region, definition.name)
        if existing is not None:
            return _differences(existing, wanted)
        try:
            await self._registry.create(definition, {}, now_us)
        except RefusedError as refusal:
            if refusal.fault is not QUEUE_DELETED_RECENTLY:
                raise _wrong(definition.name, refusal) from refusal
            return [Outcome(DELETED, definition.name)]
        return [Outcome(CREATED, definition.name)]


def checked(
    queue: DeclaredQueue, account: str, region: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Attributes of a queue, as a request would give them, and parsed.

    Held to the rules of CreateQueue that need no look at other queues. Raises QueuesFileError.
    """
    given = dict(queue.attributes)
    if queue.name.endswith(FIFO_SUFFIX):
        given.setdefault("FifoQueue", "true")
    if queue.dead_letter_queue:
        target = arn_of("sqs", region, account, queue.dead_letter_queue)
        given["RedrivePolicy"] = json.dumps(
            {"deadLetterTargetArn": target, "maxReceiveCount": queue.receive_count_max}
        )
    try:
        fifo = queue_attributes.asks_for_fifo(given)
        parsed = queue_attributes.parse(given, fifo=fifo)
        check_name(queue.name, fifo=fifo)
        queue_tags.check_tags(queue.tags)
    except RefusedError as refusal:
        raise _wrong(queue.name, refusal) from refusal
    return given, parsed


def _differences(existing: Definition, wanted: _Wanted) -> list[Outcome]:
    found = [
        Outcome(DIFFERS, existing.name, name, existing.attributes.get(name, ""), value)
        for name, value in wanted.parsed.items()
        if queue_attributes.first_difference(existing.attributes, {name: value})
    ]
    tags = wanted.definition.tags
    if any(existing.tags.get(key) != value for key, value in tags.items()):
        held, asked = json.dumps(dict(existing.tags)), json.dumps(dict(tags))
        found.append(Outcome(DIFFERS, existing.name, "tags", held, asked))
    return found


def _wrong(queue: str, refusal: RefusedError) -> QueuesFileError:
    return QueuesFileError(f"queue {queue}: {' '.join(refusal.message.split())}")
