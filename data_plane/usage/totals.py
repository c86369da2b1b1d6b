"""What was served, summed up in memory: a request pays for one sum."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from data_plane.frontend.served import Served
from data_plane.usage.record import (
    ACCESS_SCHEMA,
    NAME_CHARS_MAX,
    SCHEMA,
    UNIT_BYTES,
    US_PER_MINUTE,
    AccessRecord,
    UsageRecord,
    asked_for,
    priced_as,
    status_class,
)

SENDS: Final = frozenset({"SendMessage", "SendMessageBatch"})
RECEIVE: Final = "ReceiveMessage"

_K = TypeVar("_K")

_Seen = tuple[int, str, str, str, str, str, str, str, int, str, str, bool, bool]
"""Minute, account, region, queue, operation, principal, access key, client, status, code, cell,
whether what is stored there counts the request, and whether there were messages.

The cell is "" but of sends."""

_Access = tuple[int, str, str, str, str, str, str, str, int, str]
"""The same without the cell."""

_Served = tuple[int, str, str, str, str, int, str, bool]
"""Minute, account, region, queue, operation, status, code, and whether they were empty
receives: bills tell those from others."""


class Totals(NamedTuple):
    """What was served since the last time somebody asked: usage, and who did it."""

    usage: dict[_Served, list[int]]
    access: dict[_Access, list[int]]

    def records(self, writer: str, first: int) -> Iterator[UsageRecord]:
        """The usage as records, numbered from `first` on, in a fixed order."""
        for number, (served, sums) in enumerate(sorted(self.usage.items()), start=first):
            minute, account, region, queue, operation, status, code, _ = served
            requests, units, messages, size, failed = sums
            yield UsageRecord(
                *(SCHEMA, writer, number, minute, account, region, queue, operation),
                *(status_class(status), code, requests, units, messages, size, failed),
            )

    def access_records(self, writer: str, first: int) -> Iterator[AccessRecord]:
        """Who did it as records, numbered from `first` on, in a fixed order."""
        for number, (seen, sums) in enumerate(sorted(self.access.items()), start=first):
            minute, account, region, queue, operation, principal, key, client, status, code = seen
            yield AccessRecord(
                *(ACCESS_SCHEMA, writer, number, minute, account, principal, key, client),
                *(region, queue, operation, status_class(status), code, sums[0]),
            )


class Counting:
    """Sums up answered requests until they are taken.

    What sends have stored in one of the cells with `ledgers` is counted there, and so are the sends
    that have stored something: here those are accesses only.
    """

    def __init__(self, ledgers: Collection[str]) -> None:
        self._ledgers = frozenset(ledgers)
        self._leaves_sends = False
        self._sums: dict[_Seen, list[int]] = {}

    def leave_sends(self) -> None:
        """Treat all cells as those with ledgers: somebody counts what is stored in the others."""
        self._leaves_sends = True

    def __len__(self) -> int:
        """How many different sums there are."""
        return len(self._sums)

    def served(self, served: Served) -> None:
        """Count a request that was answered."""
        seen = (
            served.finished_us // US_PER_MINUTE,
            served.account,
            served.region,
            served.queue,
            priced_as(served.operation, served.kind),
            served.principal,
            served.access_key_id,
            served.client.rpartition(":")[0],
            served.status,
            served.code,
            served.cell if served.operation in SENDS else "",
            served.counted,
            served.messages > 0,
        )
        size = served.bytes
        sums = self._sums.get(seen)
        if sums is None:
            sums = self._sums[seen] = [0, 0, 0, 0, 0]
        sums[0] += 1
        sums[1] += served.units or (1 if size <= UNIT_BYTES else -(-size // UNIT_BYTES))
        sums[2] += served.messages - served.duplicates
        sums[3] += size - served.duplicate_bytes
        sums[4] += served.failed_entries

    def take(self) -> Totals:
        """All that was counted since the last time; counting begins anew."""
        taken, self._sums = self._sums, {}
        return self._totals(taken)

    def look(self) -> Callable[[], Totals]:
        """What `take` would return now; added up when it is called, in whatever thread."""
        seen = {what: sums.copy() for what, sums in self._sums.items()}
        return lambda: self._totals(seen)

    def forget(self) -> None:
        """Let go of all that was counted since the last time."""
        self._sums = {}

    def _totals(self, taken: Mapping[_Seen, list[int]]) -> Totals:
        totals = Totals({}, {})
        for seen, added in taken.items():
            minute, account, region, queue, operation, principal, key = seen[:7]
            client, answered, code, cell, counted, some = seen[7:]
            region, client = region[:NAME_CHARS_MAX], client[:NAME_CHARS_MAX]
            status = answered - answered % 100  # classes alone are recorded
            asked = asked_for(operation)
            who = (minute, account, region, queue, asked, principal, key, client, status, code)
            _add(totals.access, who, added)
            elsewhere = cell in self._ledgers or (self._leaves_sends and bool(cell))
            if counted and elsewhere:
                continue
            sums = [*added[:2], 0, 0, *added[4:]] if elsewhere else added
            empty = operation == RECEIVE and not some
            what = (minute, account, region, queue, operation, status, code, empty)
            _add(totals.usage, what, sums)
        return totals


def _add(totals: dict[_K, list[int]], key: _K, sums: list[int]) -> None:
    found = totals.setdefault(key, [0, 0, 0, 0, 0])
    for place, amount in enumerate(sums):
        found[place] += amount
