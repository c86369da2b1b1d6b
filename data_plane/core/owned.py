"""What quotas of storage must know of what stores something: a queue, or a stream."""

from typing import Protocol


class Owned(Protocol):
    """An incarnation of something that belongs to an account."""

    @property
    def account(self) -> str:
        """Whose it is."""
        ...

    @property
    def name(self) -> str:
        """What its account calls it."""
        ...

    @property
    def uid(self) -> str:
        """Which incarnation it is."""
        ...
