"""The thread that commits: what it is handed over, and its whole life."""

import asyncio
import queue
from collections.abc import Callable
from time import perf_counter

import lmdb

Commits = queue.SimpleQueue[
    tuple[lmdb.Transaction, asyncio.AbstractEventLoop] | Callable[[], object] | None
]
"""Transactions, each with the loop that waits for it; calls behind them; None: the end."""


def commit_all(commits: Commits, committed: Callable[[lmdb.Error | None, float], None]) -> None:
    """Commit what is handed over; `committed` is called on its loop, with the seconds it took."""
    while (handed_over := commits.get()) is not None:
        if callable(handed_over):
            handed_over()
            continue
        txn, loop = handed_over
        started_s = perf_counter()
        error: lmdb.Error | None = None
        try:
            txn.commit()
        except lmdb.Error as raised:
            error = raised
        del txn, handed_over
        loop.call_soon_threadsafe(committed, error, perf_counter() - started_s)
