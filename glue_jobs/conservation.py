"""Where every message went: what was sent against what became of it, and what was metered.

For each queue and partition: sent = deleted + dead-lettered + redriven + expired + purged + gone
with its queue + stored. What is left over is *lost*. What was sent is known twice, from the items
and from the ledger of sends; deletes from the items and from usage. docs/audit.md says what each
difference means. Everything here is a function from DataFrames to DataFrames.
"""

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from glue_jobs.evidence import BAG_BLOCK_HEX, PLACE, moved_block

FATES: Final = (
    *("deleted", "dead_lettered", "redriven", "expired", "purged"),
    *("gone_with_queue", "stored", "lost"),
)
"""What can have become of a message; all but the last are as they should be."""

QUEUE: Final = ("account", "region", "queue")
OF_STREAM: Final = "stream/"
"""What the name of a stream begins with where queues have theirs."""

FINDING: Final = ("kind", *QUEUE, "uid", "partition", "message", "count", "detail", "sent")
"""Columns of a finding. `count` is of messages or records; `message` names one, if it is known, and
`sent` is when it was sent, or the minute in which they were, UTC."""

SURELY: Final = ("surely_sent", "surely_deleted")
"""What was surely served before the exports were made: all of it is in them."""

_US_PER_MINUTE: Final = 60_000_000

ERRORS: Final = frozenset(
    {
        *("lost", "stored_twice", "not_sent", "sent_and_not_seen", "deleted_and_never_seen"),
        *("copy_missing", "copy_without_source", "ledger_gap", "not_read", "removed_unread"),
        *("changed", "removed_and_stored", "deletion_forgotten", "export_gap", "usage_gap"),
        *("access_gap", "record_differs", "copy_lacks", "copies_differ", "ledger_differs"),
        "offsets_missing",
    }
)
"""Kinds of findings that should not be; the others say what users did, or what nobody knows."""


@dataclass(frozen=True, slots=True)
class Window:
    """What is compared: to `as_of_us`, and sends of minutes from `from_minute` on.

    Exports have all that was served before the minute `surely_before`, and each cell as it was at
    `complete_us` or later.
    """

    as_of_us: int
    from_minute: int
    surely_before: int
    complete_us: int


def _is_in_log() -> Column:
    return f.length("block") != BAG_BLOCK_HEX


def _is_of_stream() -> Column:
    """Whether it is a record, as a message of a queue over a stream: nobody sent it there."""
    return f.col("stream_uid").isNotNull()


def fates(
    messages: DataFrame, done: DataFrame, definitions: DataFrame, window: Window
) -> DataFrame:
    """Each message with its queue and its `fate`; it has one, by the first rule that holds.

    Why a cell removed a message counts where nothing else that exports have says otherwise.
    """
    its = messages.join(done, list(PLACE), "left").join(f.broadcast(definitions), "uid", "left")
    ended_us = f.col("sent_us") + f.col("retention_s") * 1_000_000
    is_done = f.col("lives").isNotNull()
    has_vanished = f.coalesce(f.col("has_vanished"), f.lit(False))  # noqa: FBT003 - a literal
    fate = (
        f.when(f.col("moved") == "d", "dead_lettered")
        .when(f.col("moved") == "r", "redriven")
        .when(is_done, "deleted")
        .when(~f.col("is_live") & ~has_vanished, "gone_with_queue")
        .when(f.col("stamp_us") <= f.col("purged_us"), "purged")
        .when(_is_removed_wrongly(window), "lost")
        .when(f.col("cause") == "q", "gone_with_queue")
        .when(f.col("cause") == "p", "purged")
        .when(f.col("cause").isin("n", "g"), "lost")
        .when(f.col("cause").isin("x", "t"), "expired")
        .when(f.col("is_present") & (ended_us <= window.as_of_us), "expired")
        .when(f.col("is_present") & ~has_vanished, "stored")
        .when(has_vanished, "lost")
        .when(f.col("expires_s") * 1_000_000 <= window.as_of_us, "expired")
        .otherwise("lost")
    )
    return its.withColumn("fate", fate).withColumn("minute", f.expr("stamp_us div 60000000"))


