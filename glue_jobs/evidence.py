"""What exports know of messages: that each was sent, and what was done with it.

Every message of a cell has a place that nobody else gets: its queue's uid, a lane or partition, a
block, an index. Segments and slots say which places were filled, states of blocks what is done,
traces both of what was removed since (docs/storage.md). So two looks at a cell can be compared
message by message, whatever happened between them.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from glue_jobs.exports import TRACES_KEPT_US, be64, number, numbers, octets, text

PLACE: Final = ("uid", "lane", "block", "index")
"""Where a message is; `lane` is a lane or partition with its epoch, `block` in hexadecimal."""

RETENTION_S_DEFAULT: Final = 345_600
BAG_BLOCK_HEX: Final = 20
"""Characters of a block's name in a standard queue; one of a FIFO queue's has 16."""

_BAG, _LOG, _TRACE = "B", "G", "E"
_ID_BYTES: Final = 16
_SLOT_ENTRY_BYTES: Final = 48
_MOVED_BYTE: Final = 6
_MOVED_BIT: Final = 0x80
_DEAD_LETTER_VERSION: Final = 2


def latest(seen: DataFrame) -> DataFrame:
    """Each item of each cell as it was seen last; `is_present` says whether it is there at the end.

    An item that a full export does not have was removed before it.
    """
    per_item = Window.partitionBy("cell", "partition", "sort").orderBy(f.desc("as_of_us"))
    last_full = seen.where("of_full").groupBy("cell").agg(f.max("as_of_us").alias("last_full_us"))
    return (
        seen.withColumn("row", f.row_number().over(per_item))
        .where("row = 1")
        .join(f.broadcast(last_full), "cell")
        .withColumn("is_present", ~f.col("is_gone") & (f.col("as_of_us") >= f.col("last_full_us")))
        .drop("row", "last_full_us")
    )


def _letter() -> Column:
    return f.substring("partition", 1, 1)


def _uid() -> Column:
    return f.split_part("partition", f.lit("|"), f.lit(2))


def _lane() -> Column:
    parts = f.split("partition", r"\|")
    return f.concat_ws("|", parts[2], parts[3])


def _hex(octets_column: Column) -> Column:
    return f.lower(f.hex(octets_column))


def segments(items: DataFrame, more: Sequence[Column] = ()) -> DataFrame:
    """Segments, slots with messages, and traces of them, from the latest items, `more` of each.

    `cause` is why what a trace is of was removed, at `removed_us`; of other items "t" where an
    export has the removal and the time to live was over by then, "g" where it was not, null where
    there is none.
    """
    letter = _letter()
    is_trace = letter == _TRACE
    block = f.when(letter == _LOG, f.lpad(f.lower(f.hex(number("b"))), 16, "0")).otherwise(
        _hex(octets("b"))
    )
    removed = f.when(number("x") * 1_000_000 <= f.col("as_of_us"), "t").otherwise("g")
    is_dead_letter = number("v") == _DEAD_LETTER_VERSION
    sent_us = f.when(is_trace, number("s")).when(is_dead_letter, number("l"))
    return (
        items.where(letter.isin(_BAG, _LOG, _TRACE) & (text("k") == "s"))
        .withColumn("block", block)
        .select(
            _uid().alias("uid"),
            _lane().alias("lane"),
            "block",
            number("i").alias("first"),
            number("n").alias("count"),
            number("t").alias("stamp_us"),
            f.coalesce(sent_us, number("t")).alias("sent_us"),
            f.when(is_trace, number("u")).otherwise(number("x")).alias("expires_s"),
            f.when(is_trace, text("c")).when(f.col("is_gone"), removed).alias("cause"),
            f.when(is_trace, be64(f.col("sort"), 1)).alias("removed_us"),
            is_trace.alias("is_traced"),
            (f.col("is_present") & ~is_trace).alias("is_present"),
            (_is_moved_block() | is_dead_letter | (number("j") == 1)).alias("came_by_move"),
            f.when(~is_trace, _hex(f.col("sort"))).alias("stored_under"),
            f.when(letter == _BAG, octets("a")).alias("ids"),
            f.when(letter == _LOG, octets("u")).alias("slot_ids"),
            *more,
        )
        .where(f.col("count") > 0)
        .fillna(value=False, subset=["came_by_move"])
    )


def first_id() -> Column:
    """The id of an item's first message, in hexadecimal; null where it is not in clear."""
    of_bag = f.when(_letter() == _BAG, f.substring(octets("a"), 1, _ID_BYTES))
    of_log = f.when(_letter() == _LOG, f.substring(octets("u"), _ID_BYTES + 1, _ID_BYTES))
    return _hex(f.coalesce(of_bag, of_log))


