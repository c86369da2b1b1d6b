"""What jobs write: tables whose bytes depend on their rows alone, and runs that never change.

A run's tables lie in folders of their own, named by what the run was made from; nothing in them is
ever written over with other bytes. A *pointer* says which run holds for a period: pointers are
numbered, put one after the other, and the highest counts.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from pyspark.sql import DataFrame

from glue_jobs.arguments import JobError
from glue_jobs.places import Place

RUN_SCHEMA: Final = "tidegate.run/1"
_DRAFTS: Final = "_drafts"
_POINTERS: Final = "runs"


@dataclass(frozen=True, slots=True, order=True)
class Written:
    """An object that a run put."""

    name: str
    bytes: int
    sha256: str


def canonical(value: Any) -> bytes:
    """The one text of a JSON value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def put_once(place: Place, name: str, content: bytes) -> Written:
    """Put an object of a run. Raises JobError where there is one with other bytes."""
    if not place.put_new(name, content) and place.read(name) != content:
        raise JobError(f"{place.url}/{name}: another run of the same inputs wrote other bytes")
    return Written(name, len(content), sha256(content).hexdigest())


def write_table(table: DataFrame, place: Place, folder: str, keys: Sequence[str]) -> list[Written]:
    """Put a table with a column `date` as one Parquet file for each day, rows in order of `keys`.

    `keys` tell rows apart, so that their order, and with it each byte, is settled.
    """
    drafts = f"{_DRAFTS}/{folder}"
    place.clear(drafts)
    ordered = table.repartition("date").sortWithinPartitions("date", *keys)
    ordered.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").partitionBy(
        "date"
    ).parquet(f"{place.url}/{drafts}")
    written = []
    for found in place.list(f"{drafts}/"):
        day = found.name.removeprefix(f"{drafts}/").rpartition("/")[0]
        written.append(put_once(place, f"{folder}/{day}/rows.parquet", place.read(found.name)))
    place.clear(drafts)
    names = [its.name for its in written]
    if len(names) != len(set(names)):
        raise JobError(f"{folder}: a day has more than one file")
    return written


@dataclass(frozen=True, slots=True)
class Pointer:
    """Which run holds for a period; `closed` ones hold for good. `said` is the whole of it."""

    number: int
    period: str
    run: str
    closed: bool
    said: dict[str, Any]


def pointer_of(place: Place, period: str) -> Pointer | None:
    """The pointer that counts for a period."""
    found = place.list(f"{_POINTERS}/period={period}/")
    return _pointer(place, found[-1].name) if found else None


def pointers(place: Place) -> list[Pointer]:
    """The pointer that counts of each period, in their order."""
    last = {its.name.split("/")[1]: its.name for its in place.list(f"{_POINTERS}/period=")}
    return [_pointer(place, name) for _, name in sorted(last.items())]


def _pointer(place: Place, name: str) -> Pointer:
    said = json.loads(place.read(name))
    if said.get("schema") != RUN_SCHEMA:
        raise JobError(f"{place.url}/{name}: its schema is not {RUN_SCHEMA}")
    number = int(name.rpartition("/")[2].removesuffix(".json"))
    return Pointer(number, said["period"], said["run"], said["state"] == "closed", said)


def point(place: Place, period: str, said: dict[str, Any], files: Iterable[Written]) -> Pointer:
    """Put the pointer to a run, last of all. Raises JobError where another run did so meanwhile."""
    listed = [{"name": its.name, "bytes": its.bytes, "sha256": its.sha256} for its in sorted(files)]
    said = {"schema": RUN_SCHEMA, "period": period, **said, "files": listed}
    before = pointer_of(place, period)
    if before is not None and before.said == said:
        return before
    number = before.number + 1 if before is not None else 1
    name = f"{_POINTERS}/period={period}/{number:06}.json"
    if not place.put_new(name, canonical(said) + b"\n"):
        raise JobError(f"period {period}: another run ended at the same time; run again")
    return Pointer(number, period, said["run"], said["state"] == "closed", said)
