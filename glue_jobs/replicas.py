"""Exports of several cells as those of one: which copy of a queue counts, and what others lack.

A queue's copies lie in the members of its placement group, each in a cell of its own, under
partitions that end in the member's incarnation (docs/audit.md, *Of several cells*). One of them
counts, so that each message is counted once. All others are compared with each other.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from glue_jobs import evidence
from glue_jobs.exports import number, octets, text

OF_QUEUES: Final = ("B", "G", "S", "F", "E")
"""Letters of the partitions that have messages of queues, and what became of them."""

LOGS: Final = r"^N\|[0-9a-f]{16}\|[0-9a-f]{8}\|0$"
"""Partitions of shards of streams; those of access keys begin like them."""

OF_REGISTRY: Final = ("Q", "X", "M", "A")
_PLACEMENTS, _CELLS, _OWN = "P|", "C|", "M|cells"
LAG_US: Final = 60_000_000
"""What is younger may not be in all copies yet."""

_MEMBERS: Final = "group string, cell string, incarnation int, is_full boolean, place int"


@dataclass(frozen=True, slots=True)
class Copies:
    """What was seen of the copies that count, as of one cell; and all copies, to be compared."""

    seen: DataFrame
    all_seen: DataFrame
    membership: DataFrame
    """Each queue's members: `uid`, `cell`, `incarnation`, `is_full`, `counts`."""


def copies(seen: DataFrame) -> Copies:
    """Of observations of several cells."""
    named = _named(seen)
    base = f.regexp_replace("partition", r"@\d+$", "")
    suffix = f.regexp_extract("partition", r"@(\d+)$", 1)
    incarnation = f.coalesce(f.when(suffix != "", suffix).cast("int"), f.lit(0))
    its = named.withColumns({"incarnation": incarnation, "partition": base}).localCheckpoint()
    registry = _of_registry(its)
    membership = _membership(its, registry).localCheckpoint()
    held = _letter().isin(*OF_QUEUES) | f.col("partition").rlike(LOGS)
    of_queues = its.where(held).withColumn("uid", _uid())
    counting = membership.where("counts").select("uid", "cell", "incarnation")
    counted = of_queues.join(f.broadcast(counting), ["uid", "cell", "incarnation"], "left_semi")
    # Of a queue that nothing defines any more all copies are as good.
    unknown = of_queues.join(membership, "uid", "left_anti")
    some = unknown.groupBy("uid").agg(f.min(f.struct("cell", "incarnation")).alias("its"))
    one_of = some.select("uid", "its.cell", "its.incarnation")
    rest = unknown.join(one_of, ["uid", "cell", "incarnation"], "left_semi")
    one = [frame.select(*seen.columns) for frame in (counted, rest, registry)]
    return Copies(one[0].unionByName(one[1]).unionByName(one[2]), of_queues, membership)


def _letter() -> Column:
    return f.substring("partition", 1, 1)


def _uid() -> Column:
    return f.split_part("partition", f.lit("|"), f.lit(2))


def tables_of_queues(seen: DataFrame, its: Copies) -> set[str]:
    """The tables in which queues have copies, by their names."""
    cells = {row.cell for row in its.membership.select("cell").distinct().collect()}
    return {table for table, name in _names(seen).items() if name in cells}


def _names(seen: DataFrame) -> dict[str, str]:
    """What placements call tables, by the names of those: `C|` has both."""
    found = (
        seen.where(f.col("partition").rlike(r"^C\|(@\d+)?$")).select("sort", text("a")).distinct()
    )
    names = {
        json.loads(address).get("table"): bytes(sort).decode() for sort, address in found.collect()
    }
    return {table: name for table, name in names.items() if table}


def _named(seen: DataFrame) -> DataFrame:
    """With cells by the names that placements have for them."""
    known = sorted(_names(seen).items())
    if not known:
        return seen
    tables = seen.sparkSession.createDataFrame(known, "cell string, name string")
    joined = seen.join(f.broadcast(tables), "cell", "left")
    return joined.withColumn("cell", f.coalesce("name", "cell")).select(*seen.columns)


def _of_registry(its: DataFrame) -> DataFrame:
    """What the registry's copy that counts has: the last full one, or the only one there is."""
    own = its.where(f.col("partition") == _OWN).select(
        number("e").alias("e"), number("s").alias("s"), text("m").alias("m")
    )
    registry = its.where(_letter().isin(*OF_REGISTRY, "P"))
    last = own.orderBy(f.desc("e"), f.desc("s")).head()
    if last is None:
        return registry
    cell, incarnation, _full = _serving(json.loads(last.m), is_chain=True)
    return registry.where((f.col("cell") == cell) & (f.col("incarnation") == incarnation))


def _serving(members: Sequence[Any], *, is_chain: bool) -> Any:
    full = [member for member in members if member[2]]
    return full[-1] if is_chain and full else members[0]


