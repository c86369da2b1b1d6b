"""A whole service over embedded cells, in virtual time: what it leaves is to be audited."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from control_plane.cell_folders import FolderCell
from control_plane.cells import OpenedCell
from control_plane.export.layout import ExportedCell, write_export
from control_plane.export.source import copied_cell, folders_of
from control_plane.one_cell import open_cell
from control_plane.service import RunningService, ServicePorts, ServiceSettings
from control_plane.several_cells import SeveralCells
from control_plane.several_opening import as_opened, open_several
from control_plane.together import Together
from control_plane.usage import Usage, open_usage
from data_plane.embedded.cell import EmbeddedCell
from data_plane.embedded.failable import FailableCell
from data_plane.frontend.settings import FrontEndSettings
from data_plane.ports import Item
from data_plane.protocol.http import HttpRequest
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.settings import ServerSettings
from data_plane.usage.record import US_PER_MINUTE
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

ACCOUNT: Final = "123456789012"
REGION: Final = "eu-west-1"
_SCOPE: Final = f"20260101/{REGION}/sqs/aws4_request"
_WRITTEN_AFTER_US: Final = 20_000_000
_LOOK_EVERY_US: Final = 10_000_000
_COLLECTED: Final = 200
_COLLECTED_AT_ONCE: Final = 50


def _record_nothing(event: str, **fields: object) -> None:
    pass


class _PassedWaits(EventLoopWaits):
    """Whoever sleeps wakes at once, and it is later: nobody else moves the clock meanwhile."""

    def __init__(self, clock: HandClock) -> None:
        super().__init__(clock)
        self._hand = clock

    async def sleep_until(self, time_us: int) -> None:
        self._hand.time_us = max(self._hand.time_us, time_us)
        await asyncio.sleep(0)


class ServiceInTime:
    """A server without a network, which is started, stopped and killed over the same directory.

    Each second of its clock has the upkeep that a server's has.
    """

    def __init__(self, folder: Path, seed: int = 0, cells: int = 1, account: str = ACCOUNT) -> None:
        self.clock = HandClock()
        self.clock.time_us += US_PER_MINUTE - self.clock.time_us % US_PER_MINUTE
        self.exports, self.usage_place = folder / "exports", folder / "usage"
        self._data = folder / "data"
        self._entropy = SeededEntropy(seed)
        self._count = cells
        self._account = account
        self._headers = {
            "host": "sqs.example",
            "content-type": "application/x-amz-json-1.0",
            "authorization": (
                f"AWS4-HMAC-SHA256 Credential={account}/{_SCOPE}, SignedHeaders=host, Signature=00"
            ),
        }
        self._several: Together | None = None
        self._looked_us = 0
        self._opened: OpenedCell
        self._service: RunningService
        self._usage: Usage

    async def start(self) -> None:
        """Open the cells, with cold caches."""
        place = str(self.usage_place)
        settings = ServerSettings(data=self._data, usage=place, cells=self._count)
        self._data.mkdir(parents=True, exist_ok=True)
        if self._count > 1:
            self._several = await open_several(settings, self.clock, self._entropy)
            self._opened = as_opened(self._several)
        else:
            self._opened = await open_cell(settings, self.clock)
        several = self._several
        cells = several.standard if several else {self._opened.name: self._opened.cell}
        self._usage = await open_usage(
            settings, cells, self._opened.control, self.clock, self._entropy
        )
        ground = ServicePorts(
            cells=cells,
            control=self._opened.control,
            bodies={},
            clock=self.clock,
            entropy=self._entropy,
            waits=_PassedWaits(self.clock),
            registry_secret=SECRET,
            master_keys=None,
            fifo_cells=several.fifo if several else None,
            placing=several.placing if several else None,
            written_after_us=_WRITTEN_AFTER_US,
        )
        front_end = FrontEndSettings(default_account=self._account, default_region=REGION)
        settings_of_service = ServiceSettings(
            verifies=False, sixty_second_rules=False, front_end=front_end
        )
        self._service = RunningService(
            ground, settings_of_service, self._usage.served, _record_nothing
        )
        self._usage.follow(ground, self._service)
        await self._usage.open()

    async def kill(self) -> None:
        """End it: what it has in memory is lost, what it has acknowledged is not."""
        self._usage.end()
        if self._several is None:
            await self._opened.close()
        else:
            for cell in self._several.served.values():
                await cell.close()
            # What the end of a process lets go of.
            assert isinstance(self._several, SeveralCells)
            self._several._folders.unlock()

    async def stop(self) -> None:
        """End it as it should."""
        await self._service.engine.sweep()
        await self._usage.close()
        await self._opened.close()

    async def ask(self, operation: str, **params: Any) -> dict[str, Any]:
        """The answer to a request, which must not be an error."""
        headers = {**self._headers, "x-amz-target": f"AmazonSQS.{operation}"}
        request = HttpRequest("POST", "/", "", headers, json.dumps(params).encode(), "192.0.2.1")
        answer = await self._service.front_end.answer(request)
        assert answer.status == 200, (operation, answer.body)
        found: dict[str, Any] = json.loads(answer.body or b"{}")
        return found

    async def pass_time(self, seconds: float) -> None:
        """Let time pass; there is upkeep each second, or a hundred times where it is long."""
        step_s = max(1.0, seconds / 100)
        while seconds > 0:
            before_s = self.clock.now_us() // 1_000_000
            self.clock.advance(min(step_s, seconds))
            seconds -= step_s
            if self.clock.now_us() // 1_000_000 != before_s:
                await self._look_around()
                await self._upkeep()
        await self._look_around()

    async def _look_around(self) -> None:
        """See to the other cells: nothing goes by a map of them that is old."""
        if self._several is None or self.clock.now_us() - self._looked_us < _LOOK_EVERY_US:
            return
        self._looked_us = self.clock.now_us()
        await self._several.look()
        # A probe takes none of this clock's time.
        await asyncio.gather(*self._several._probes)
        await self._several.beat()

    async def _upkeep(self) -> None:
        service = self._service
        await service.engine.sweep()
        for cell in self._stores():
            # A cell pauses, in earnest, after as many: so it is asked again instead.
            for _ in range(_COLLECTED // _COLLECTED_AT_ONCE):
                await cell.collect(self.clock.now_us() // 1_000_000, _COLLECTED_AT_ONCE)
        if self._several is not None:
            await self._several.ship()
        await self._usage.step()
        await self._usage.record_sent()
        await service.sweep.step()
        await service.move_runner.step()

    def _stores(self) -> list[EmbeddedCell | FailableCell]:
        if self._several is None:
            assert isinstance(self._opened.cell, EmbeddedCell)
            return [self._opened.cell]
        served = self._several.served.values()
        return [each.cell for each in served if isinstance(each, FolderCell)]

    async def export(self, change: Callable[[list[Item]], list[Item]] = list) -> None:
        """Export the cells, which nobody has open, or what `change` makes of them."""
        # In a thread: it has an event loop of its own.
        await asyncio.to_thread(self._export, change)

    def _export(self, change: Callable[[list[Item]], list[Item]]) -> None:
        self.exports.mkdir(exist_ok=True)
        now_us = self.clock.now_us()
        for folder in folders_of(self._data) or [self._data]:
            with copied_cell(folder, self.exports, now_us) as cell:
                names = tuple(sorted(cell.paths))
                of = ExportedCell(cell.name or self._opened.name, cell.as_of_us, names)
                write_export(self.exports, of, change(list(cell.items)), now_us // 1000)
