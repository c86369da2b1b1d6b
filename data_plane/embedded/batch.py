"""Writes of an embedded cell that wait for a commit, and those that one commit stores."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import lmdb

from data_plane.core.eras import ONE_TIME, Eras
from data_plane.embedded.room import cost_bytes
from data_plane.embedded.transaction import WriteTransaction
from data_plane.ports import Attributes

LOG: Final = logging.getLogger(__name__)

BIG_WRITE_BYTES: Final = 65_536
BIG_WRITES_BYTES_MAX: Final = 1_048_576
"""Of big writes one commit takes so much, or one of them: what is small waits no longer for it."""


@dataclass(slots=True)
class QueuedWrite:
    """A queued write: what it does, whom it answers (nobody: None), and about how big it is.

    After `until_us` nobody waits for it any more: then it is not begun.
    """

    run: Callable[[WriteTransaction], object]
    answer: asyncio.Future[object] | None
    size_bytes: int = 0
    until_us: int | None = None


@dataclass(slots=True)
class Batch:
    """Writes of one transaction and their outcomes, in order."""

    transaction: WriteTransaction
    writes: list[QueuedWrite]
    outcomes: list[object] = field(default_factory=list)
    eras: Eras = ONE_TIME


@dataclass(slots=True)
class StoredEras:
    """Those that the cell has stored `last`, and whether it has any."""

    are_there: bool = False
    last: Eras | None = None

    def to_store(self, eras: Eras) -> bytes | None:
        """None: they are stored, or cell time always was the world's."""
        if eras is self.last:
            return None
        told = eras.to_bytes()
        self.are_there |= told != ONE_TIME.to_bytes()
        return told if self.are_there else None


def size_of(attributes: Attributes) -> int:
    """About how many bytes an item has: those of its binary attributes."""
    size_bytes = 0
    for value in attributes.values():
        if type(value) is bytes:
            size_bytes += len(value)
    return size_bytes


def taken_of(
    waiting: deque[QueuedWrite], bytes_max: int, now_us: int
) -> tuple[list[QueuedWrite], list[QueuedWrite]]:
    """Take from what waits the writes of the next commit, and those that came too late for it.

    Small ones pass big ones for which it has no room. Those stay in their order, and each commit
    takes one of them at least.
    """
    taken: list[QueuedWrite] = []
    late: list[QueuedWrite] = []
    passed: list[QueuedWrite] = []
    size_bytes = big_bytes = 0
    while waiting:
        write = waiting[0]
        if write.answer is not None and write.answer.cancelled():
            waiting.popleft()  # its caller has gone
            continue
        if write.until_us is not None and write.until_us <= now_us:
            late.append(waiting.popleft())
            continue
        is_big = write.size_bytes > BIG_WRITE_BYTES
        if is_big and big_bytes and big_bytes + write.size_bytes > BIG_WRITES_BYTES_MAX:
            passed.append(waiting.popleft())
            continue
        size_bytes += cost_bytes(write.size_bytes)
        if taken and size_bytes > bytes_max:
            break
        taken.append(waiting.popleft())
        if is_big:
            big_bytes += write.size_bytes
    waiting.extendleft(reversed(passed))
    return taken, late


def outcome_of(write: QueuedWrite, transaction: WriteTransaction) -> object:
    """What the write answers; a refused write or a caller's mistake concerns nobody else."""
    try:
        return write.run(transaction)
    except lmdb.Error:
        raise
    except Exception as error:  # noqa: BLE001 - raised again, to the one who waits for it
        return error


def answer_all(writes: Sequence[QueuedWrite], outcomes: Sequence[object]) -> None:
    """Tell whoever waits for these writes what became of them."""
    for write, outcome in zip(writes, outcomes, strict=True):
        if write.answer is None:
            if isinstance(outcome, Exception):
                LOG.warning("items that nobody needs were not removed: %s", outcome)
        elif write.answer.done():
            continue  # its caller was cancelled
        elif isinstance(outcome, Exception):
            write.answer.set_exception(outcome)
        else:
            write.answer.set_result(outcome)