def _membership(its: DataFrame, registry: DataFrame) -> DataFrame:
    last = Window.partitionBy("uid").orderBy(f.desc("as_of_us"))
    queues = (
        registry.where(_letter().isin("Q", "X", "A") & text("c").isNotNull())
        .select(
            f.when(_letter().isin("Q", "A"), text("u"))
            .otherwise(f.substring(f.col("sort"), 9, 16).cast("string"))
            .alias("uid"),
            f.split_part(text("c"), f.lit("/"), f.lit(1)).alias("group"),
            (text("c").endswith("/chain") | _is_fifo() | _is_log()).alias("is_chain"),
            "as_of_us",
        )
        .withColumn("row", f.row_number().over(last))
        .where("row = 1")
    )
    placed = registry.where(f.col("partition") == _PLACEMENTS).select(
        f.col("sort").cast("string").alias("group"), number("e").alias("e"), text("m").alias("m")
    )
    cells = [row.cell for row in its.select("cell").distinct().collect()]
    rows = _member_rows(placed.orderBy("e").collect(), cells)
    members = its.sparkSession.createDataFrame(rows, _MEMBERS)
    in_group = Window.partitionBy("uid")
    last_full = f.max(f.when(f.col("is_full"), f.col("place"))).over(in_group)
    counts = f.col("place") == f.when(f.col("is_chain"), f.coalesce(last_full, f.lit(0))).otherwise(
        0
    )
    joined = queues.join(f.broadcast(members), "group")
    return joined.withColumn("counts", counts).select(
        "uid", "cell", "incarnation", "is_full", "counts"
    )


def _is_log() -> Column:
    """Whether it is a stream, or a queue over one: these lie on chains whatever their names."""
    of_queue = f.when(_letter() == "Q", text("n")).otherwise(f.coalesce(text("o"), text("s")))
    return (_letter() == "A") | of_queue.isNotNull()


def _is_fifo() -> Column:
    name = f.when(_letter() == "Q", f.col("sort").cast("string")).otherwise(text("q"))
    return name.endswith(".fifo")


def _member_rows(placed: Iterable[Any], cells: Iterable[str]) -> list[tuple[Any, ...]]:
    """Members of each group by its last placement; a queue without a group has its cell."""
    of = {row.group: json.loads(row.m) for row in placed}
    of |= {cell: [[cell, 0, 1]] for cell in cells if cell not in of}
    return [
        (group, cell, int(incarnation), bool(full), place)
        for group, members in sorted(of.items())
        for place, (cell, incarnation, full) in enumerate(members)
    ]


def lacking(its: Copies, as_of_us: int, complete_to_us: int) -> DataFrame:
    """Segments and slots that some full members have at the end and others have not.

    Or that are not the same in all of them. `complete_to_us` is the moment up to which all copies
    are exported. What a member has removed by itself, or whose time is over, it does not lack; nor
    what was purged, which each member drops, or empties, when it comes to it.
    """
    members = its.membership.where("is_full").select("uid", "cell", "incarnation", "counts")
    last = evidence.latest(
        its.all_seen.join(f.broadcast(members), ["uid", "cell", "incarnation"])
    ).localCheckpoint()
    is_log = _letter() == "G"
    block = f.when(is_log, f.lpad(f.lower(f.hex(number("b"))), 16, "0")).otherwise(
        f.lower(f.hex(octets("b")))
    )
    held = last.where(_letter().isin("B", "G") & (text("k") == "s") & f.col("is_present"))
    old = (number("t") <= complete_to_us - LAG_US) & (number("x") * 1_000_000 > as_of_us)
    per_item = (
        held.join(f.broadcast(_purges(its)), "uid", "left")
        .where(old & (number("t") > f.coalesce("purged_us", f.lit(0))))
        .groupBy("uid", "partition", "sort")
        .agg(
            f.array_sort(f.collect_set("cell")).alias("have"),
            f.collect_set("content").alias("said"),
            f.max(number("n")).alias("messages"),
        )
    )
    first = its.all_seen.where(_letter().isin("B", "G") & (text("k") == "s")).groupBy(
        "uid", "partition", "sort"
    )
    # As it was seen first: a later look may be at what somebody altered.
    named = f.struct(
        "as_of_us",
        block.alias("block"),
        number("i").alias("index"),
        number("t").alias("sent_us"),
        evidence.first_id().alias("id"),
    )
    first_looks = first.agg(f.min(named).alias("its")).select("uid", "partition", "sort", "its.*")
    of_queue = members.groupBy("uid").agg(
        f.array_sort(f.collect_set("cell")).alias("members"),
        f.max(f.when(f.col("counts"), f.col("cell"))).alias("counting"),
    )
    found = (
        per_item.join(f.broadcast(of_queue), "uid")
        .withColumn("lane", _lane())
        .withColumn("lack", f.array_except("members", "have"))
        .where((f.size("lack") > 0) | (f.size("said") > 1))
        .join(first_looks.drop("as_of_us"), ["uid", "partition", "sort"])
    )
    return _but_removed(found, last)