def _is_removed_wrongly(window: Window) -> Column:
    """Whether a trace has a reason that cannot be: no purge, a queue that is there, time left.

    Definitions may be of an earlier moment than the traces of another cell.
    """
    is_known = f.col("is_live").isNotNull() & (f.col("removed_us") <= window.complete_us)
    early = (f.col("cause") == "x") & (f.col("removed_us") < f.col("expires_s") * 1_000_000)
    its = (is_known & f.col("cause").isin("q", "p")) | early
    return f.coalesce(its & ~f.col("is_present"), f.lit(False))  # noqa: FBT003 - a literal


def conservation(fated: DataFrame) -> DataFrame:
    """Messages by queue and partition: how many came, by whom, and how many met each fate.

    Records of a stream come to a queue over it as by moves: nobody sent them there.
    """
    by_fate = [f.sum(f.when(f.col("fate") == fate, 1).otherwise(0)).alias(fate) for fate in FATES]
    return (
        fated.groupBy(*QUEUE, "uid", f.col("lane").alias("partition"))
        .agg(
            f.count(f.lit(1)).alias("sent"),
            f.sum((f.col("came_by_move") | _is_of_stream()).cast("int")).alias("came_by_move"),
            *by_fate,
        )
        .orderBy(*QUEUE, "uid", "partition")
    )


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows for which `when` holds are findings of a `kind`. All but the kind is SQL."""

    kind: str
    when: str
    detail: str
    count: str = "1"


def told(rows: DataFrame, *rules: Rule) -> DataFrame:
    """Rows as findings, one for each rule that holds; what they have no column for is null."""
    message = "concat_ws(' ', concat('block ', block, ' index ', index), concat('id ', id))"
    if "offset" in rows.columns:
        message = "concat('offset ', offset)"
    elif "block" not in rows.columns:
        message = "cast(null as string)"
    elif "id" not in rows.columns:
        message = "concat('block ', block, ' index ', index)"
    found = [
        f.when(
            f.expr(rule.when),
            f.struct(
                f.lit(rule.kind).alias("kind"),
                f.expr(rule.count).cast("bigint").alias("count"),
                f.expr(rule.detail).alias("detail"),
            ),
        )
        for rule in rules
    ]
    named = {name: name for name in (*QUEUE, "uid")} | {"partition": "lane"}
    sent = f.lit(None).cast("string")
    if "sent_us" in rows.columns:
        sent = f.timestamp_micros("sent_us").cast("string")
    elif "minute" in rows.columns:
        sent = f.timestamp_seconds(f.col("minute") * 60).cast("string")
    return rows.select(
        *(
            (f.col(of) if of in rows.columns else f.lit(None).cast("string")).alias(name)
            for name, of in named.items()
        ),
        f.expr(message).alias("message"),
        sent.alias("sent"),
        f.explode(f.array_compact(f.array(*found))).alias("its"),
    ).select("its.kind", *QUEUE, "uid", "partition", "message", "its.count", "its.detail", "sent")


_WHY_LOST: Final = """concat('sent ', timestamp_micros(sent_us), ' UTC, ', case cause
    when 'n' then 'removed as no longer needed, and nobody had deleted it'
    when 'g' then 'removed before its time was over, and nobody had deleted it'
    when 'x' then 'removed before its time was over, and nobody had deleted it'
    when 'p' then 'removed as purged, and nobody had purged it'
    when 'q' then 'removed as if its queue had been deleted'
    else if(has_vanished, 'its queue has no definition any more, and nobody had deleted it',
        'seen by an earlier export, and not there any more') end)"""


_MODIFIED_SEEN_S: Final = 60
"""So long after a queue was modified some front end may go by what it was before."""

_IS_PURGED: Final = "coalesce(stamp_us <= purged_us, false)"
"""Of a message with its queue: nobody reads it, whatever is stored."""


def by_message(fated: DataFrame, done: DataFrame, definitions: DataFrame) -> list[DataFrame]:
    """What is wrong, or odd, with single messages."""
    unseen = done.join(fated.select(*PLACE), list(PLACE), "left_anti").join(
        f.broadcast(definitions.select("uid", *QUEUE)), "uid", "left"
    )
    return [
        told(
            fated,
            Rule("lost", "fate = 'lost'", _WHY_LOST),
            Rule(
                "stored_twice",
                "times_stored > 1 and not came_by_move",
                "concat('stored under ', times_stored, ' keys')",
                "times_stored - 1",
            ),
            Rule(
                "deleted_again",
                "lives > 1",
                "concat('deleted again after its block was gone, times: ', lives - 1)",
                "lives - 1",
            ),
            Rule(
                "removed_and_stored",
                "is_traced and is_present and not came_by_move",
                "'the cell has a trace of its removal, and the message, too'",
            ),
            Rule(
                "deletion_forgotten",
                # After a purge a cell may let go of what is known of a message, too.
                f"lives = 0 and is_live and not {_IS_PURGED}",
                "concat('by an earlier export it is done, and nothing says so any more',"
                " if(is_present, '', '; the message is not there either'))",
            ),
            Rule(
                "queue_unknown",
                "is_live is null and fate = 'stored'",
                "'no export has the definition of its queue'",
            ),
        ),
        told(
            unseen,
            Rule("deleted_and_never_seen", "true", "'a state says it is done, and no item has it'"),
        ),
    ]


def by_item(changed: DataFrame, definitions: DataFrame) -> DataFrame:
    """Items that are written once, and were not the same in all exports (evidence.changed).

    A purge empties those that moves have brought. What is stored lives longer where the retention
    of its queue is raised, and never shorter.
    """
    names = definitions.select("uid", *QUEUE, "purged_us", "modified_s")
    its = changed.join(f.broadcast(names), "uid", "left")
    by_purge = "is_emptied and coalesce(sent_us <= purged_us, false)"
    is_other = f"size(told) > 1 and not ({by_purge})"
    lives_wrongly = (
        "coalesce(lives.fell or lives.rose_after_us >"
        f" (modified_s + {_MODIFIED_SEEN_S}) * 1000000, false)"
    )
    detail = (
        f"array_join(array_compact(array(if({is_other}, array_join(told, '; then, or before: '),"
        f" null), if({lives_wrongly}, lives.told, null))), '; ')"
    )
    return told(its, Rule("changed", f"({is_other}) or {lives_wrongly}", detail))


def by_move(fated: DataFrame) -> list[DataFrame]:
    """Moves of standard queues of which one half is missing: a copy lies in a block of its own.

    Of a standard queue over a stream, too: where it moves from has the shard in fewer digits.
    """
    name = f.udf(moved_block, "string")
    bag = fated.where(~_is_in_log())
    moving = fated.where(~_is_in_log() | (_is_of_stream() & ~f.col("is_fifo")))
    shard = f.conv(f.substring_index("lane", "|", 1), 16, 10).cast("bigint")
    lane = f.when(_is_of_stream(), f.format_string("%02x|0", shard)).otherwise(f.col("lane"))
    blocks = moving.withColumn("named_lane", lane).select("uid", "lane", "named_lane", "block")
    named = blocks.distinct().withColumn("copy_block", name("uid", "named_lane", "block"))
    sources = moving.join(named, ["uid", "lane", "block"])
    copies = bag.where("came_by_move").select(f.col("block").alias("copy_block"), "index")
    lacking = sources.where(f.col("moved").isNotNull()).join(
        copies.distinct(), ["copy_block", "index"], "left_anti"
    )
    known = sources.select(f.col("copy_block").alias("block"), "index").distinct()
    strays = bag.where("came_by_move").join(known, ["block", "index"], "left_anti")
    gone = "concat('it moved (', moved, '), and no queue has, or had, its copy')"
    stray = "'it came by a move, and no queue had it'"
    return [
        told(lacking, Rule("copy_missing", "true", gone)),
        told(strays, Rule("copy_without_source", "true", stray)),
    ]


def sends(fated: DataFrame, ledger: DataFrame, window: Window) -> DataFrame:
    """Queues and minutes for which the ledger of sends and the items differ.

    `recorded` is what the ledger has, `seen` what exports and traces have. What came by moves is in
    neither; a slot of a FIFO queue that has such messages may have others, too, so the minutes of
    those queues are taken together.
    """
    mixed = _mixed(fated)
    kept = f.col("minute") >= window.from_minute
    seen = (
        fated.where(kept & ~f.col("came_by_move") & ~_is_of_stream())
        .groupBy(*QUEUE, "minute")
        .agg(f.count(f.lit(1)).alias("seen"))
    )
    recorded = ledger.where(kept).groupBy(*QUEUE, "minute").agg(f.sum("messages").alias("recorded"))
    both = (
        seen.join(recorded, [*QUEUE, "minute"], "full")
        .fillna(0, ["seen", "recorded"])
        .join(f.broadcast(mixed), list(QUEUE), "left_anti")
    )
    return both.where("seen <> recorded").orderBy(*QUEUE, "minute")


def _mixed(fated: DataFrame) -> DataFrame:
    """FIFO queues with slots that moves have brought."""
    return fated.where(f.col("came_by_move") & _is_in_log()).select(*QUEUE).distinct()


def by_fifo_moves(fated: DataFrame, ledger: DataFrame) -> DataFrame:
    """What FIFO queues got by moves against what moved out of them, all of them together.

    Their copies have no place that follows from where they were, so which one it is nobody knows.
    Queues to which nothing was moved are compared by minute (`sends`).
    """
    log = fated.where(_is_in_log() & ~(_is_of_stream() & ~f.col("is_fifo")))
    queues = _mixed(fated)
    out = log.where(f.col("fate").isin("dead_lettered", "redriven"))
    sent = ledger.join(queues, list(QUEUE), "left_semi")
    sums = (
        log.join(queues, list(QUEUE), "left_semi")
        .agg(f.count(f.lit(1)).alias("seen"))
        .crossJoin(sent.agg(f.coalesce(f.sum("messages"), f.lit(0)).alias("recorded")))
        .crossJoin(out.agg(f.count(f.lit(1)).alias("moved")))
    )
    facts = "concat(moved, ' messages of FIFO queues moved, ', seen - recorded, ' came by moves')"
    came = "seen - recorded"
    return told(
        sums,
        Rule("copy_missing", f"{came} < moved", facts, f"moved - ({came})"),
        Rule("copy_without_source", f"{came} > moved", facts, f"{came} - moved"),
    )


def by_minute(differences: DataFrame, fated: DataFrame) -> list[DataFrame]:
    """Differences of `sends` as findings, with the messages that they can be about."""
    over = differences.where("seen > recorded").join(
        fated.where(~f.col("came_by_move")), [*QUEUE, "minute"]
    )
    minute = "'minute ', timestamp_seconds(minute * 60), ' UTC: '"
    facts = f"concat({minute}, recorded, ' sent by the ledger, ', seen, ' seen')"
    one_of = (
        f"concat({minute}, recorded, ' sent by the ledger, ', seen, ' seen; it is one of them')"
    )
    return [
        told(
            differences,
            Rule("sent_and_not_seen", "seen < recorded", facts, "recorded - seen"),
            Rule("not_sent", "seen > recorded", facts, "seen - recorded"),
        ),
        told(over, Rule("not_sent_candidate", "true", one_of)),
    ]


def metered(usage: DataFrame, counted: DataFrame, window: Window) -> DataFrame:
    """By queue what usage says was sent, received and deleted, beside what the items say.

    Of usage it is what was served up to the minute of the last export, that minute with it. Some of
    it may be from after that moment, so SURELY has what exports surely have.
    """
    last = window.as_of_us // _US_PER_MINUTE
    of = usage.where((f.col("status") == "2xx") & (f.col("minute") <= last)).withColumn(
        "queue", _name_of_what()
    )
    before = f.col("minute") < window.surely_before
    sends = ("SendMessage", "SendMessageBatch", "kinesis:PutRecord", "kinesis:PutRecords")
    receives = ("ReceiveMessage", "kinesis:GetRecords", "kinesis:GetRecords/long-term")
    deletes = ("DeleteMessage", "DeleteMessageBatch")
    served = of.groupBy(*QUEUE).agg(
        _messages_of(*sends).alias("metered_sent"),
        _messages_of(*receives).alias("metered_received"),
        _messages_of(*deletes).alias("metered_deleted"),
        _messages_of(*sends, where=before).alias("surely_sent"),
        _messages_of(*deletes, where=before).alias("surely_deleted"),
    )
    stored = counted.groupBy(*QUEUE).agg(
        f.sum(f.col("sent") - f.col("came_by_move")).alias("sent"),
        *(f.sum(fate).alias(fate) for fate in FATES),
    )
    numbers = [name for name in (*served.columns, *stored.columns) if name not in QUEUE]
    return stored.join(served, list(QUEUE), "full").fillna(0, numbers).orderBy(*QUEUE)


def _name_of_what() -> Column:
    """What usage is of: a stream is told from a queue of its name."""
    is_stream = f.col("operation").startswith("kinesis:") & (f.col("queue") != "")
    return f.when(is_stream, f.concat(f.lit(OF_STREAM), "queue")).otherwise(f.col("queue"))


def _messages_of(*operations: str, where: Column | None = None) -> Column:
    its = f.col("operation").isin(*operations)
    its = its if where is None else its & where
    return f.sum(f.when(its, f.col("messages")).otherwise(0))


def by_copy(lacking: DataFrame, states: DataFrame, definitions: DataFrame) -> list[DataFrame]:
    """Messages, and states, that are not the same in all copies of a queue (replicas.py)."""
    names = f.broadcast(definitions.select("uid", *QUEUE))
    has = "'not in ', array_join(lack, ', '), '; in ', array_join(have, ', ')"
    differs = "'not the same in all of its copies'"
    of_state = "concat('the state of block ', state_of, ' is not the same in all of its copies')"
    return [
        told(
            lacking.join(names, "uid", "left"),
            Rule("copy_lacks", "size(lack) > 0", f"concat({has})", "messages * size(lack)"),
            Rule("copies_differ", "size(said) > 1", differs),
        ),
        told(states.join(names, "uid", "left"), Rule("copies_differ", "true", of_state)),
    ]


def by_other_copy(held: DataFrame, definitions: DataFrame) -> list[DataFrame]:
    """Messages that other copies have and should not, by themselves or by the one that counts."""
    names = f.broadcast(definitions.select("uid", *QUEUE, "is_live", "purged_us"))
    # Each member drops what was purged when it comes to it.
    its = held.join(names, "uid").where(f"is_live and not {_IS_PURGED}")
    behind = (
        its.where("is_done and lives is null and not is_traced")
        .groupBy(*QUEUE, "uid", "lane", "cell")
        .agg(f.count(f.lit(1)).alias("deletes"))
    )
    knew = "concat(cell, ': by an earlier export it is done there, and nothing says so any more')"
    traced = "concat(cell, ' has a trace of its removal, and the message, too')"
    return [
        told(
            its,
            Rule("deletion_forgotten", "lives = 0", knew),
            Rule("removed_and_stored", "is_traced and not came_by_move", traced),
        ),
        told(
            behind,
            Rule(
                "copy_behind", "true", "concat(cell, ' does not know of these deletes')", "deletes"
            ),
        ),
    ]


def by_metered_sends(compared: DataFrame, *, is_whole: bool) -> DataFrame:
    """Sends that were answered against messages, where no ledger has what was sent.

    `is_whole` says that usage has every answer: then there can be no more messages than that.
    """
    facts = "concat({}, ' sends answered, ', sent, ' messages seen: {}')"
    return told(
        compared,
        Rule(
            "not_sent" if is_whole else "sends_not_metered",
            "sent > metered_sent",
            facts.format(
                "metered_sent",
                "nobody sent the others" if is_whole else "usage has gaps, or is not complete yet",
            ),
            "sent - metered_sent",
        ),
        Rule(
            "sends_without_message",
            "sent < surely_sent",
            facts.format(
                "surely_sent", "repeated calls and duplicates, or what vanished before any export"
            ),
            "surely_sent - sent",
        ),
    )


def by_meter(compared: DataFrame) -> DataFrame:
    """What was deleted and not metered, and what was metered and deleted nothing."""
    facts = "concat({}, ' deletes answered, ', deleted, ' messages deleted: {}')"
    return told(
        compared,
        Rule(
            "deletes_repeated",
            "surely_deleted > deleted",
            facts.format(
                "surely_deleted", "some were deleted more than once, or moved or expired before"
            ),
            "surely_deleted - deleted",
        ),
        Rule(
            "deletes_not_metered",
            "metered_deleted < deleted",
            facts.format("metered_deleted", "usage has gaps, or is not complete yet"),
            "deleted - metered_deleted",
        ),
    )
