"""What an embedded cell counts of its work, for metrics."""

from dataclasses import dataclass

from data_plane.embedded.transaction import WriteTransaction


@dataclass(slots=True)
class CellCounters:
    """What the cell did since it was opened; `commit_s` is spent in commits, fsyncs included."""

    commits: int = 0
    writes: int = 0
    bytes_written: int = 0
    commit_s: float = 0.0
    commit_s_max: float = 0.0
    failed_commits: int = 0

    def note(self, transaction: WriteTransaction, commit_s: float) -> None:
        """Count a commit."""
        self.commits += 1
        self.writes += transaction.writes
        self.bytes_written += transaction.bytes_written
        self.commit_s += commit_s
        self.commit_s_max = max(self.commit_s_max, commit_s)
