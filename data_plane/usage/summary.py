"""The running summary of a usage place: sums by the hour, each record counted once.

It is made from the objects that bills are made of. Names of objects say what they hold, so the
names of an hour say what its sums are: whoever has added up the same files stores the same summary,
and nobody reads those files again. See docs/usage.md, *Summaries*.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from data_plane.ports import Blobs, Clock, Offload
from data_plane.usage.hours import (
    MINUTES_PER_HOUR,
    SeenNumbers,
    Sums,
    add_up,
    decode_hour,
    each_once,
    encode_hour,
    version_of,
)
from data_plane.usage.parquet import decode
from data_plane.usage.record import US_PER_MINUTE, UsageRecord, hour_folder

US_PER_HOUR: Final = MINUTES_PER_HOUR * US_PER_MINUTE
OPEN_HOURS: Final = 3
"""So many hours, the present one among them, get records in the normal course of things."""

LIST_AFTER_US: Final = US_PER_HOUR
"""So long what came late for an older hour may go unseen."""

_PAGE: Final = 1000
_RECORDS: Final = "records"
_SUMMARIES: Final = "summaries"


class _OpenHour:
    """An hour to which records still come: what is added up of it so far."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.sums: Sums = {}
        self.seen = SeenNumbers()
        self.version = version_of(())


class UsageSummary:
    """Sums of a usage place by the hour. `refused` counts files that are none of records.

    `offload` takes what is long, the rating of sums as well. Not to be called while another call is
    under way.
    """

    def __init__(self, blobs: Blobs, offload: Offload, clock: Clock) -> None:
        self._blobs = blobs
        self.offload = offload
        self._clock = clock
        self._open: dict[int, _OpenHour] = {}
        self._listed: dict[int, str] = {}
        self._listed_us: dict[int, int] = {}
        self.looked_us = 0
        self.refused = 0
        self.files_read = 0

    async def look(self) -> None:
        """Read what came to the place for the open hours. Raises CellUnavailableError."""
        now_us = self._clock.now_us()
        hour = now_us // US_PER_HOUR
        first = hour - OPEN_HOURS + 1
        found = await self._names(first, hour + 2)  # Clocks of others may be ahead.
        for at, names in found.items():
            await self._follow(at, names)
        for at in [at for at in self._open if at < first]:
            await self._seal(at, self._open[at].names, self._open[at].sums)
            self._listed[at] = self._open.pop(at).version
        self.looked_us = now_us

    async def versions(self, first: int, until: int) -> Mapping[int, str]:
        """What the hours from `first`, before `until`, have, as far as there is anything.

        Hours with the same version have the same sums. Raises CellUnavailableError.
        """
        now_us = self._clock.now_us()
        if now_us - self._listed_us.get(first, -LIST_AFTER_US) >= LIST_AFTER_US:
            for at, names in (await self._names(first, until)).items():
                if at not in self._open:
                    self._listed[at] = version_of(names)
            self._listed_us[first] = now_us
        opened = {at: hour.version for at, hour in self._open.items() if hour.names}
        known = {**self._listed, **opened}
        return {at: known[at] for at in sorted(known) if first <= at < until}

    async def sums(self, hour: int, version: str) -> Sums:
        """The sums of an hour whose version was told. Raises CellUnavailableError."""
        if hour in self._open:
            return self._open[hour].sums
        stored = await self._blobs.get(_summary_name(hour, version))
        if stored is not None:
            try:
                return await self.offload(lambda: decode_hour(stored, hour))
            except ValueError:
                self.refused += 1
        names = (await self._names(hour, hour + 1)).get(hour, [])
        sums: Sums = {}
        add_up(each_once(await self._all_of(hour, names)), sums)
        self._listed[hour] = version_of(names)
        await self._seal(hour, names, sums)
        return sums

    def is_pending(self, record: UsageRecord) -> bool:
        """Whether a record is of an open hour, and not in its sums.

        One of an older hour waits until its file comes: whether it is stored is not known here.
        """
        at = record.minute // MINUTES_PER_HOUR
        if at <= self._clock.now_us() // US_PER_HOUR - OPEN_HOURS:
            return False
        hour = self._open.get(at)
        return hour is None or not hour.seen.has(record)

    async def _follow(self, at: int, names: list[str]) -> None:
        """Add the files that are new to an open hour."""
        hour = self._open.setdefault(at, _OpenHour())
        for name in names:
            if name in hour.names:
                continue
            records = await self._read(name, at)
            if any(hour.seen.has(record) for record in records):
                # Copies, in part: the files are added up together, and each record once.
                await self._begin_anew(at, [*hour.names, name])
            else:
                hour.names.add(name)
                add_up(records, hour.sums)
                hour.seen.add(records)
        if hour.names != set(names):
            await self._begin_anew(at, names)  # Something was removed.
        hour.version = version_of(hour.names)

    async def _begin_anew(self, at: int, names: list[str]) -> None:
        records = await self._all_of(at, names)
        hour = self._open[at]
        sums: Sums = {}
        seen = SeenNumbers()
        add_up(each_once(records), sums)
        seen.add(records)
        hour.names, hour.sums, hour.seen = set(names), sums, seen

    async def _all_of(self, at: int, names: list[str]) -> list[UsageRecord]:
        return [record for name in names for record in await self._read(name, at)]

    async def _read(self, name: str, at: int) -> list[UsageRecord]:
        """A file's records; none where it is not what its name says: bills put it aside, too."""
        content = await self._blobs.get(name)
        if content is None:
            return []
        self.files_read += 1
        try:
            return await self.offload(lambda: _records_of(name, content, at))
        except ValueError:
            self.refused += 1
            return []

    async def _seal(self, hour: int, names: set[str] | list[str], sums: Sums) -> None:
        """Store what an hour came to that is over."""
        if hour > self._clock.now_us() // US_PER_HOUR - OPEN_HOURS or not names:
            return
        name = _summary_name(hour, version_of(names))
        if await self._blobs.get(name) is None:
            await self._blobs.put(name, await self.offload(lambda: encode_hour(hour, sums)))

    async def _names(self, first: int, until: int) -> dict[int, list[str]]:
        """Names of files of records, by their hours."""
        after = f"{_RECORDS}/{hour_folder(first * MINUTES_PER_HOUR)}/"
        end = f"{_RECORDS}/{hour_folder(until * MINUTES_PER_HOUR)}/"
        hours = {hour_folder(at * MINUTES_PER_HOUR): at for at in range(first, until)}
        found: dict[int, list[str]] = {}
        while page := await self._blobs.names(after, limit=_PAGE):
            for blob in page:
                if blob.name >= end:
                    return found
                at = hours.get(blob.name.removeprefix(f"{_RECORDS}/").rpartition("/")[0])
                if at is not None:
                    found.setdefault(at, []).append(blob.name)
            after = page[-1].name
        return found


def _summary_name(hour: int, version: str) -> str:
    return f"{_SUMMARIES}/{hour_folder(hour * MINUTES_PER_HOUR)}/{version}.json.zst"


def _records_of(name: str, content: bytes, hour: int) -> list[UsageRecord]:
    """Raises ValueError."""
    if sha256(content).hexdigest() != name.rpartition("/")[2].partition(".")[0]:
        raise ValueError("it is not what its name says")
    records = decode(content)
    if any(record.minute // MINUTES_PER_HOUR != hour for record in records):
        raise ValueError("a record is of another hour")
    return records
