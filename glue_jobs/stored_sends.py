"""Sends whose records a function lost, from what is stored: each item says whose record it was.

Docs: storage.md (`ra`), billing.md (*Sends that are derived*).
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from glue_jobs import evidence
from glue_jobs.exports import (
    ROOT,
    SUMMARY,
    Export,
    find_exports,
    gaps_between,
    number,
    observations,
    octets,
    text,
)
from glue_jobs.identities import Run, Window
from glue_jobs.outputs import Pointer, canonical
from glue_jobs.places import Place
from glue_jobs.plural import counted, verb
from glue_jobs.records import SCHEMA
from glue_jobs.usage import read_records

_BAG, _LOG, _QUEUES, _REMOVED = "B", "G", "Q", "X"
_RECORD_BYTES: Final = 16
_SUMS: Final = ("requests", "units", "messages", "bytes")
_SUMS_BYTES: Final = ((1, 1), (2, 2), (4, 1), (5, 4))
"""Where each of them begins, and how long it is, in the eight bytes of one operation in `rb`."""

_RANGES: Final = "writer string, first bigint, last bigint"


@dataclass(frozen=True, slots=True, order=True)
class StoredSend:
    """The usage record of a send, as what is stored of its messages says it was to be."""

    writer: str
    number: int
    minute: int
    account: str
    region: str
    queue: str
    operation: str
    requests: int
    units: int
    messages: int
    bytes: int


_COLUMNS: Final = tuple(StoredSend.__slots__)


Identity = tuple[str, int]
"""Writer and number."""

Ranges = dict[str, list[tuple[int, int]]]
"""The numbers of each writer, as few ranges in their order."""

KEPT: Final = "stored_sends.json"
"""The name of what a run keeps of derived sends, beside the list of its inputs."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What is known of sends by functions through what they stored.

    `names` are the exports that lie there, None where a bill was given none; `whole` those that can
    be read; `told` what is wrong with them, a line each. `seen` has the columns of StoredSend;
    `account` is null where no export defines the queue. `kept` is what earlier runs found and had
    no record of.
    """

    names: list[str] | None
    told: list[str]
    seen: DataFrame | None
    kept: Mapping[Identity, StoredSend]
    whole: Sequence[Export] = ()


@dataclass(frozen=True, slots=True)
class Derived:
    """Sends of a period that have no record; `of_nobody` are those to queues that nobody knows."""

    sends: tuple[StoredSend, ...] = ()
    of_nobody: int = 0

    @property
    def runs(self) -> list[Run]:
        """Them as runs of numbers."""
        return [
            Run(its.writer, its.number, its.number, its.minute, its.minute) for its in self.sends
        ]

    def records(self, session: SparkSession) -> DataFrame:
        """Them as usage records."""
        whole = {"schema": SCHEMA, "status": "2xx", "code": "", "failed_entries": 0}
        like = read_records(session, [])
        rows = [{**asdict(its), **whole} for its in self.sends]
        return session.createDataFrame(
            [tuple(row[name] for name in like.columns) for row in rows], like.schema
        )


NOTHING_DERIVED: Final = Derived()


def names_of(exports: Place | None) -> list[str] | None:
    """The exports that lie in a place, whole or not; None where no place is given."""
    if exports is None:
        return None
    names = [found.name for found in exports.list("")]
    return [name for name in names if name.endswith(f"/{SUMMARY}") and ROOT in name]


def read_stored(
    session: SparkSession, place: Place | None, kept: Mapping[Identity, StoredSend]
) -> Stored:
    """What exports have, if a place of them is given, and what earlier runs have `kept`.

    Raises JobError where a line is no DynamoDB JSON.
    """
    if place is None:
        return Stored(None, [], None, kept)
    whole, refused, _strays = find_exports(place)
    told = [
        *(f"export {its.name} is not read: {its.reason}" for its in refused),
        *(f"exports have a gap: {gap}" for gap in gaps_between(whole)),
    ]
    if not whole:
        told.append(f"exports: there is none to read in {place.url}")
    seen = _sends(session, place, whole).cache() if whole else None
    return Stored(names_of(place), told, seen, kept, whole)


def _sends(session: SparkSession, place: Place, exports: Sequence[Export]) -> DataFrame:
    """All sends of functions that the exports have, each in one row."""
    # Copies of a message in several cells have its place, under incarnations of their own.
    base = f.regexp_replace("partition", r"@\d+$", "")
    seen = observations(session, place, exports).withColumn("partition", base)
    letter = f.substring("partition", 1, 1)
    block = f.when(letter == _LOG, number("b").cast("string")).otherwise(f.hex(octets("b")))
    per_item = (
        seen.where(letter.isin(_BAG, _LOG) & (text("k") == "s"))
        .where(f.length(octets("ra")) == _RECORD_BYTES)
        .groupBy("partition", block.alias("block"), number("i").alias("first"))
        .agg(
            f.min(
                f.struct(
                    octets("ra").alias("record"),
                    octets("rb").alias("batched"),
                    *(number(name).alias(name) for name in "rpny"),
                )
            ).alias("its")
        )
        .select(f.split_part("partition", f.lit("|"), f.lit(2)).alias("uid"), "its.*")
    )
    per_send = (
        per_item.withColumns(_said())
        .groupBy("record", "uid")
        .agg(
            f.max(_is_batch()).alias("is_batch"),
            *(f.sum(f"said_{name}").alias(name) for name in _SUMS),
        )
    )
    queues = evidence.definitions(seen.where(letter.isin(_QUEUES, _REMOVED)))
    named = per_send.join(queues.select("uid", "account", "region", "queue"), "uid", "left")
    operation = f.when(f.col("is_batch"), "SendMessageBatch").otherwise("SendMessage")
    return named.select(
        f.lower(f.hex(f.substring("record", 1, 8))).alias("writer"),
        _integer("record", 9, 4).alias("number"),
        _integer("record", 13, 4).alias("minute"),
        *("account", "region", "queue"),
        operation.alias("operation"),
        *_SUMS,
    ).where("messages > 0")


def _said() -> dict[str, Column]:
    """What an item says of calls, as `read_calls` of data_plane/stored/ledger.py reads it."""
    alone = {"requests": f.coalesce("r", f.lit(1)), "units": f.coalesce("p", f.lit(1))}
    alone |= {"messages": f.col("n"), "bytes": f.col("y")}
    return {
        f"said_{name}": f.when(f.col("batched").isNull(), alone[name]).otherwise(
            _integer("batched", at, length)
            # Nothing is there where no message came by SendMessage.
            + f.coalesce(_integer("batched", at + 8, length), f.lit(0))
        )
        for name, (at, length) in zip(_SUMS, _SUMS_BYTES, strict=True)
    }


def _is_batch() -> Column:
    return f.coalesce(_integer("batched", 4, 1) > 0, f.lit(False))  # noqa: FBT003 - a literal


def _integer(column: str, at: int, length: int) -> Column:
    """An integer of so many bytes, big endian; null where there are none."""
    digits = f.hex(f.substring(column, at, length))
    return f.when(digits != "", f.conv(digits, 16, 10).cast("bigint"))


def derive(session: SparkSession, stored: Stored, known: Iterable[Run], window: Window) -> Derived:
    """Sends of a window that none of the known records is of."""
    ranges = _ranges(known)
    found = {
        key: its
        for key, its in stored.kept.items()
        if window.start <= its.minute < window.end and not _has(ranges, key)
    }
    of_nobody = 0
    for row in _unknown(session, stored.seen, ranges, window):
        if row.account is None:
            of_nobody += 1
            continue
        its = StoredSend(*(row[name] for name in _COLUMNS))
        before = found.get((its.writer, its.number), its)
        # An export may have been made between two writes of one batch, or after one was removed.
        found[its.writer, its.number] = max(before, its, key=lambda one: one.messages)
    return Derived(tuple(sorted(found.values())), of_nobody)


def _unknown(
    session: SparkSession,
    seen: DataFrame | None,
    ranges: Ranges,
    window: Window,
) -> list[Any]:
    if seen is None:
        return []
    told = [(writer, *each) for writer, its in ranges.items() for each in its]
    known = session.createDataFrame(told, _RANGES).alias("known")
    within = (f.col("minute") >= window.start) & (f.col("minute") < window.end)
    sends = seen.where(within).alias("sends")
    is_known = f.expr(
        "sends.writer = known.writer and sends.number between known.first and known.last"
    )
    rows: list[Any] = sends.join(known, is_known, "left_anti").collect()
    return rows


def _ranges(runs: Iterable[Run]) -> Ranges:
    ranges: Ranges = {}
    for run in sorted(runs):
        its = ranges.setdefault(run.writer, [])
        if its and run.first <= its[-1][1] + 1:
            its[-1] = (its[-1][0], max(its[-1][1], run.last))
        else:
            its.append((run.first, run.last))
    return ranges


def _has(ranges: Ranges, key: Identity) -> bool:
    its = ranges.get(key[0], ())
    at = bisect_right(its, (key[1], 1 << 62)) - 1
    return at >= 0 and its[at][0] <= key[1] <= its[at][1]


def encode(derived: Iterable[Derived]) -> bytes:
    """Derived sends as a run keeps them: exports may be gone when it is asked again."""
    return canonical([list(astuple(its)) for each in derived for its in each.sends]) + b"\n"


def kept_by(out: Place, pointer: Pointer) -> bytes:
    """What the run of a pointer keeps; b"" where it is one of before."""
    name = f"inputs/period={pointer.period}/run={pointer.run}/{KEPT}"
    try:
        return out.read(name)
    except FileNotFoundError:
        return b""


def kept(out: Place, pointers: Iterable[Pointer]) -> dict[Identity, StoredSend]:
    """What the runs of these pointers keep, by identity."""
    found = (json.loads(kept_by(out, pointer) or b"[]") for pointer in pointers)
    return {(its[0], its[1]): StoredSend(*its) for each in found for its in each}


def said_of(stored: Stored, derived: Derived, *, is_short: bool) -> dict[str, Any]:
    """What a pointer says of it. `is_short`: functions have gaps."""
    return {
        "exports": stored.names,
        "exports_told": stored.told,
        "derived_sends": len(derived.sends),
        "stored_for_nobody": derived.of_nobody,
        "not_derived": is_short and stored.names is None,
    }


def lines_of(said: Mapping[str, Any]) -> list[str]:
    """What a pointer says of it, a line for each finding; nothing where it is one of before."""
    if "exports" not in said:
        return []
    lines = list(said["exports_told"])
    if count := said["derived_sends"]:
        lines.append(
            f"derived: {counted(count, 'send')} of functions"
            f" {verb(count, 'has no record; it is', 'have no record; they are')} stored"
        )
    if count := said["stored_for_nobody"]:
        lines.append(
            f"stored for nobody: {counted(count, 'send')}, to queues that no export defines"
        )
    if said["not_derived"]:
        lines.append("no exports: what functions sent in gaps is not looked for where it is stored")
    return lines
