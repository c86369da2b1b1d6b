"""A program for tests: appends to the embedded cell in a directory until it is killed.

Prints a line for each acknowledged append (`+` and the sort key in hexadecimal), for each delete
that begins (`?`), and for each acknowledged delete (`-`).
"""

import asyncio
import sys
import time
from pathlib import Path

from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import Append

WRITERS = 16


class _SystemClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000


async def _write(cell: EmbeddedCell, writer: int) -> None:
    number = 0
    while True:
        body = b"%d " % number * 100
        appended = await cell.append(Append("Q", b"%02d" % writer, {"v": 1, "z": body}, 0))
        print("+" + appended.key.sort.hex(), flush=True)
        if number % 3 == 0:
            print("?" + appended.key.sort.hex(), flush=True)
            await cell.delete(appended.key)
            print("-" + appended.key.sort.hex(), flush=True)
        number += 1


async def _main() -> None:
    cell = EmbeddedCell(Path(sys.argv[1]), _SystemClock())
    await asyncio.gather(*(_write(cell, writer) for writer in range(WRITERS)))


if __name__ == "__main__":
    asyncio.run(_main())
