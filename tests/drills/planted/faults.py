"""The faults: each makes the server of this process break a promise."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Final

import lmdb

from data_plane.bag import deleting, lane, receiving
from data_plane.embedded import cell, transaction
from data_plane.embedded.batch import answer_all
from data_plane.embedded.room import ADDS
from data_plane.ports import Appended
from tests.drills.planted.backups import copy_cells_apart, leave_out_segments
from tests.drills.planted.replicas import (
    act_unchecked,
    begin_anew_unasked,
    believe_the_first_copy,
    believe_the_head,
    forget_earlier_partitions,
    ignore_epochs,
    take_up_old_copies,
)

_COMMIT_LATER_S: Final = 0.05
_GUARD_MS: Final = 8_000
_DELETES_KEPT: Final = 10


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, which drill finds it, and as which kinds of violations.

    `causes` are the failures by which it is found, where the drill has several to choose from.
    """

    name: str
    drill: str
    kinds: frozenset[str]
    plant: Callable[[], None]
    causes: tuple[str, ...] = ()


def _never_sync() -> None:
    lmdb.open = partial(lmdb.open, sync=False)  # type: ignore[assignment]


def _answer_sends_before_commit() -> None:
    start = cell.EmbeddedCell._start
    commit_all = cell.EmbeddedCell._commit_all

    def start_and_answer(self: cell.EmbeddedCell) -> None:
        start(self)
        batch = self._committing
        for write, outcome in zip(batch.writes, batch.outcomes, strict=True) if batch else ():
            if isinstance(outcome, Appended):
                answer_all([write], [outcome])

    class LateTransactions:
        """Hands transactions to the committing thread a while after they were answered."""

        def __init__(self, commits: Any) -> None:
            self._commits = commits

        def put(self, handed_over: Any) -> None:
            self._commits.put(handed_over)

        def get(self) -> Any:
            handed_over = self._commits.get()
            time.sleep(_COMMIT_LATER_S)  # the fault itself: answered before it is committed
            return handed_over

    def commit_later(self: cell.EmbeddedCell) -> None:
        commits = self._commits
        self._commits = LateTransactions(commits)  # type: ignore[assignment]
        commit_all(self)

    cell.EmbeddedCell._start = start_and_answer  # type: ignore[method-assign]
    cell.EmbeddedCell._commit_all = commit_later  # type: ignore[method-assign]


def _believe_failed_commits() -> None:
    committed = cell.EmbeddedCell._committed

    def believe(self: cell.EmbeddedCell, error: lmdb.Error | None, commit_s: float) -> None:
        if error is not None and self._committing is not None:
            answer_all(self._committing.writes, self._committing.outcomes)
        committed(self, error, commit_s)

    cell.EmbeddedCell._committed = believe  # type: ignore[method-assign]


def _keep_room_for_what_adds() -> None:
    # A reserve that nobody keeps is not always missed: sends cost a little more than deletes.
    def kept_bytes(grade: int, reserve_bytes: int) -> int:
        return reserve_bytes if grade == ADDS else 2 * reserve_bytes

    vars(transaction)["kept_bytes"] = kept_bytes


def _keep_leases_too_long() -> None:
    for reader in (lane, receiving):
        vars(reader)["FOREIGN_LEASE_GUARD_MS"] = _GUARD_MS


def _forget_deletes() -> None:
    numbers, delete = count(1), deleting._delete_blindly

    async def forgetting(*block: Any) -> set[str]:
        return set() if next(numbers) % _DELETES_KEPT == 0 else await delete(*block)

    deleting._delete_blindly = forgetting  # type: ignore[assignment]


FAULTS: Final = {
    fault.name: fault
    for fault in (
        # Leases are lost, too. Or nothing can be read any more, and the server says so.
        Fault(
            "never-sync",
            "power-cut",
            frozenset({"lost", "resurrected", "early", "count", "answer"}),
            _never_sync,
        ),
        Fault(
            "answer-before-commit",
            "power-cut",
            frozenset({"lost", "resurrected"}),
            _answer_sends_before_commit,
        ),
        Fault(
            "answer-before-commit-killed",
            "kill",
            frozenset({"lost", "resurrected"}),
            _answer_sends_before_commit,
        ),
        # What is there, and is not found in time, is told from what is lost.
        Fault("keep-leases-too-long", "kill", frozenset({"hidden"}), _keep_leases_too_long),
        Fault("forget-deletes", "kill", frozenset({"resurrected"}), _forget_deletes),
        Fault(
            "believe-failed-commits",
            "failing-writes",
            # A lease that was believed shows as a receipt handle that is not accepted, too.
            frozenset({"lost", "resurrected", "early", "count", "answer"}),
            _believe_failed_commits,
        ),
        Fault(
            "keep-room-for-what-adds", "full-disk", frozenset({"answer"}), _keep_room_for_what_adds
        ),
        Fault(
            "copy-cells-apart",
            "backup",
            # The server may not even start on what does not belong together.
            frozenset({"lost", "resurrected", "order", "altered", "answer"}),
            copy_cells_apart,
        ),
        Fault("leave-out-segments", "backup", frozenset({"lost"}), leave_out_segments),
        Fault(
            "forget-earlier-partitions",
            "split",
            frozenset({"lost", "order"}),
            forget_earlier_partitions,
        ),
        Fault(
            "believe-the-head",
            "streams",
            frozenset({"lost", "order", "altered", "count", "duplicate"}),
            believe_the_head,
            ("failed",),
        ),
        Fault(
            "believe-the-first-copy",
            "several-tables",
            frozenset({"lost"}),
            believe_the_first_copy,
            ("killed",),
        ),
        Fault(
            "take-up-old-copies",
            "several-tables",
            frozenset({"lost", "resurrected", "order", "duplicate", "early"}),
            take_up_old_copies,
            ("stale",),
        ),
        Fault(
            "believe-the-first-copy-operated",
            "operators",
            frozenset({"lost"}),
            believe_the_first_copy,
            ("empty",),
        ),
        Fault(
            "begin-anew-unasked",
            "operators",
            frozenset({"lost"}),
            begin_anew_unasked,
            ("lose all",),
        ),
        Fault(
            "ignore-epochs",
            "several-tables",
            frozenset({"lost", "resurrected", "order", "duplicate", "early", "answer"}),
            ignore_epochs,
            ("old map",),
        ),
        Fault(
            "act-unchecked",
            "several-tables",
            frozenset({"lost", "resurrected", "order", "duplicate", "early"}),
            act_unchecked,
            ("at odds",),
        ),
    )
}