def _is_moved_block() -> Column:
    """Whether a block of a standard queue has copies that moves have brought."""
    byte = f.conv(f.substring("block", 2 * _MOVED_BYTE + 1, 2), 16, 10).cast("int")
    return (f.length("block") == BAG_BLOCK_HEX) & (byte >= _MOVED_BIT)


def messages(of: DataFrame) -> DataFrame:
    """The messages of segments, each in one row, by PLACE.

    `id` is in hexadecimal, null where it is sealed; `times_stored` is above 1 for a message that
    lies in several items.
    """
    apart_id = f.expr(f"substring(ids, (index - first) * {_ID_BYTES} + 1, {_ID_BYTES})")
    slot_id = f.expr(
        f"substring(slot_ids, (index - first) * {_SLOT_ENTRY_BYTES} + {_ID_BYTES + 1}, {_ID_BYTES})"
    )
    return (
        of.withColumn("index", f.explode(f.expr("sequence(first, first + count - 1)")))
        .withColumn("id", _hex(f.coalesce(apart_id, slot_id)))
        .groupBy(*PLACE)
        .agg(
            f.min("stamp_us").alias("stamp_us"),
            f.max("sent_us").alias("sent_us"),
            f.max("expires_s").alias("expires_s"),
            f.max("cause").alias("cause"),
            f.max("removed_us").alias("removed_us"),
            f.max("is_present").alias("is_present"),
            f.max("is_traced").alias("is_traced"),
            f.max("came_by_move").alias("came_by_move"),
            f.max("id").alias("id"),
            f.count_distinct("stored_under").alias("times_stored"),
        )
    )


def done(items: DataFrame, seen: DataFrame, as_of_us: int) -> DataFrame:
    """Messages of which states, or traces of states, say that they are done, by PLACE.

    `moved` is "d" for a dead letter, "r" for a redriven message, null for a deleted one; `lives`
    says how often: a state that was removed and made again is another one. It is 0 where only
    an earlier export says so, though the state's time to live is not over.
    """
    letter = _letter()
    is_trace = letter == _TRACE
    expired = f.coalesce(number("x") * 1_000_000 <= as_of_us, f.expr("false"))
    states = items.where(letter.isin("S", "F") | (is_trace & (text("k") == "d")))
    last = _done_by(states, (is_trace | f.col("is_present") | expired).cast("int"))
    earlier = _done_by(seen.where(letter.isin("S", "F")), f.lit(0))
    return (
        last.unionByName(earlier)
        .groupBy(*PLACE)
        .agg(f.max("moved").alias("moved"), f.sum("life").alias("lives"))
    )


def _done_by(states: DataFrame, life: Column) -> DataFrame:
    block = f.when(_letter() == _TRACE, octets("b")).otherwise(f.col("sort"))
    moved = f.when(f.array_contains("gd", f.col("index")), "d").when(
        f.array_contains("gr", f.col("index")), "r"
    )
    return states.select(
        _uid().alias("uid"),
        _lane().alias("lane"),
        _hex(block).alias("block"),
        life.alias("life"),
        numbers("gd").alias("gd"),
        numbers("gr").alias("gr"),
        f.explode(numbers("d")).alias("index"),
    ).select(*PLACE, "life", moved.alias("moved"))


_PAIRS: Final = """filter(
    zip_with(slice(looks, 1, size(looks) - 1), slice(looks, 2, size(looks)),
        (was, its) -> named_struct('is_of_one', was.cell = its.cell, 'before_us', was.as_of_us,
            'before_s', was.expires_s, 'expires_s', its.expires_s)),
    its -> its.is_of_one)"""
