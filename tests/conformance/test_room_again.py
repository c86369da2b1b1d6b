"""A full disk on which others made room: what is sent is stored again."""

import asyncio
from pathlib import Path

from tests.conformance.test_embedded_cell import file_size_limit
from tests.conformance.test_full_store import CELLS, DISK_BYTES, KINDS, opened


@CELLS
@KINDS
def test_a_disk_with_room_again_is_used(tmp_path: Path, names: str, *, fifo: bool) -> None:
    async def main() -> None:
        async with opened(tmp_path, names, fifo=fifo) as site:
            await site.create("big")
            with file_size_limit(DISK_BYTES):
                await site.fill("big")
                assert any(site.full)
            site.clock.advance(2)
            assert await site.send("big") == 200
            assert not any(site.full)

    asyncio.run(main())
