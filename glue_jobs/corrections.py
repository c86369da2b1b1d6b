"""Closed months of which something changed: whether they can be corrected still."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from glue_jobs import hours
from glue_jobs.hours import SomeFiles
from glue_jobs.inputs import files_of
from glue_jobs.outputs import Pointer
from glue_jobs.places import Place
from glue_jobs.records import RECORDS
from glue_jobs.sealed_hours import listing_of
from glue_jobs.sealing import Places

MANIFEST: Final = "hours.json"
"""The name of what lists the hours that a run was made from, in its folder of inputs."""

_BEFORE: Final = "files.json"
"""The same of runs of before, which lists files."""


@dataclass(frozen=True, slots=True)
class Gone:
    """How many files that a closed period was invoiced from are gone, and how many came since.

    `names` and `new_names` are the first of them.
    """

    files: int
    new: int
    names: tuple[str, ...] = ()
    new_names: tuple[str, ...] = ()

    @classmethod
    def of(cls, gone: SomeFiles, new: SomeFiles) -> "Gone":
        """These files."""
        return cls(gone.count, new.count, gone.names, new.names)


def changed(
    session: SparkSession, usage: Place, of: Sequence[Pointer], closed: Sequence[Pointer]
) -> set[str]:
    """Which of these closed periods have other files, by names and sizes, than they cover."""
    covers = {
        its.period: next(
            (one, each) for each in reversed(closed) if (one := each.said["covers"].get(its.period))
        )
        for its in of
    }
    of_hours = [period for period, (_, by) in covers.items() if not _is_of_before(by)]
    now = hours.listings(session, usage, of_hours)
    for period in covers.keys() - now.keys():
        now[period] = listing_of(files_of(usage, period))
    return {period for period, (covered, _) in covers.items() if covered != now[period]}


def _is_of_before(its: Pointer) -> bool:
    return any(one["name"].endswith(f"/{_BEFORE}") for one in its.said["files"])


def gone_of(session: SparkSession, places: Places, of: Pointer, closed: Sequence[Pointer]) -> Gone:
    """Which files a closed period was invoiced from that are gone, and how many are new.

    Without all of them nobody can say what of the new ones was invoiced.
    """
    for its in reversed(closed):
        name = MANIFEST if its.period == of.period else f"of={of.period}.json"
        folder = f"inputs/period={its.period}/run={its.run}"
        try:
            manifest = places.out.read(f"{folder}/{name}")
        except FileNotFoundError:
            if its.period == of.period:
                return _gone_of_before(places, its.period, places.out.read(f"{folder}/{_BEFORE}"))
            continue  # It did not correct this period.
        said = json.loads(manifest)
        if isinstance(said, list):
            return _gone_of_before(places, of.period, manifest)
        known = {folder: (listing, covers) for folder, listing, covers, _, _ in said["hours"]}
        there = [name for name, _ in hours.hours_in(places.usage, RECORDS, of.period)]
        asked = [(name, *known.get(name, ("", ""))) for name in sorted({*known, *there})]
        return Gone.of(*hours.gone_and_new(session, places, asked))
    return Gone(0, 0)


def _gone_of_before(places: Places, period: str, manifest: bytes) -> Gone:
    known = {name for name, _, _, reason in json.loads(manifest) if not reason}
    there = {its.name for its in files_of(places.usage, period)}
    return Gone.of(SomeFiles.of(known - there), SomeFiles.of(there - known))