def _purges(its: Copies) -> DataFrame:
    """The purge stamps of queues by their uids."""
    queues = its.seen.where((_letter() == "Q") & (text("k") == "q"))
    return queues.groupBy(text("u").alias("uid")).agg(f.max(number("p")).alias("purged_us"))


def _lane() -> Column:
    return f.substring_index("partition", "|", -2)


def states_that_differ(its: Copies) -> DataFrame:
    """States of blocks on a chain of which full members have different ones of one revision.

    One of another revision is on its way; what copies off a chain lack `returned` and `behind` say.
    """
    members = its.membership.where("is_full").select("uid", "cell", "incarnation")
    last = evidence.latest(
        its.all_seen.where(_letter().isin("S", "F")).join(
            f.broadcast(members), ["uid", "cell", "incarnation"], "left_semi"
        )
    )
    per_revision = last.where("is_present and revision is not null").groupBy(
        "uid", "partition", "sort", "revision"
    )
    return (
        per_revision.agg(f.collect_set("content").alias("said"))
        .where(f.size("said") > 1)
        .select("uid", _lane().alias("lane"), f.lower(f.hex("sort")).alias("state_of"))
    )


def with_held(its: Copies, lacked: DataFrame, as_of_us: int) -> DataFrame:
    """What was seen, with what the copy that counts lacks and another one has: it is not lost."""
    lost = lacked.where(f.array_contains("lack", f.col("counting"))).select(
        "uid", "partition", "sort", f.col("have")[0].alias("cell"), "counting"
    )
    per_item = Window.partitionBy("partition", "sort").orderBy(f.desc("as_of_us"))
    held = (
        its.all_seen.join(f.broadcast(lost), ["uid", "partition", "sort", "cell"])
        .where(text("k") == "s")
        .withColumn("row", f.row_number().over(per_item))
        .where("row = 1")
        # As if the copy that counts had got it since its own export.
        .withColumns({"cell": f.col("counting"), "as_of_us": f.lit(as_of_us)})
        .withColumn("of_full", f.expr("false"))
    )
    return its.seen.unionByName(held.select(*its.seen.columns))


def _but_removed(found: DataFrame, last: DataFrame) -> DataFrame:
    """Without what members lack because they removed it: they have a trace of that."""
    traces = last.where((_letter() == "E") & (text("k") == "s")).select(
        "uid",
        f.substring_index("partition", "|", -2).alias("lane"),
        f.lower(f.hex(octets("b"))).alias("block"),
        number("i").alias("first"),
        (number("i") + number("n")).alias("end"),
        f.col("cell").alias("removed_by"),
    )
    key = ["uid", "lane", "block"]
    within = (f.col("index") >= f.col("first")) & (f.col("index") < f.col("end"))
    removed = (
        found.join(traces, key)
        .where(within)
        .groupBy("partition", "sort")
        .agg(f.collect_set("removed_by").alias("removed_by"))
    )
    by = f.coalesce("removed_by", f.array().cast("array<string>"))
    return (
        found.join(removed, ["partition", "sort"], "left")
        .withColumn("lack", f.array_except("lack", by))
        .where((f.size("lack") > 0) | (f.size("said") > 1))
    )


def of_others(its: Copies, done: DataFrame, as_of_us: int) -> DataFrame:
    """Messages that a full member other than the one that counts has at the end, by PLACE.

    `lives` and `is_traced` are what this member's own exports say of it (evidence.py), null or
    false: nothing. `is_done` says whether it is `done` by the copy that counts.
    """
    theirs = _theirs(its)
    items = evidence.latest(theirs)
    held = evidence.messages(evidence.segments(items)).where("is_present")
    known = evidence.done(items, theirs, as_of_us).drop("moved")
    of_counting = done.where("lives > 0").select(*evidence.PLACE, f.expr("true").alias("is_done"))
    return (
        held.join(known, list(evidence.PLACE), "left")
        .withColumns(_of_copies())
        .join(of_counting, list(evidence.PLACE), "left")
        .fillna(value=False, subset=["is_done"])
    )


def changed_in_others(its: Copies) -> DataFrame:
    """The same of copies that do not count as `evidence.changed` of those that do."""
    return evidence.changed(_theirs(its)).withColumns(_of_copies()).drop("cell")


def _theirs(its: Copies) -> DataFrame:
    """Copies that do not count as queues of their own: their uids end in `@` and the cell."""
    others = its.membership.where("is_full and not counts").select("uid", "cell", "incarnation")
    theirs = its.all_seen.join(f.broadcast(others), ["uid", "cell", "incarnation"], "left_semi")
    own = f.concat_ws("@", "uid", "cell")
    return theirs.withColumn("partition", f.concat_ws("|", _letter(), own, _lane()))


def _of_copies() -> dict[str, Column]:
    """Cell and uid of what `_theirs` has."""
    parts = [f.split_part("uid", f.lit("@"), f.lit(at)) for at in (1, 2)]
    return {"cell": parts[1], "uid": parts[0]}
