"""Engines over queues with KMS keys: what they ask for, and what callers are told."""

from dataclasses import dataclass, field, replace

from data_plane.bag.engine import Bag
from data_plane.log.engine import Log
from data_plane.memory.cell import MemoryCell
from data_plane.runtime.event_loop import EventLoopWaits
from data_plane.stored.data_keys import DataKeys
from tests.unit.data_plane.bag.conftest import Bench as BagBench
from tests.unit.data_plane.log.conftest import Bench as LogBench
from tests.unit.data_plane.master_keys import HeldKeys

KMS = {"KmsMasterKeyId": "alias/theirs"}


@dataclass
class KmsBagBench(BagBench):
    """A standard queue with a KMS key; wrapped data keys lie in a cell of their own."""

    master_keys: HeldKeys = field(default_factory=HeldKeys)

    def __post_init__(self) -> None:
        self.registry = MemoryCell(self.clock)
        self.queue = replace(self.queue, attributes={**self.queue.attributes, **KMS})
        super().__post_init__()

    def front_end(self) -> Bag:
        waits = EventLoopWaits(self.clock)
        data_keys = DataKeys(self.clock, self.entropy, waits, self.registry, self.master_keys)
        return Bag({"a": self.cell}, self.clock, self.entropy, waits, data_keys=data_keys)

    def asked(self) -> dict[str, int]:
        """What was asked of the registry's cell and the master keys since the last time."""
        return _asked(self.registry, self.master_keys)


@dataclass
class KmsLogBench(LogBench):
    """A FIFO queue with a KMS key, likewise."""

    master_keys: HeldKeys = field(default_factory=HeldKeys)

    def __post_init__(self) -> None:
        self.registry = MemoryCell(self.clock)
        self.queue = replace(self.queue, attributes={**self.queue.attributes, **KMS})
        super().__post_init__()

    def front_end(self) -> Log:
        waits = EventLoopWaits(self.clock)
        data_keys = DataKeys(self.clock, self.entropy, waits, self.registry, self.master_keys)
        return Log({"a": self.cell}, self.clock, self.entropy, waits, data_keys=data_keys)

    def asked(self) -> dict[str, int]:
        """What was asked of the registry's cell and the master keys since the last time."""
        return _asked(self.registry, self.master_keys)


def _asked(registry: MemoryCell, master_keys: HeldKeys) -> dict[str, int]:
    spent = {**registry.requests, **master_keys.requests}
    registry.requests.clear()
    master_keys.requests.clear()
    return spent
