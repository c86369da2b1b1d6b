"""A registry over one memory cell, in virtual time, and the messages of queues as a fake."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

import pytest

from control_plane import several_cells
from control_plane.message_moves import MessageMoves
from control_plane.operations.catalog import queue_operations
from control_plane.places import watching
from control_plane.registry import Registry
from data_plane.core.errors import RefusedError
from data_plane.core.message import Counts
from data_plane.core.queue import Queue
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Attributes, CellUnavailableError, Key
from data_plane.protocol.operation import Call, Params
from data_plane.stored.cell_of_queue import Placed
from tests.unit.repeatable import SECRET, HandClock, SeededEntropy

ACCOUNT = "111122223333"
REGION = "eu-west-1"


class RegistryCell(MemoryCell):
    """A memory cell that can be made not to answer, and that lets a test in before a read ends."""

    down = False
    before_answer: Callable[[], Coroutine[Any, Any, object]] | None = None

    async def get(self, key: Key, *, strong: bool = True) -> Attributes | None:
        if self.down:
            raise CellUnavailableError
        item = await super().get(key, strong=strong)
        interlude, self.before_answer = self.before_answer, None
        if interlude is not None:
            await interlude()
        return item


@dataclass
class FakeMessages:
    """Counts as a test sets them; purges and drops as they were asked for."""

    clock: HandClock
    known: Counts = field(default_factory=lambda: Counts(0, 0, 0, 0))
    purged: list[str] = field(default_factory=list)
    dropped_uids: list[str] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    restamped: list[int] = field(default_factory=list)
    changed_to: list[tuple[int, int]] = field(default_factory=list)

    async def counts(self, queue: Queue) -> Counts:
        self.counted.append(queue.name)
        return self.known

    async def purge(self, queue: Queue) -> int:
        self.purged.append(queue.name)
        return self.clock.now_us()

    def starting_us(self, stream: Placed, position: str, time_us: int) -> int:  # noqa: ARG002
        return time_us or (self.clock.now_us() if position == "LATEST" else 0)

    async def retention_s(self, queue: Queue) -> int:
        return queue.retention_s

    async def restamp(self, queue: Queue) -> None:
        self.restamped.append(queue.retention_s)

    def changed(self, queue: Queue) -> None:
        self.changed_to.append((queue.version, queue.retention_s))

    def dropped(self, queue: Queue) -> None:
        self.dropped_uids.append(queue.uid)


class ControlPlane:
    """The queue operations as one caller uses them."""

    def __init__(self, *, sixty_second_rules: bool = True) -> None:
        self.clock = HandClock()
        self.cell = RegistryCell(self.clock)
        self.entropy = SeededEntropy()
        self.messages = FakeMessages(self.clock)
        self.registry = self.server(sixty_second_rules=sixty_second_rules)
        self.moves = MessageMoves(self.cell, self.clock, self.entropy)
        operations = queue_operations(self.registry, self.messages, self.moves)
        self.operations = {operation.name: operation for operation in operations}

    def server(self, *, sixty_second_rules: bool = True, secret: bytes = SECRET) -> Registry:
        """Another server's registry over the same cell."""
        return Registry(
            self.cell,
            ["a", "b"],
            self.clock,
            self.entropy,
            sixty_second_rules=sixty_second_rules,
            secret=secret,
        )

    def call(
        self, action: str, *, account: str = ACCOUNT, region: str = REGION, **params: Any
    ) -> Params:
        """Perform an action; `QueueUrl` may be a bare name."""
        return asyncio.run(self.perform(action, account=account, region=region, **params))

    async def perform(
        self, action: str, *, account: str = ACCOUNT, region: str = REGION, **params: Any
    ) -> Params:
        queue = None
        if "QueueUrl" in params:
            queue = await self.registry.find(account, region, params["QueueUrl"])
            assert queue is not None, "the front end answers that there is no such queue"
        call = Call(
            request_id="r",
            account=account,
            region=region,
            base_url="http://localhost:9324",
            now_us=self.clock.now_us(),
            params=params,
            queue=queue,
        )
        return await self.operations[action].perform(call)

    def find(self, name: str) -> Queue | None:
        return asyncio.run(self.registry.find(ACCOUNT, REGION, name))

    def attributes(self, name: str, *names: str) -> dict[str, str]:
        answer = self.call("GetQueueAttributes", QueueUrl=name, AttributeNames=list(names))
        return dict(answer.get("Attributes", {}))


def refusal(control: ControlPlane, action: str, **params: Any) -> str:
    """Code and message of the refusal, which must have changed nothing."""
    before = control.cell.items()
    with pytest.raises(RefusedError) as refused:
        control.call(action, **params)
    assert control.cell.items() == before
    return f"{refused.value.fault.code}: {refused.value.message}"


@pytest.fixture
def control() -> ControlPlane:
    return ControlPlane()


@pytest.fixture
def lenient() -> ControlPlane:
    """Without the 60 second rules."""
    return ControlPlane(sixty_second_rules=False)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells on a disk that is busy may take their time."""
    monkeypatch.setattr(watching, "PROBE_US_MAX", 60_000_000)
    monkeypatch.setattr(several_cells, "_LAST_WORD_S_MAX", 60.0)
