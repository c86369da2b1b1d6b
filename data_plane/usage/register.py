"""Who may have written usage records: the register of writers, beside queues' definitions.

docs/storage.md, "Writers of usage records". It says of a writer that it was there whatever becomes
of its mark, and which servers were cut off: those another one ends, and makes records of their
tails.
"""

from typing import Final, NamedTuple

from data_plane.ports import Attributes, Cell, CellUnavailableError, Equals, Key, Update
from data_plane.stored.segment import FORMAT_VERSION, check_version, number
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import US_PER_MINUTE, Mark
from data_plane.usage.writer import UsageWriter

WRITERS: Final = "M|writers"
AT_WORK: Final = "M|writing"

SILENT_US: Final = 50 * US_PER_MINUTE
"""A server that is not heard of for so long has ended, for others."""

UNHEARD_US_MAX: Final = 40 * US_PER_MINUTE
"""A server that could not say for so long that it is at work asks before it numbers records."""

LOOK_EVERY_US: Final = 10 * US_PER_MINUTE
KEPT_S: Final = 400 * 24 * 3600
AT_WORK_KEPT_S: Final = 30 * 24 * 3600
ENTERED_EVERY_US: Final = 5 * 24 * 60 * US_PER_MINUTE
"""A server that runs on says anew that it is there: what it has said is not kept for ever."""

ENDED, CUT_OFF = 1, 2
_PAGE: Final = 500


class _AtWork(NamedTuple):
    """A server that did not say that it ended."""

    name: str
    heard_us: int


class EndedByOthersError(CellUnavailableError):
    """Others took this server for ended: it goes on as another writer."""


async def enter(cell: Cell, mark: Mark) -> None:
    """Register a writer. Raises CellUnavailableError."""
    item: Attributes = {
        "v": FORMAT_VERSION,
        "k": mark.kind,
        "o": mark.opened,
        "a": mark.after,
        "x": cell.now_us() // 1_000_000 + KEPT_S,
    }
    await cell.put(Key(WRITERS, mark.writer.encode()), item)


class Register:
    """A server's side of the register, in the registry's cell.

    `alone`: no other server has the service's cells, so whoever is found at work has ended.
    """

    def __init__(self, cell: Cell, place: UsagePlace, writer: UsageWriter, *, alone: bool) -> None:
        self._cell = cell
        self._place = place
        self._writer = writer
        self._alone = alone
        self._entered = ""
        self._heard_us = self._entered_us = self._look_us = 0
        self._others_done = False

    async def write(self) -> None:
        """Let the writer write, and say that it is at work.

        Raises CellUnavailableError, after the writer wrote where it may; EndedByOthersError.
        """
        failed = await self._hear()
        await self._writer.write()
        if failed is not None:
            raise failed

    async def close(self) -> None:
        """Let the writer write for the last time, and say that it ended, and how far it came.

        Raises as `write` does.
        """
        failed = await self._hear()
        await self._writer.close()
        if failed is not None:
            raise failed
        await self._end(self._writer.mark(), ENDED)
        await self._cell.delete(_at_work(self._writer.name))

    async def open(self) -> None:
        """Say that the writer exists. Raises CellUnavailableError; then `write` does."""
        now_us, name = self._cell.now_us(), self._writer.name
        await enter(self._cell, self._writer.mark())
        await self._cell.put(_at_work(name), _heard(now_us))
        self._entered, self._heard_us, self._entered_us = name, now_us, now_us

    async def end_others(self) -> None:
        """End servers that were cut off, where it is time to look. Raises CellUnavailableError."""
        now_us = self._cell.now_us()
        if now_us < self._look_us or (self._alone and self._others_done):
            return
        # Where only this server can do it, what fails is tried again each minute.
        self._look_us = 0 if self._alone else now_us + LOOK_EVERY_US
        for one in await self._at_work():
            if self._alone or now_us - one.heard_us > SILENT_US:
                await self._finish(one)
        self._others_done = True

    async def _hear(self) -> CellUnavailableError | None:
        """Say that the writer is at work: what failed, if it may write all the same."""
        now_us = self._cell.now_us()
        try:
            if self._entered != self._writer.name:
                await self.open()
            else:
                await self._go_on(now_us)
        except EndedByOthersError as error:
            return error
        except CellUnavailableError as error:
            if not self._alone and self._entered and now_us - self._heard_us > UNHEARD_US_MAX:
                raise
            return error
        return None

    async def _go_on(self, now_us: int) -> None:
        if not self._alone:
            await self._tell(now_us)
        if now_us - self._entered_us > ENTERED_EVERY_US:
            await enter(self._cell, self._writer.mark())
            if self._alone:
                await self._cell.put(_at_work(self._writer.name), _heard(now_us))
            self._entered_us = now_us

    async def _tell(self, now_us: int) -> None:
        key = _at_work(self._writer.name)
        while True:
            said = ((Equals("t", self._heard_us),),)
            written = await self._cell.update(key, Update(_heard(now_us)), said)
            if written.applied:
                self._heard_us = now_us
                return
            # Others say 0 or nothing: what else is there is its own, whose answer was lost.
            self._heard_us = _seen(written.before) if written.before is not None else 0
            if not self._heard_us:
                ended = self._writer.name
                await self._writer.begin_anew()
                await self.open()
                raise EndedByOthersError(f"usage: others ended {ended}; this server is another now")

    async def _finish(self, one: _AtWork) -> None:
        """End a server that was cut off; what fails is tried again, by whoever looks."""
        now_us = self._cell.now_us()
        if not self._alone and now_us - await self._place.counted_to(one.name) <= SILENT_US:
            return  # These tables are a copy of those that it still says it to.
        if not self._alone and one.heard_us:
            # It may only have been frozen: from here on it does not find what it said last.
            said = ((Equals("t", one.heard_us),),)
            taken = await self._cell.update(_at_work(one.name), Update({"t": 0}), said)
            if not taken.applied:
                return
        mark = await self._place.finish(one.name, ended=now_us // US_PER_MINUTE)
        if mark is not None:
            await self._end(mark, ENDED if mark.closed else CUT_OFF)
        await self._cell.delete(_at_work(one.name))

    async def _end(self, mark: Mark, how: int) -> None:
        change: Attributes = {"v": FORMAT_VERSION, "e": how, "n": mark.records, "m": mark.access}
        await self._cell.update(Key(WRITERS, mark.writer.encode()), Update(change))

    async def _at_work(self) -> list[_AtWork]:
        found: list[_AtWork] = []
        after = b""
        while page := await self._cell.query(AT_WORK, after=after, limit=_PAGE):
            after = page[-1].key.sort
            found += [_AtWork(one.key.sort.decode(), _seen(one.attributes)) for one in page]
        return [one for one in found if one.name != self._writer.name]


def _at_work(name: str) -> Key:
    return Key(AT_WORK, name.encode())


def _heard(now_us: int) -> Attributes:
    return {"v": FORMAT_VERSION, "t": now_us, "x": now_us // 1_000_000 + AT_WORK_KEPT_S}


def _seen(item: Attributes) -> int:
    check_version(item)
    return number(item, "t")
