"""Samples of what was stored: at the moment of each export, the bytes of each queue.

A message is stored at a moment if the copy that counts has it then, nobody has deleted it, it has
not expired, and no purge has taken it: docs/billing.md, *Stored messages*. Everything is followed
as times from one moment on and before another, so that a message costs a row and not one for each
export that has it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from itertools import groupby
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from glue_jobs.exports import Export, number, numbers, observations, octets, text
from glue_jobs.places import Place
from glue_jobs.queue_places import REGISTRY, Known, Moments, Tenure, tenures
from glue_jobs.stored_bytes import Queue, Sample, Samples

_BAG, _LOG = "B", "G"
_STATES: Final = ("S", "F")
_NO_END: Final = 1 << 62
_DEAD_LETTER_VERSION: Final = 2
_ITEM: Final = ("cell", "partition", "incarnation", "sort")
_BLOCK: Final = ("cell", "incarnation", "uid", "lane", "block")
_KNOWN: Final = ("k", "u", "c", "a", "m", "n")
_TENURES: Final = (
    "cell string, incarnation int, uid string, account string, region string, queue string,"
    " purged_us bigint, retention_s bigint, since_us bigint, to_us bigint"
)


def samples_of(session: SparkSession, place: Place, exports: Sequence[Export]) -> Samples:
    """What was stored at the moment of each export that can be gone by.

    Raises JobError where a line is no DynamoDB JSON.
    """
    its = connected(exports)
    if not its:
        return Samples()
    suffix = f.regexp_extract("partition", r"@(\d+)$", 1)
    seen = observations(session, place, its).withColumns(
        {
            "incarnation": f.coalesce(f.when(suffix != "", suffix).cast("int"), f.lit(0)),
            "partition": f.regexp_replace("partition", r"@\d+$", ""),
        }
    )
    moments = moments_of(its)
    spans = _spans(seen, its).cache()
    found, told = tenures(_known(spans), moments, _NO_END)
    changes = _changes(session, spans, _done(seen), found, told)
    rows: list[Any] = changes.collect()
    spans.unpersist()
    return _samples(rows, told)


def connected(exports: Sequence[Export]) -> list[Export]:
    """Full exports, and those incremental ones that go on from them without a gap; each once."""
    covered: dict[str, int] = {}
    found: dict[tuple[str, int, bool, int], Export] = {}
    for its in sorted(exports, key=lambda one: (one.as_of_us, not one.is_full, one.name)):
        if its.is_full or its.from_us <= covered.get(its.cell, -1):
            covered[its.cell] = its.as_of_us
            found.setdefault((its.cell, its.as_of_us, its.is_full, its.from_us), its)
        else:
            # What it was before is not known: nothing is, until there is a full one.
            covered.pop(its.cell, None)
    return list(found.values())


def moments_of(exports: Iterable[Export]) -> Moments:
    """When each cell was exported, in order."""
    found: dict[str, set[int]] = {}
    for its in exports:
        found.setdefault(its.cell, set()).add(its.as_of_us)
    return {cell: sorted(its) for cell, its in found.items()}


def _letter() -> Column:
    return f.substring("partition", 1, 1)


def _spans(seen: DataFrame, exports: Sequence[Export]) -> DataFrame:
    """Messages and the registry: each item with the times in which it was there and the same.

    What an incremental export does not name is as before; what a full one does not name is gone.
    """
    full = moments_of(its for its in exports if its.is_full)
    nexts = [
        (cell, at_us, min((other for other in full[cell] if other > at_us), default=_NO_END))
        for cell, its in moments_of(exports).items()
        for at_us in its
    ]
    ends = seen.sparkSession.createDataFrame(nexts, "cell string, as_of_us bigint, full_us bigint")
    in_order = Window.partitionBy(*_ITEM).orderBy("as_of_us", "of_full")
    wanted = _letter().isin(_BAG, _LOG) & (text("k") == "s")
    for begin in REGISTRY:
        wanted |= f.col("partition").startswith(begin)
    timed = (
        seen.where(wanted)
        .join(f.broadcast(ends), ["cell", "as_of_us"])
        .withColumn("until_us", f.least(f.lead("as_of_us").over(in_order), "full_us"))
    )
    goes_on = (
        (f.lag("content").over(in_order) == f.col("content"))
        & (f.lag("is_gone").over(in_order) == f.col("is_gone"))
        & (f.lag("until_us").over(in_order) == f.col("as_of_us"))
    )
    begins = f.when(goes_on, 0).otherwise(1)
    return (
        timed.withColumn("span", f.sum(begins).over(in_order))
        .where(~f.col("is_gone"))
        .groupBy(*_ITEM, "span")
        .agg(
            f.min("as_of_us").alias("from_us"),
            f.max("until_us").alias("until_us"),
            f.first("item").alias("item"),
        )
        .where("from_us < until_us")
    )


def _known(spans: DataFrame) -> list[Known]:
    """The items of registries."""
    rows = (
        spans.where(~_letter().isin(_BAG, _LOG))
        .select(
            *("cell", "partition", "incarnation", f.col("sort").cast("string").alias("name")),
            *("from_us", "until_us"),
            f.struct(*(text(name).alias(name) for name in _KNOWN), number("p").alias("p")).alias(
                "its"
            ),
        )
        .collect()
    )
    return [Known(**{**row.asDict(), "its": row.its.asDict()}) for row in rows]


def _place() -> dict[str, Column]:
    parts = f.split("partition", r"\|")
    return {"uid": parts[1], "lane": f.concat_ws("|", parts[2], parts[3])}


def _done(seen: DataFrame) -> DataFrame:
    """When the copy of a message that a cell has was first said to be done; it stays so."""
    return (
        seen.where(_letter().isin(*_STATES))
        .withColumns({**_place(), "block": f.lower(f.hex("sort"))})
        .select(*_BLOCK, f.explode(numbers("d")).alias("index"), "as_of_us")
        .groupBy(*_BLOCK, "index")
        .agg(f.min("as_of_us").alias("done_us"))
    )


def _messages(spans: DataFrame) -> DataFrame:
    """Each message of each copy: when it was there, and its share of its segment's bytes.

    Sizes of single messages are sealed, so all of a segment's have the same share, to a byte.
    """
    block = f.when(_letter() == _LOG, f.lpad(f.hex(number("b")), 16, "0")).otherwise(
        f.hex(octets("b"))
    )
    moved_us = f.when(number("v") == _DEAD_LETTER_VERSION, number("l"))
    share = "(bytes * (nth + 1)) div count - (bytes * nth) div count"
    return (
        spans.where(_letter().isin(_BAG, _LOG))
        .withColumns({**_place(), "block": f.lower(block)})
        .withColumns(
            {
                "first": number("i"),
                "count": number("n"),
                "bytes": number("y"),
                "stamp_us": number("t"),
                "sent_us": f.coalesce(moved_us, number("t")),
            }
        )
        .where("count > 0")
        # Under several keys it is the same one.
        .groupBy(*_BLOCK, "first", "count", "bytes")
        .agg(
            *(f.min(name).alias(name) for name in ("stamp_us", "sent_us", "from_us")),
            f.max("until_us").alias("until_us"),
        )
        .withColumn("nth", f.explode(f.expr("sequence(0, count - 1)")))
        .withColumns({"index": f.expr("first + nth"), "share": f.expr(share)})
    )


def _changes(
    session: SparkSession,
    spans: DataFrame,
    done: DataFrame,
    found: Sequence[Tenure],
    moments: Moments,
) -> DataFrame:
    """By which moment of a cell a queue had how many bytes more, or fewer, than before."""
    rows = [(*astuple(its.placed), its.from_us, its.until_us) for its in found]
    queues = session.createDataFrame(rows, _TENURES)
    times = session.createDataFrame(
        [(cell, list(its)) for cell, its in moments.items()], "cell string, moments array<bigint>"
    )
    ended = f.col("sent_us") + f.col("retention_s") * 1_000_000
    expired = f.array_min(f.filter("moments", lambda at: at >= ended))
    end = f.least("until_us", "to_us", "done_us")
    stored = (
        _messages(spans)
        .join(f.broadcast(queues), ["cell", "incarnation", "uid"])
        .where("stamp_us > purged_us and from_us < to_us and since_us < until_us")
        .join(done, [*_BLOCK, "index"], "left")
        .join(f.broadcast(times), "cell")
        .withColumns({"start": f.greatest("from_us", "since_us"), "end": end})
        .withColumn("end", f.least("end", f.when(ended < f.col("end"), expired)))
        .where("start < end")
    )
    both = f.array(
        f.struct(f.col("start").alias("at_us"), f.col("share").alias("bytes")),
        f.struct(f.col("end").alias("at_us"), (-f.col("share")).alias("bytes")),
    )
    key = ("account", "region", "queue", "cell", "its.at_us")
    return (
        stored.select("account", "region", "queue", "cell", f.explode(both).alias("its"))
        .groupBy(*key)
        .agg(f.sum("its.bytes").alias("bytes"))
        .where("bytes <> 0")
    )


def _samples(changes: Iterable[Any], moments: Moments) -> Samples:
    """Samples from changes: rows of account, region, queue, cell, moment and bytes."""
    stored: dict[Queue, dict[Sample, int]] = {}
    for (*queue, cell), its in groupby(sorted(changes), lambda row: tuple(row[:4])):
        rest = list(its)[::-1]
        level = 0
        for at_us in moments[cell]:
            while rest and rest[-1][4] <= at_us:
                level += rest.pop()[5]
            if level:
                stored.setdefault(tuple(queue), {})[cell, at_us] = level
    return Samples(
        frozenset((cell, at_us) for cell, its in moments.items() for at_us in its), stored
    )