"""Each look at a cell with the one before it."""

_LIVES: Final = """if(exists(pairs, its -> its.expires_s <> its.before_s), named_struct(
    'fell', exists(pairs, its -> its.expires_s < its.before_s),
    'rose_after_us', array_max(transform(
        filter(pairs, its -> its.expires_s > its.before_s), its -> its.before_us)),
    'told', array_join(transform(
        filter(pairs, its -> its.expires_s <> its.before_s),
        its -> concat('its time to live ended at ', timestamp_seconds(its.before_s),
            ' UTC, and then at ', timestamp_seconds(its.expires_s), ' UTC')), '; ')), null)"""


def changed(seen: DataFrame) -> DataFrame:
    """Segments, slots and traces of them of which two looks say different things.

    They are written once, so the digests of all that is in them are the same, too. `index` is
    where the first look has them begin, `sent_us` their stamp by then; `told` what each look says.
    `is_emptied` says that nothing differs but that the messages are not in it any more. `lives`
    says how a time to live changed between two looks at one cell, null where it did not: `fell`,
    and `rose_after_us`, the moment of the last look before it rose, null where it did not.
    """
    letter = _letter()
    is_log = letter == _LOG
    block = f.when(is_log, f.lpad(f.lower(f.hex(number("b"))), 16, "0")).otherwise(
        _hex(octets("b"))
    )
    stamp = f.timestamp_micros(f.coalesce(number("t"), f.lit(0))).cast("string")
    its = f.concat_ws(
        " ",
        f.when(number("n") == 1, f.lit("1 message at")).otherwise(
            f.concat(f.coalesce(number("n"), f.lit(0)), f.lit(" messages from"))
        ),
        f.coalesce(number("i"), f.lit(0)),
        f.concat(f.lit("of block "), f.coalesce(block, f.lit("?"))),
        f.concat(f.lit("stamped "), stamp, f.lit(" UTC")),
        f.concat(f.coalesce(number("y"), f.lit(0)), f.lit(" bytes")),
    )
    # What a purge empties keeps all but its messages and how they are packed.
    is_empty = (letter != _TRACE) & number("e").isNull()
    content = f.when(is_empty, f.lit("emptied")).otherwise(f.col("content"))
    return (
        seen.where(letter.isin(_BAG, _LOG, _TRACE) & (text("k") == "s"))
        .groupBy("partition", "sort")
        .agg(
            f.array_sort(f.collect_set(f.concat(its, f.lit(", contents "), content))).alias("told"),
            f.count_distinct(its).alias("ways"),
            f.count_distinct(f.when(~is_empty, f.col("content"))).alias("contents"),
            f.min_by(block, "as_of_us").alias("block"),
            f.min_by(number("i"), "as_of_us").alias("index"),
            f.min_by(number("t"), "as_of_us").alias("sent_us"),
            f.min_by(first_id(), "as_of_us").alias("id"),
            f.array_sort(
                f.collect_set(f.struct("cell", "as_of_us", number("x").alias("expires_s")))
            ).alias("looks"),
        )
        .withColumn("pairs", f.expr(_PAIRS))
        .withColumn("lives", f.expr(_LIVES))
        .where("size(told) > 1 or lives is not null")
        .withColumn("is_emptied", (f.col("ways") == 1) & (f.col("contents") == 1))
        .select(
            _uid().alias("uid"),
            _lane().alias("lane"),
            "block",
            "index",
            "id",
            "sent_us",
            "told",
            "is_emptied",
            "lives",
        )
    )


