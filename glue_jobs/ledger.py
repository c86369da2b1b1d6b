"""The ledger of sends, which bills go by, held to what is stored and to its own records.

docs/storage.md, *Ledger of sends*. What is stored says of each send how many calls, units, messages
and bytes it was, by the minute of its stamp, as rows of the ledger and their records do. Traces of
what was removed have bytes alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from glue_jobs import evidence
from glue_jobs.audit_inputs import Told, Usage, missing_numbers
from glue_jobs.conservation import QUEUE, Rule, Window, told
from glue_jobs.evidence import PLACE
from glue_jobs.exports import be64, number, octets, text

SUMS: Final = ("requests", "units", "messages", "bytes")
"""What rows, records, segments and slots say of sends."""

_ATTRIBUTES: Final = dict(zip(SUMS, "rumy", strict=True))
_BATCHED: Final = dict(zip(SUMS, ((1, 1), (2, 2), (4, 1), (5, 4)), strict=True))
"""Where `rb` has them: first byte, and length."""

_ONE_OPERATION_BYTES: Final = 8
_UNITS_MAX: Final = 16
"""Of a call, which has 1 MiB at the most."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger of sends up to an export: SUMS by queue and minute, and what is missing of it.

    `recorded` are rows that exports have and that are `records` by the last one, a row for each
    look.
    """

    rows: DataFrame
    began_minute: int
    told: tuple[Told, ...]
    recorded: DataFrame
    records: DataFrame


@dataclass(frozen=True, slots=True)
class LedgerMark:
    """The ledger's name as a writer, its last record's number, and the minute it began.

    `is_present` says whether the last export still has it.
    """

    writer: str
    last: int
    began_minute: int
    is_present: bool


def ledger_mark(items: DataFrame) -> LedgerMark | None:
    """What the last export that has it says of the ledger; None where none ever had one."""
    found = (
        items.where(f.col("partition") == "M|ledger")
        .select(text("i"), number("n"), number("b"), "is_present")
        .collect()
    )
    if not found:
        return None
    writer, last, began_minute, is_present = found[0]
    return LedgerMark(str(writer), int(last or 0), int(began_minute), bool(is_present))


def ledger_of(items: DataFrame, seen: DataFrame, usage: Usage) -> Ledger | None:
    """The ledger as it was when the last export was made; None: the cell has none."""
    mark = ledger_mark(items)
    if mark is None:
        return None
    its = usage.records.where(f.col("writer") == mark.writer)
    columns = ["minute", *QUEUE, *SUMS]
    rows = ledger_rows(items).select(*columns)
    last = mark.last
    if not mark.is_present:
        # The store was put back to before this ledger, or lost it: all that it recorded was sent.
        last = max([last, *(run.last for run in usage.runs if run.writer == mark.writer)])
        later = its.where(f.col("number") > mark.last).select(*columns)
        rows = recorded_or_not(rows, later)
    recorded = its.where(f.col("number") <= mark.last)
    missing = [
        Told("ledger_gap", until - first + 1, f"records {first} to {until} of {mark.writer}")
        for first, until in missing_numbers(usage.runs, mark.writer, last)
    ]
    if not mark.is_present:
        missing.append(Told("ledger_gap", 1, f"the cell has no ledger {mark.writer} any more"))
    return Ledger(
        recorded.select(*columns).unionByName(rows),
        mark.began_minute,
        tuple(missing),
        _recorded_rows(items, seen),
        recorded,
    )


def without_usage(items: DataFrame, usage: Usage) -> list[Told]:
    """The note that a ledger, which may have become no record yet, was compared with no usage."""
    its = items.where(f.col("partition").isin("L|", "M|ledger"))
    if usage.runs or not its.head(1):
        return []
    return [Told("no_usage", 1, "no usage was read: nothing was compared with it")]


def ledger_rows(items: DataFrame) -> DataFrame:
    """Rows of the ledger that are not usage records yet: those of the last export that has it."""
    recorded = _recorded_to(items)
    rows = items.where(f.col("partition") == "L|")
    # Rows that are records already are removed a little later.
    still = (f.col("sort") > f.col("recorded_to")) & (f.col("as_of_us") == f.col("marked_us"))
    return _rows(rows.join(recorded, still))


def _recorded_rows(items: DataFrame, seen: DataFrame) -> DataFrame:
    """Rows that some export has, and that are records by the last one that has the ledger."""
    rows = seen.where((f.col("partition") == "L|") & ~f.col("is_gone"))
    return _rows(rows.join(_recorded_to(items), f.col("sort") <= f.col("recorded_to")))


def _recorded_to(items: DataFrame) -> DataFrame:
    mark = items.where(f.col("partition") == "M|ledger")
    return mark.select(octets("p").alias("recorded_to"), f.col("as_of_us").alias("marked_us"))


def _rows(rows: DataFrame) -> DataFrame:
    what = f.expr("substring(sort, 18)").cast("string")
    kind = f.expr("substring(sort, 17, 1)").cast("string")
    return rows.select(
        be64(f.col("sort"), 1).alias("minute"),
        f.split_part(what, f.lit("|"), f.lit(1)).alias("account"),
        f.split_part(what, f.lit("|"), f.lit(2)).alias("region"),
        f.split_part(what, f.lit("|"), f.lit(3)).alias("queue"),
        f.when(kind == "b", "SendMessageBatch").otherwise("SendMessage").alias("operation"),
        *(f.coalesce(number(of), f.lit(0)).alias(name) for name, of in _ATTRIBUTES.items()),
        "sort",
    )


def recorded_or_not(rows: DataFrame, records: DataFrame) -> DataFrame:
    """Rows that became records, or did not before their ledger was lost, each once.

    Those of a queue and minute become records together, after the last message of that minute.
    """
    of = ["minute", *QUEUE]
    sums = [each.groupBy(*of).agg(*_each(f.sum)) for each in (rows, records)]
    return sums[0].unionByName(sums[1]).groupBy(*of).agg(*_each(f.max))


def _each(how: Callable[[str], Column]) -> list[Column]:
    return [how(name).alias(name) for name in SUMS]


def by_ledger(
    ledger: Ledger, items: DataFrame, definitions: DataFrame, other: DataFrame, window: Window
) -> list[DataFrame]:
    """Rows and records of sends that say something else than what was stored, as findings.

    Queues and minutes in `other` have too many messages or too few, and are told for that.
    """
    of = [*QUEUE, "minute"]
    other = other.select(*of)
    its = ledger.rows.where(f.col("minute") >= window.from_minute).groupBy(*of).agg(*_each(f.sum))
    known = _stored(items, definitions).where("mixed = 0")
    both = its.join(known, of).join(other, of, "left_anti")
    minute = "'minute ', timestamp_seconds(minute * 60), ' UTC: '"
    said = "'calls: ', {0}requests, ', units: ', {0}units, ', bytes: ', {0}bytes"
    more = "if(untold > 0, concat(', and by traces alone messages: ', untold), '')"
    detail = (
        f"concat({minute}, {said.format('')}, ' by the ledger; ',"
        f" {said.format('known_')}, ' as stored', {more})"
    )
    return [
        told(both, Rule("ledger_differs", f"not ({_AGREE})", detail)),
        told(_otherwise_recorded(ledger), Rule("ledger_differs", "true", "told")),
    ]


_AGREE: Final = f"""bytes = known_bytes and if(untold = 0,
    requests = known_requests and units = known_units,
    requests between known_requests and known_requests + untold
        and units - known_units between requests - known_requests
            and {_UNITS_MAX} * (requests - known_requests))"""
"""A message of which only a trace is known began a call, or did not."""


def _otherwise_recorded(ledger: Ledger) -> DataFrame:
    """Rows that became records of other sends. They only grow until they do."""
    of = ["minute", *QUEUE, "operation"]
    at_most = (
        ledger.recorded.groupBy(*of, "sort").agg(*_each(f.max)).groupBy(*of).agg(*_each(f.sum))
    )
    records = ledger.records.groupBy(*of).agg(*(f.sum(its).alias(f"is_{its}") for its in SUMS))
    lower = " or ".join(f"{its} > is_{its}" for its in SUMS)
    said = ", ', ', ".join(f"'{its}: ', {its}, ' (', is_{its}, ')'" for its in SUMS)
    minute = "'minute ', timestamp_seconds(minute * 60), ' UTC, '"
    detail = f"concat({minute}, operation, ': rows have more than the records of them: ', {said})"
    return at_most.join(records, of).where(lower).withColumn("told", f.expr(detail))


def _stored(items: DataFrame, definitions: DataFrame) -> DataFrame:
    """What is known of the sends of each queue and minute by what is or was stored.

    `known_requests` and `known_units` are of what some export has as it was stored, `untold` is how
    many messages only traces are known of, which have `known_bytes` alone. What moves have brought
    is in none; `mixed` is above 0 for queues with slots that have both.
    """
    its = _once(evidence.segments(items, [*map(_said, SUMS), number("y").alias("size_bytes")]))
    is_mixed = f.col("came_by_move") & (f.length("block") != evidence.BAG_BLOCK_HEX)
    queues = its.groupBy("uid").agg(f.max(is_mixed.cast("int")).alias("mixed"))
    sent = its.where(~f.col("came_by_move"))
    places = sent.withColumn("index", f.explode(f.expr("sequence(first, first + count - 1)")))
    traced = places.where("is_traced").select(*PLACE).distinct()
    whole = places.where("not is_traced").select(*PLACE).distinct()
    stored = sent.where("not is_traced").withColumn("index", f.col("first"))
    of = ["uid", "minute"]
    parts = [
        stored.groupBy(*of).agg(
            *(f.sum(its).alias(f"known_{its}") for its in ("requests", "units"))
        ),
        stored.join(traced, list(PLACE), "left_anti").groupBy(*of).agg(_known_bytes("bytes")),
        sent.where("is_traced").groupBy(*of).agg(_known_bytes("size_bytes")),
        places.where("is_traced")
        .join(whole, list(PLACE), "left_anti")
        .groupBy(*of)
        .agg(f.count(f.lit(1)).alias("untold")),
    ]
    all_ = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    names = definitions.select("uid", *QUEUE).join(queues, "uid")
    sums = ("known_requests", "known_units", "known_bytes", "untold")
    return (
        all_.join(f.broadcast(names), "uid")
        .groupBy(*QUEUE, "minute")
        .agg(
            *(f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in sums),
            f.max("mixed").alias("mixed"),
        )
    )


def _once(segments: DataFrame) -> DataFrame:
    """What lies under several keys, once, with the minute in which it was sent."""
    key = ["uid", "lane", "block", "first", "is_traced"]
    minute = f.expr("stamp_us div 60000000").alias("minute")
    its = f.min(f.struct(minute, "count", "came_by_move", "size_bytes", *SUMS)).alias("its")
    return segments.groupBy(*key).agg(its).select(*key, "its.*")


def _known_bytes(of: str) -> Column:
    return f.sum(of).alias("known_bytes")


def _said(name: str) -> Column:
    """What an item says of calls, as `read_calls` of data_plane/stored/ledger.py reads it."""
    at, length = _BATCHED[name]
    batched = octets("rb")
    alone = {
        "requests": f.coalesce(number("r"), f.lit(1)),
        "units": f.coalesce(number("p"), f.lit(1)),
        "messages": number("n"),
        "bytes": number("y"),
    }[name]
    was_moved = f.coalesce(number("r"), f.lit(1)) == 0
    return (
        f.when(
            batched.isNotNull(),
            _integer(batched, at, length)
            + f.coalesce(_integer(batched, at + _ONE_OPERATION_BYTES, length), f.lit(0)),
        )
        .when(was_moved, f.lit(0))
        .otherwise(alone)
        .alias(name)
    )


def _integer(of: Column, at: int, length: int) -> Column:
    """An integer of so many bytes, big endian; null where there are none."""
    digits = f.hex(f.substring(of, at, length))
    return f.when(digits != "", f.conv(digits, 16, 10).cast("bigint"))
