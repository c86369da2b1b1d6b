"""Records of a cell's ledger of sends: each row becomes one, whatever is cut off meanwhile.

docs/storage.md, "Ledger of sends".
"""

from typing import Final

from data_plane.ports import Attributes, Cell, Entropy, Item, Key
from data_plane.stored import ledger
from data_plane.stored.ledger import LedgerRow, read_row
from data_plane.stored.segment import FORMAT_VERSION, number, octets
from data_plane.usage.place import UsagePlace
from data_plane.usage.record import (
    MARK_SCHEMA,
    SCHEMA,
    US_PER_MINUTE,
    WRITER_BYTES,
    Mark,
    UsageRecord,
)

STATE: Final = Key("M|ledger", b"00")
ROWS_PER_STEP: Final = 1_000
ROWS_PENDING_MAX: Final = 10_000

UNDER_WAY_US: Final = 30_000_000
"""So long a write may take whose stamp is of the minute before: its row comes with it."""


class SendRecords:
    """Makes records of the rows of a cell's ledger. One at a time, by whoever has the cell."""

    def __init__(
        self,
        cell: Cell,
        place: UsagePlace,
        entropy: Entropy,
        *,
        rows_per_step: int = ROWS_PER_STEP,
    ) -> None:
        self._rows_per_step = rows_per_step
        self._cell = cell
        self._place = place
        self._entropy = entropy
        self._state: Attributes | None = None
        self._marked = (0, 0)
        self.written = 0

    async def write(self) -> None:
        """Store the rows of minutes that are over, and of which nothing is under way any more.

        Raises CellUnavailableError; what was not stored then waits in the cell.
        """
        await self._write(_final_minute(self._cell))

    async def write_last(self) -> None:
        """Store all rows, as nothing is sent any more. Raises as `write` does."""
        await self._write(None)

    async def pending(self) -> list[UsageRecord]:
        """Records that the first rows that wait would be, `ROWS_PENDING_MAX` at most.

        Raises CellUnavailableError.
        """
        state = self._state
        while True:
            at = state or await self._cell.get(STATE) or {"i": "", "n": 0, "p": b""}
            rows: list[Item] = []
            after = octets(at, "p")
            while len(rows) < ROWS_PENDING_MAX and (page := await self._rows_after(after, None)):
                rows += page
                after = page[-1].key.sort
            if state is self._state:
                numbered = enumerate(rows, start=number(at, "n") + 1)
                return [_record(str(at["i"]), place, read_row(row)) for place, row in numbered]
            state = self._state  # What was read may be recorded by now.

    async def _write(self, before_minute: int | None) -> None:
        if self._state is None:
            self._state = await self._resume()
        state = self._state
        minute = self._cell.now_us() // US_PER_MINUTE if before_minute is None else before_minute
        until = None if before_minute is None else ledger.until_minute(before_minute)
        while rows := await self._rows_after(octets(state, "p"), until):
            last = number(state, "n")
            writer = str(state["i"])
            records = [
                _record(writer, at, read_row(row)) for at, row in enumerate(rows, start=last + 1)
            ]
            await self._place.put(records)
            state = {**state, "n": last + len(rows), "p": rows[-1].key.sort}
            await self._cell.put(STATE, state)
            self._state = state
            self._cell.expire([row.key for row in rows])
            self.written += len(rows)
        await self._mark(state, minute)

    async def _resume(self) -> Attributes:
        """Where others left off; rows that became records and were not deleted go."""
        state = await self._cell.get(STATE) or await self._begin()
        after = b""
        while rows := await self._rows_after(after, octets(state, "p")):
            # It may be a moment until they are gone.
            self._cell.expire([row.key for row in rows])
            after = rows[-1].key.sort
        return state

    async def _begin(self) -> Attributes:
        # Rows come before their ledger has a name: what it has begins with the first of them.
        rows = await self._cell.query(ledger.PARTITION, limit=1)
        present = self._cell.now_us() // US_PER_MINUTE
        state: Attributes = {
            "v": FORMAT_VERSION,
            "i": self._entropy.random_bytes(WRITER_BYTES).hex(),
            "b": min([present, *(read_row(row).minute for row in rows)]),
            "n": 0,
            "p": b"",
        }
        # Before anything goes by this name: it is chosen once.
        await self._cell.put(STATE, state)
        return state

    async def _rows_after(self, after: bytes, until: bytes | None) -> list[Item]:
        return await self._cell.query(
            ledger.PARTITION, after=after, until=until, limit=self._rows_per_step
        )

    async def _mark(self, state: Attributes, minute: int) -> None:
        if self._marked == (number(state, "n"), minute):
            return
        mark = Mark(
            *(MARK_SCHEMA, str(state["i"]), "ledger", number(state, "b"), ""),
            *(minute, number(state, "n"), 0, False),
        )
        await self._place.put_mark(mark)
        self._marked = number(state, "n"), minute


def _final_minute(cell: Cell) -> int:
    """Rows of minutes before this one are as they are going to stay."""
    return (cell.now_us() - UNDER_WAY_US) // US_PER_MINUTE


def _record(writer: str, at: int, row: LedgerRow) -> UsageRecord:
    # A row without calls has the rest of a call that began in the minute before.
    return UsageRecord(
        *(SCHEMA, writer, at, row.minute, row.account, row.region, row.queue),
        *("SendMessageBatch" if row.batch else "SendMessage", "2xx", ""),
        *(row.calls, row.units, row.messages, row.size_bytes, 0),
    )


async def discard(cell: Cell, from_minute: int) -> None:
    """Let go of the rows of minutes since then that are over: nobody wants records of them.

    Those of before wait for the next server that counts.
    """
    await _discard(cell, from_minute, ledger.until_minute(_final_minute(cell)))


async def discard_all(cell: Cell, from_minute: int) -> None:
    """Let go of all rows since then, as nothing is sent now; durable when it returns.

    Raises CellUnavailableError.
    """
    last = await _discard(cell, from_minute, None)
    if last is not None:
        await cell.delete(last)  # What waited to be removed goes with it.


async def _discard(cell: Cell, from_minute: int, until: bytes | None) -> Key | None:
    last: Key | None = None
    after = ledger.until_minute(from_minute)
    while rows := await cell.query(ledger.PARTITION, after=after, until=until, limit=ROWS_PER_STEP):
        cell.expire([row.key for row in rows])
        last = rows[-1].key
        after = last.sort
    return last
