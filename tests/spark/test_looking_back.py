"""What closed months keep of samples is found again."""

from pathlib import Path

from glue_jobs.inputs import window_of
from glue_jobs.looking_back import kept_samples_of
from glue_jobs.outputs import Pointer
from glue_jobs.places import FolderPlace
from glue_jobs.stored_bytes import KEPT, Samples, byte_hours, encode

CELL = "a"
QUEUE = ("111122223333", "eu-west-1", "orders")
MINUTE_US = 60_000_000
START_US = window_of("2026-10").start * MINUTE_US


def kept_by(out: FolderPlace, period: str, *levels: tuple[int, int]) -> Pointer:
    """A run that keeps samples: minutes since the begin of October, and how many bytes then."""
    stored = {(CELL, START_US + minute * MINUTE_US): level for minute, level in levels}
    name = f"inputs/period={period}/run=its/{KEPT}"
    out.put(name, encode(Samples(frozenset(stored), {QUEUE: stored})))
    return Pointer(1, period, "its", closed=True, said={"files": [{"name": name}]})


def test_the_hour_before_a_period_is_kept_with_the_period_before_it(tmp_path: Path) -> None:
    out = FolderPlace(tmp_path)
    runs = [
        kept_by(out, "2026-08", (-40, 7000)),
        kept_by(out, "2026-09", (-30, 1000)),
        kept_by(out, "2026-10", (30, 4000)),
    ]
    found = kept_samples_of(out, runs, {"2026-11", "2026-10"})
    # October begins with what was stored half an hour before it.
    assert [its.byte_hours for its in byte_hours(found, window_of("2026-10"))] == [2500, 3000]
    # What August keeps is about no period that has a price.
    assert len(found.taken) == 2
    assert kept_samples_of(out, runs, ()) == Samples()
