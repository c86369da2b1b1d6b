"""What exports know of records of streams: that none went before its time, and none lies twice.

The records of a shard have offsets without gaps, which slots say (docs/storage.md, *Slot of a
stream*). So what vanished leaves a gap, or was seen by an earlier export. Records have no deletes:
one is there until the retention of its stream is over, or its stream is deleted.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from glue_jobs.audit_inputs import Usage
from glue_jobs.conservation import FATES, OF_STREAM, QUEUE, Rule, by_metered_sends, told
from glue_jobs.evidence import definitions as queue_definitions
from glue_jobs.evidence import latest
from glue_jobs.exports import Export, be64, complete_to_us, number, text
from glue_jobs.replicas import LAG_US, LOGS, Copies

_DEFINITIONS: Final = "^A\\|[0-9]"
_TO_DROP: Final = "X|"
_ANCHORS: Final = "^H\\|"
_ANCHOR_SORT: Final = "^[0-9a-f]{8}\\|0$"
_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US
_NEVER_US: Final = 2**63 - 1
_SKIPPED: Final = 1 << 32
"""What a shard skips where it rested for a day and nobody looked (*Anchor*)."""

_SHARD: Final = ("uid", "lane")


_RETENTIONS: Final = f"""transform(looks, (its, n) -> named_struct(
    'until_us', coalesce(get(looks, n + 1).as_of_us, {_NEVER_US}),
    'retention_us', its.retention_us))"""


def definitions(seen: DataFrame, at_end: DataFrame) -> DataFrame:
    """Streams by their uids: whose and what, when they were made, whether they are there yet.

    `retentions` are those that exports saw, in their order; each counts until the moment of the
    export that saw the next one. Of a stream that no export saw there are neither those nor
    `made_us`: it is known by what the sweep goes by.
    """
    is_definition = f.col("partition").rlike(_DEFINITIONS) & (text("k") == "t")
    live = at_end.where(is_definition & f.col("is_present")).select(
        text("u").alias("uid"), f.expr("true").alias("is_live")
    )
    retention = f.struct("as_of_us", (number("h") * _HOUR_US).alias("retention_us"))
    defined = (
        seen.where(is_definition)
        .groupBy(
            text("u").alias("uid"),
            f.split_part("partition", f.lit("|"), f.lit(2)).alias("account"),
            f.split_part("partition", f.lit("|"), f.lit(3)).alias("region"),
            f.concat(f.lit(OF_STREAM), f.col("sort").cast("string")).alias("queue"),
        )
        .agg(
            f.min(number("b") * 1_000).alias("made_us"),
            f.array_sort(f.collect_set(retention)).alias("looks"),
        )
        .withColumn("retentions", f.expr(_RETENTIONS))
        .drop("looks")
    )
    deleted = seen.where((f.col("partition") == _TO_DROP) & text("s").isNotNull()).select(
        f.substring("sort", 9, 16).cast("string").alias("uid"),
        text("a").alias("account"),
        text("e").alias("region"),
        f.concat(f.lit(OF_STREAM), text("q")).alias("queue"),
    )
    of_others = deleted.distinct().join(defined, "uid", "left_anti")
    return (
        defined.unionByName(of_others, allowMissingColumns=True)
        .join(live, "uid", "left")
        .fillna(value=False, subset=["is_live"])
    )


def _lowest_since(time_us: str) -> str:
    """The lowest retention that a stream had at this time, or later, as far as exports know."""
    of_then = f"filter(retentions, its -> its.until_us > {time_us})"
    return f"coalesce(array_min(transform({of_then}, its -> its.retention_us)), {_DAY_US})"


def slots(items: DataFrame, seen: DataFrame, streams: DataFrame) -> DataFrame:
    """Slots of shards with their stream, as they were seen last, and their `fate`.

    `offset` is that of the first record, `following` the one behind the last. `looks` are the
    moments of the exports of the cell that counts.
    """
    rows = (
        items.where(f.col("partition").rlike(LOGS))
        .select(
            _uid().alias("uid"),
            _lane().alias("lane"),
            be64(f.col("sort"), 1).alias("offset"),
            text("k").alias("kind"),
            number("n").alias("records"),
            number("t").alias("stamp_us"),
            number("x").alias("expires_s"),
            f.col("item")["w"]["B"].alias("nonce"),
            "content",
            "cell",
            "as_of_us",
            "from_us",
            "is_gone",
            "is_present",
        )
        .withColumn("following", f.col("offset") + f.col("records"))
        .join(f.broadcast(streams), "uid", "left")
    )
    removed = f.when(f.col("is_gone"), f.col("as_of_us")).otherwise(
        f.expr("array_min(filter(looks, at -> at > as_of_us))")
    )
    return (
        _with_looks(rows, seen)
        .withColumn("removed_us", f.when(~f.col("is_present"), removed))
        .withColumn("fate", _fate())
        .drop("from_us")
    )


def _fate() -> Column:
    # What an incremental export says is gone was there when it began.
    ended_us = f.expr(f"stamp_us + {_lowest_since('if(is_gone, from_us, as_of_us)')}")
    last_us = f.expr("element_at(looks, -1)")
    return (
        f.when(f.coalesce(~f.col("is_live"), f.expr("false")), "gone_with_queue")
        .when(f.col("is_present") & (ended_us > last_us), "stored")
        .when(f.col("is_present"), "expired")
        .when(ended_us <= f.coalesce("removed_us", last_us), "expired")
        .otherwise("lost")
    )


def conservation(of: DataFrame) -> DataFrame:
    """Records by stream and shard, as messages are by queue and partition."""
    counts = [
        f.sum(f.when(f.col("fate") == fate, f.col("records")).otherwise(0)).alias(fate)
        for fate in FATES
    ]
    return (
        of.where("kind = 'd'")
        .groupBy(*QUEUE, "uid", f.col("lane").alias("partition"))
        .agg(
            f.sum("records").alias("sent"),
            f.lit(0).cast("bigint").alias("came_by_move"),
            *counts,
        )
        .orderBy(*QUEUE, "uid", "partition")
    )


def findings(
    of: DataFrame, streams: DataFrame, seen: DataFrame, items: DataFrame
) -> list[DataFrame]:
    """What is wrong, or odd, with records."""
    named = of.withColumn("sent_us", f.col("stamp_us")).localCheckpoint()
    span = "concat('offsets ', offset, ' to ', following - 1)"
    return [
        told(
            named,
            Rule(
                "lost",
                "fate = 'lost' and kind = 'd'",
                f"concat({span}, ': seen by an earlier export, and removed before their retention"
                " was over')",
                "records",
            ),
            Rule("lost", "fate = 'lost' and kind = 'e'", "'the end of the shard was removed'"),
            Rule(
                "queue_unknown",
                "is_live is null and is_present",
                "'no export has the definition of its stream'",
                "records",
            ),
        ),
        _by_neighbours(named),
        _twice(named),
        _changed(seen, named),
        _behind_anchors(named, streams, seen, items),
    ]


def _by_neighbours(named: DataFrame) -> DataFrame:
    """Offsets that nobody has, or two have; stamps that do not grow; what lies behind an end.

    A gap is certain where an export saw what lies behind it while what lay in it had its time
    still: its stamp was above that of the slot before, or of the stream's making.
    """
    in_order = Window.partitionBy(*_SHARD).orderBy("offset")
    its = (
        named.withColumn("before", f.coalesce(f.lag("following").over(in_order), f.lit(1)))
        .withColumn("stamp_before_us", f.lag("stamp_us").over(in_order))
        .withColumn("kind_before", f.lag("kind").over(in_order))
        .withColumn("missing", f.col("offset") - f.col("before"))
        .withColumn("since_us", f.coalesce("stamp_before_us", "made_us"))
    )
    ended_us = f"since_us + {_lowest_since('since_us')}"
    certain = f"exists(looks, at -> at >= stamp_us and at < {ended_us}) and is_live"
    rested = f"missing >= {_SKIPPED} and stamp_us - since_us >= {_DAY_US}"
    gap = "concat('offsets ', before, ' to ', offset - 1, ' are in no export')"
    return told(
        its,
        Rule("offsets_missing", f"missing > 0 and {certain} and not ({rested})", gap, "missing"),
        Rule("offsets_skipped", f"missing > 0 and {rested}", gap, "1"),
        Rule(
            "stored_twice",
            "missing < 0 and stamp_before_us is not null",
            "concat('offsets ', offset, ' to ', before - 1, ' are in two slots')",
            "-missing",
        ),
        Rule(
            "changed",
            "stamp_us <= stamp_before_us",
            "'its stamp is not above that of the slot before it'",
        ),
        Rule("changed", "kind_before = 'e'", "'it lies behind the end of its shard'", "records"),
    )


def _twice(named: DataFrame) -> DataFrame:
    """Slots of one write under several keys: a nonce names one write of one front end."""
    first = Window.partitionBy("uid", "nonce").orderBy("stamp_us", "lane", "offset")
    copies = (
        named.where("nonce is not null")
        .withColumn("place", f.row_number().over(first))
        .withColumn("original", f.first(f.concat_ws(" offset ", "lane", "offset")).over(first))
        .where("place > 1")
    )
    detail = "concat('the write that stored it lies at shard ', original, ', too')"
    return told(copies, Rule("stored_twice", "true", detail, "records"))


def _changed(seen: DataFrame, named: DataFrame) -> DataFrame:
    """Slots that were not the same in all exports: they are written once."""
    looks = (
        seen.where(f.col("partition").rlike(LOGS))
        .groupBy(_uid().alias("uid"), _lane().alias("lane"), be64(f.col("sort"), 1).alias("offset"))
        .agg(f.count_distinct("content").alias("ways"))
        .where("ways > 1")
    )
    its = named.join(looks, ["uid", "lane", "offset"])
    return told(its, Rule("changed", "true", "'it is not in all exports what it was in the first'"))


def _behind_anchors(
    named: DataFrame, streams: DataFrame, seen: DataFrame, items: DataFrame
) -> DataFrame:
    """Records that an anchor knows of, and no export has, at the end of a shard.

    All below an anchor's offset was stored by then, up to the stamp that it has.
    """
    anchors = items.where(
        f.col("partition").rlike(_ANCHORS)
        & f.col("sort").cast("string").rlike(_ANCHOR_SORT)
        & f.col("is_present")
    ).select(
        _uid().alias("uid"),
        f.col("sort").cast("string").alias("lane"),
        "cell",
        number("o").alias("anchored"),
        number("t").alias("sent_us"),
    )
    ends = named.groupBy(*_SHARD).agg(f.max("following").alias("end"))
    its = (
        _with_looks(anchors, seen)
        .join(f.broadcast(streams), "uid")
        .join(ends, list(_SHARD), "left")
        .withColumn("end", f.coalesce("end", f.lit(1)))
    )
    ended_us = f"sent_us + {_lowest_since('sent_us')}"
    return told(
        its,
        Rule(
            "offsets_missing",
            "anchored > end and is_live"
            f" and exists(looks, at -> at >= sent_us and at < {ended_us})",
            "concat('offsets ', end, ' to ', anchored - 1, ' are in no export')",
            "anchored - end",
        ),
    )


def _with_looks(its: DataFrame, seen: DataFrame) -> DataFrame:
    """With the moments of the exports of their cell as `looks`."""
    moments = seen.groupBy("cell").agg(f.array_sort(f.collect_set("as_of_us")).alias("looks"))
    return its.join(f.broadcast(moments), "cell")


def by_copy(its: Copies, streams: DataFrame, exports: Sequence[Export]) -> DataFrame:
    """Slots that some full members have at the end and others have not, or have otherwise."""
    as_of_us, settled_us = exports[-1].as_of_us, complete_to_us(exports) - LAG_US
    members = its.membership.where("is_full").select("uid", "cell", "incarnation")
    last = latest(
        its.all_seen.where(f.col("partition").rlike(LOGS)).join(
            f.broadcast(members), ["uid", "cell", "incarnation"], "left_semi"
        )
    )
    of_shard = members.groupBy("uid").agg(f.array_sort(f.collect_set("cell")).alias("members"))
    rows = (
        last.where(f.col("is_present") & (number("t") <= settled_us))
        .groupBy("uid", _lane().alias("lane"), be64(f.col("sort"), 1).alias("offset"))
        .agg(
            f.max(number("t")).alias("sent_us"),
            f.max(number("n")).alias("records"),
            f.array_sort(f.collect_set("cell")).alias("have"),
            f.count_distinct("content").alias("ways"),
        )
        .join(f.broadcast(of_shard), "uid")
        .join(f.broadcast(streams), "uid")
        # Each member removes what is past its time when it comes to it.
        .where(f"is_live and sent_us + {_lowest_since('sent_us')} > {as_of_us}")
        .withColumn("lack", f.array_except("members", "have"))
    )
    has = "concat('not in ', array_join(lack, ', '), '; in ', array_join(have, ', '))"
    return told(
        rows,
        Rule("copy_lacks", "size(lack) > 0", has, "greatest(records, 1) * size(lack)"),
        Rule("copies_differ", "ways > 1", "'not the same in all of its copies'"),
    )


def by_metered_puts(of: DataFrame, compared: DataFrame, usage: Usage) -> list[DataFrame]:
    """Puts that were answered against offsets that were given out, of streams that usage has whole.

    Those that were made since there is usage, in whose shards no offset was skipped.
    """
    if usage.from_minute < 0:
        return []
    given = (
        of.where("is_live")
        .groupBy(*_SHARD, *QUEUE, "made_us")
        .agg(f.max("following").alias("end"))
        .groupBy(*QUEUE)
        .agg(f.sum(f.col("end") - 1).alias("given"), f.min("made_us").alias("made_us"))
        .where(f"given < {_SKIPPED} and made_us div 60000000 >= {usage.from_minute}")
    )
    its = given.join(compared.drop("sent"), list(QUEUE)).withColumnRenamed("given", "sent")
    return [by_metered_sends(its, is_whole=True)]


def queues(seen: DataFrame, streams: DataFrame) -> DataFrame:
    """Definitions of queues (evidence.py), where those over streams have the retention of those."""
    of_streams = streams.select(
        f.col("uid").alias("stream_uid"),
        f.expr("element_at(retentions, -1).retention_us div 1000000").alias("stream_retention_s"),
    )
    its = queue_definitions(seen).join(f.broadcast(of_streams), "stream_uid", "left")
    retention_s = f.coalesce("stream_retention_s", "retention_s")
    return its.withColumn("retention_s", retention_s).drop("stream_retention_s")


BLOCK: Final = 64
"""Records of a block, as queues over streams have them."""


def as_messages(of: DataFrame, definitions: DataFrame) -> DataFrame:
    """The records of streams as the messages of queues over them (docs/storage.md, likewise).

    Columns are those of `evidence.messages`. What a queue passed over, at its start or by a purge,
    is none of its messages.
    """
    queues = definitions.where("stream_uid is not null").select(
        f.col("uid").alias("queue_uid"), "stream_uid", f.col("purged_us").alias("began_us")
    )
    each = f.explode(f.expr("sequence(offset, following - 1)")).alias("at")
    its = (
        of.where("kind = 'd' and records > 0")
        .join(f.broadcast(queues), f.col("uid") == f.col("stream_uid"))
        .where("stamp_us > coalesce(began_us, 0)")
        .select("*", each)
        .withColumn("index", ((f.col("at") - 1) % BLOCK).cast("bigint"))
    )
    return its.select(
        f.col("queue_uid").alias("uid"),
        "lane",
        f.lpad(f.lower(f.hex(f.col("at") - f.col("index"))), 16, "0").alias("block"),
        "index",
        "stamp_us",
        f.col("stamp_us").alias("sent_us"),
        "expires_s",
        f.when(f.col("fate") == "expired", "t")
        .when(f.col("fate") == "gone_with_queue", "q")
        .when(f.col("fate") == "lost", "g")
        .alias("cause"),
        f.lit(None).cast("bigint").alias("removed_us"),
        "is_present",
        f.expr("false").alias("is_traced"),
        f.expr("false").alias("came_by_move"),
        f.lit(None).cast("string").alias("id"),
        f.lit(1).cast("bigint").alias("times_stored"),
    )


def _uid() -> Column:
    return f.split_part("partition", f.lit("|"), f.lit(2))


def _lane() -> Column:
    return f.substring_index("partition", "|", -2)
