"""Names of accounts and tags of queues, by what exports have of the registry.

What a run knows of them it keeps, for exports may be gone by the next one; newer ones count.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from glue_jobs.billed import Queue
from glue_jobs.exports import Export, observations, text
from glue_jobs.outputs import Pointer, canonical
from glue_jobs.places import Place

KEPT: Final = "registered.json"
"""The name of what a run keeps of it, beside the list of its inputs."""

_ACCOUNTS, _QUEUES = "A|", "Q|"


@dataclass(frozen=True, slots=True)
class Registered:
    """Names of accounts by their ids, and tags of queues that have any."""

    names: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[Queue, Mapping[str, str]] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """As a run keeps it; nothing where there is nothing."""
        if not self.names and not self.tags:
            return b""
        tags = [[*queue, dict(its)] for queue, its in sorted(self.tags.items())]
        return canonical({"names": dict(self.names), "tags": tags}) + b"\n"


def kept_by(out: Place, before: Sequence[Pointer]) -> Registered:
    """What the last of these runs that keeps something of it keeps."""
    for its in reversed(before):
        try:
            said = json.loads(out.read(f"inputs/period={its.period}/run={its.run}/{KEPT}"))
        except FileNotFoundError:
            continue
        tags = {(account, region, queue): of for account, region, queue, of in said["tags"]}
        return Registered(said["names"], tags)
    return Registered()


def read_registered(
    session: SparkSession, place: Place | None, exports: Sequence[Export], kept: Registered
) -> Registered:
    """What the latest exports of each cell say of it; of what none says what was kept."""
    if place is None or not exports:
        return kept
    partition = f.regexp_replace("partition", r"@\d+$", "").alias("whose")
    seen = observations(session, place, _newest(exports)).withColumn(
        "name", f.col("sort").cast("string")
    )
    accounts = _latest(seen.where(partition == _ACCOUNTS), partition, text("n"))
    is_queue = partition.startswith(_QUEUES) & (text("k") == "q")
    queues = _latest(seen.where(is_queue), partition, text("g"))
    names = {name: said for _, name, said in accounts if said}
    found: dict[Queue, Mapping[str, str]] = {}
    for whose, name, said in queues:
        account, _, region = whose.removeprefix(_QUEUES).partition("|")
        found[account, region, name] = json.loads(said or "{}")
    tags: dict[Queue, Mapping[str, str]] = {**kept.tags, **found}
    return Registered({**kept.names, **names}, {queue: of for queue, of in tags.items() if of})


def _newest(exports: Sequence[Export]) -> list[Export]:
    """Of each cell the last full export, and those since: the others of a month are many."""
    found: dict[str, list[Export]] = {}
    for its in sorted(exports, key=lambda one: (one.as_of_us, not one.is_full)):
        found[its.cell] = [its] if its.is_full else [*found.get(its.cell, []), its]
    return [its for of_cell in found.values() for its in of_cell]


def _latest(seen: DataFrame, whose: Column, value: Column) -> list[tuple[str, str, str | None]]:
    of_item = seen.select(whose, "name", f.struct("as_of_us", value.alias("said")).alias("its"))
    rows = of_item.groupBy("whose", "name").agg(f.max("its").alias("its")).collect()
    return [(row.whose, row["name"], row.its.said) for row in rows]
