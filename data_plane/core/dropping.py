"""What is said of items that are superfluous, and who drops them."""

from typing import NamedTuple, Protocol, runtime_checkable


class Superfluous(NamedTuple):
    """What to drop of a partition.

    Of a standard queue's segments and states, what is of messages that were sent at or before
    `until_us` alone; of every other partition the items below the sort key `below`.
    """

    partition: str
    until_us: int = 0
    below: bytes = b""


class Dropped(NamedTuple):
    """What a step has dropped: how many `items`, and up to which sort key it has looked.

    b"": to the end. `whole`: nobody that has copies was left out.
    """

    position: bytes
    items: int = 0
    whole: bool = True


@runtime_checkable
class DroppingAll(Protocol):
    """A cell that removes items of a partition faster than one by one."""

    async def drop(self, partition: str, budget: int) -> int:
        """Remove up to `budget` items; how many it were, 0 if the partition was empty."""
        ...


@runtime_checkable
class Dropping(Protocol):
    """A cell that drops what is superfluous itself; others leave it to its time to live."""

    async def drop_superfluous(self, part: Superfluous, after: bytes) -> Dropped:
        """A bounded step behind this sort key, in one write. Raises CellUnavailableError."""
        ...