def definitions(seen: DataFrame) -> DataFrame:
    """Queues by their uids: name, purge stamp, retention, and whether they are there at the end.

    `has_vanished` says of one that is not that nobody deleted it: that would be known.
    """
    live = seen.where((_letter() == "Q") & (text("k") == "q"))
    at_end = latest(seen).where((_letter() == "Q") & (text("k") == "q") & f.col("is_present"))
    attributes = text("a")
    its_last = (
        live.select(
            text("u").alias("uid"),
            _uid().alias("account"),
            f.split_part("partition", f.lit("|"), f.lit(3)).alias("region"),
            f.col("sort").cast("string").alias("queue"),
            text("n").alias("stream_uid"),
            number("p").alias("purged_us"),
            number("m").alias("modified_s"),
            f.coalesce(
                f.get_json_object(attributes, "$.MessageRetentionPeriod").cast("bigint"),
                f.lit(RETENTION_S_DEFAULT),
            ).alias("retention_s"),
            (f.get_json_object(attributes, "$.FifoQueue") == "true").alias("is_fifo"),
            "as_of_us",
        )
        .groupBy("uid", "account", "region", "queue")
        .agg(
            f.max("stream_uid").alias("stream_uid"),
            f.max("purged_us").alias("purged_us"),
            f.max("modified_s").alias("modified_s"),
            f.max_by("retention_s", "as_of_us").alias("retention_s"),
            f.coalesce(f.max("is_fifo"), f.expr("false")).alias("is_fifo"),
        )
    )
    is_live = at_end.select(text("u").alias("uid"), f.expr("true").alias("is_live"))
    deleted = _deleted_queues(seen)
    joined = its_last.unionByName(deleted, allowMissingColumns=True)
    per_uid = joined.groupBy("uid").agg(
        *(f.max(name).alias(name) for name in its_last.columns if name != "uid")
    )
    flags = ["is_live", "is_fifo", "has_vanished"]
    return (
        per_uid.join(is_live, "uid", "left")
        .join(_without_trace(live, seen).join(deleted, "uid", "left_anti"), "uid", "left")
        .fillna(value=False, subset=flags)
        .withColumn("has_vanished", f.col("has_vanished") & ~f.col("is_live"))
    )


def _without_trace(live: DataFrame, seen: DataFrame) -> DataFrame:
    """Queues that were defined, and not any more so soon after that a deletion would be known.

    Of those that are there at the end it says nothing.
    """
    looks = seen.groupBy("cell").agg(
        f.collect_set("as_of_us").alias("all_us"),
        f.collect_set(f.when(f.col("of_full"), f.col("as_of_us"))).alias("full_us"),
    )
    last = f.struct("as_of_us", "is_gone", "from_us", "cell")
    missed = "array_min(filter(full_us, at -> at > as_of_us))"
    before = "array_max(filter(all_us, at -> at < missed_us))"
    apart = f"missed_us - if(is_gone, from_us, {before})"
    return (
        live.groupBy(text("u").alias("uid"))
        .agg(f.max(last).alias("its"))
        .select("uid", "its.*")
        .join(f.broadcast(looks), "cell")
        .withColumn("missed_us", f.expr(f"if(is_gone, as_of_us, {missed})"))
        .select("uid", f.expr(f"{apart} <= {TRACES_KEPT_US}").alias("has_vanished"))
    )


def _deleted_queues(seen: DataFrame) -> DataFrame:
    """Queues that were deleted lately, by what is left of their definitions."""
    tombstones = seen.where((_letter() == "Q") & (text("k") == "d")).select(
        text("u").alias("uid"),
        _uid().alias("account"),
        f.split_part("partition", f.lit("|"), f.lit(3)).alias("region"),
        f.col("sort").cast("string").alias("queue"),
    )
    return (
        seen.where(_letter() == "X")
        .select(
            f.substring(f.col("sort"), 9, 16).cast("string").alias("uid"),
            text("a").alias("account"),
            text("e").alias("region"),
            text("q").alias("queue"),
        )
        .unionByName(tombstones)
        .distinct()
    )


def moved_block(uid: str, lane: str, block: str) -> str:
    """The block that messages of this one have wherever they move to (*Moved messages*)."""
    place = f"{uid}|{lane}|".encode() + bytes.fromhex(block)
    digest = bytearray(blake2b(place, digest_size=10, person=b"moved block").digest())
    digest[_MOVED_BYTE] |= _MOVED_BIT
    return bytes(digest).hex()
