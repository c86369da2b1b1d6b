"""What the queue operations need of the messages of a queue; the bag engine has it."""

from typing import Protocol

from data_plane.core.message import Counts
from data_plane.core.queue import Queue
from data_plane.stored.cell_of_queue import Placed


class QueueMessages(Protocol):
    """The messages of all queues. The coroutines raise CellUnavailableError."""

    async def counts(self, queue: Queue) -> Counts:
        """Approximate numbers of messages."""
        ...

    def starting_us(self, stream: Placed, position: str, time_us: int) -> int:
        """The first purge stamp of a queue that is to read this stream from a position on.

        `time_us` is that of AT_TIMESTAMP.
        """
        ...

    async def retention_s(self, queue: Queue) -> int:
        """For how long the queue's messages are kept: those of a stream, as it says."""
        ...

    async def purge(self, queue: Queue) -> int:
        """The stamp (us): messages sent at or before it count as purged once it is stored."""
        ...

    async def restamp(self, queue: Queue) -> None:
        """Keep what is stored as long as this definition's retention, which is about to rise."""
        ...

    def changed(self, queue: Queue) -> None:
        """The definition was changed to this: what is under way must not go by one of before."""
        ...

    def dropped(self, queue: Queue) -> None:
        """The queue was deleted: end its long polls, forget what is cached."""
        ...
