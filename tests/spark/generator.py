"""Usage places made up for tests and measurements, by the columns of docs/usage.md."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from glue_jobs.invoicing import first_hour
from glue_jobs.records import COLUMNS, SCHEMA, TEXTS

ARROW: Final = pa.schema(
    [
        pa.field(name, pa.string() if name in TEXTS else pa.int64(), nullable=False)
        for name in COLUMNS
    ]
)
PERIOD: Final = "2026-11"
MINUTE: Final = first_hour(PERIOD) * 60
"""The first of the period."""

RECORD: Final[Mapping[str, Any]] = {
    "schema": SCHEMA,
    "writer": "00112233445566aa",
    "number": 1,
    "minute": MINUTE,
    "account": "111122223333",
    "region": "eu-west-1",
    "queue": "orders",
    "operation": "SendMessage",
    "status": "2xx",
    "code": "",
    "requests": 1,
    "units": 1,
    "messages": 1,
    "bytes": 100,
    "failed_entries": 0,
}


def record(**changes: Any) -> dict[str, Any]:
    return {**RECORD, **changes}


def hour_folder(hour: int) -> str:
    at = np.datetime64(hour, "h").item()
    return f"records/date={at:%Y-%m-%d}/hour={at:%H}"


def put_table(place: Path, folder: str, table: pa.Table) -> Path:
    content = io.BytesIO()
    pq.write_table(table, content, compression="zstd", row_group_size=max(1, table.num_rows))
    path = place / folder / f"{sha256(content.getvalue()).hexdigest()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.getvalue())
    return path


def put_records(place: Path, rows: Iterable[Mapping[str, Any]]) -> list[Path]:
    """Put records as front ends do: a file for each hour, rows by writer and number.

    Writers without a mark get one, of a server that has ended.
    """
    hours: dict[int, list[Mapping[str, Any]]] = {}
    told = sorted(rows, key=lambda row: (row["writer"], row["number"]))
    for row in told:
        hours.setdefault(row["minute"] // 60, []).append(row)
    for writer, its in groupby(told, itemgetter("writer")):
        _mark(place, writer, list(its))
    return [
        put_table(place, hour_folder(hour), pa.Table.from_pylist(list(its), schema=ARROW))
        for hour, its in sorted(hours.items())
    ]


def _mark(place: Path, writer: str, rows: Sequence[Mapping[str, Any]]) -> None:
    found = [*(place / "writers").rglob(f"{writer}.json")]
    mark = json.loads(found[0].read_text()) if found else {}
    if found and "made_up" not in mark:
        return
    minutes = [row["minute"] for row in rows]
    numbers = [row["number"] for row in rows]
    if mark:
        minutes += [mark["opened"], mark["complete_to"]]
        numbers.append(mark["records"])
    its: dict[str, Any] = {"opened": min(minutes), "complete_to": max(minutes)}
    put_mark(place, writer, records=max(numbers), made_up=True, **its)


def put_mark(place: Path, writer: str, day: str = "", **changes: Any) -> None:
    """Put a mark; `day` is that on which a sandbox opened."""
    mark = {
        "schema": "tidegate.writer/1",
        "writer": writer,
        "kind": "server",
        "opened": MINUTE,
        "after": "",
        "complete_to": MINUTE + 1,
        "records": 1,
        "access": 0,
        "closed": True,
    }
    path = place / "writers" / (f"date={day}" if day else "") / f"{writer}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    (place / "writers" / f"{writer}.json").unlink(missing_ok=True)
    path.write_text(json.dumps({**mark, **changes}))


@dataclass(frozen=True, slots=True)
class Load:
    """How much is generated: `rows` records over `hours`, of so many writers, accounts, queues.

    The first account has `share` of all rows; a part `again` of the files is there twice, in
    another grouping, as a log that is delivered twice brings them.
    """

    rows: int
    hours: int = 40
    writers: int = 64
    accounts: int = 300
    queues: int = 1_000
    share: float = 0.0
    again: float = 0.02
    seed: int = 8


_OPERATIONS: Final = (
    *("SendMessage", "ReceiveMessage", "DeleteMessage", "SendMessageBatch"),
    *("DeleteMessageBatch", "ChangeMessageVisibility", "GetQueueAttributes"),
)
_OF_OPERATIONS: Final = (0.25, 0.34, 0.2, 0.08, 0.07, 0.04, 0.02)


def generate(place: Path, load: Load) -> int:
    """Fill a usage place; how many rows its files have, copies among them."""
    random = np.random.default_rng(load.seed)
    queues = _queues(load)
    each = load.rows // load.hours
    written, numbers = 0, np.ones(load.writers, dtype=np.int64)
    for hour in range(load.hours):
        table, numbers = _hour(random, load, queues, first_hour(PERIOD) + hour, each, numbers)
        folder = hour_folder(first_hour(PERIOD) + hour)
        put_table(place, folder, table)
        written += each
        copied = int(each * load.again)
        if copied:
            start = int(random.integers(0, each - copied))
            put_table(place, folder, table.slice(start, copied))
            written += copied
    start = first_hour(PERIOD) * 60
    for writer, after in enumerate(numbers):
        its: dict[str, Any] = {
            "opened": start,
            "complete_to": start + load.hours * 60,
            "records": int(after) - 1,
        }
        put_mark(place, f"{writer:016x}", **its)
    return written


def _queues(load: Load) -> Sequence[tuple[str, str]]:
    """Accounts and names of queues, the first account's first."""
    return [
        (
            f"{100_000_000_000 + number % load.accounts}",
            f"queue-{number}{'.fifo' * (number % 5 == 0)}",
        )
        for number in range(load.queues)
    ]


def _hour(  # noqa: PLR0913, PLR0917 - what an hour is made from
    random: Any,
    load: Load,
    queues: Sequence[tuple[str, str]],
    hour: int,
    rows: int,
    numbers: Any,
) -> tuple[pa.Table, Any]:
    weights = 1 / np.arange(1, load.queues + 1) ** 0.9
    if load.share:
        first = np.array([number % load.accounts == 0 for number in range(load.queues)])
        weights[first] *= load.share / weights[first].sum()
        weights[~first] *= (1 - load.share) / weights[~first].sum()
    queue = random.choice(load.queues, rows, p=weights / weights.sum())
    operation = random.choice(len(_OPERATIONS), rows, p=_OF_OPERATIONS)
    writer = np.sort(random.integers(0, load.writers, rows))
    counts = np.bincount(writer, minlength=load.writers)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    number = np.arange(rows) - starts[writer] + numbers[writer]
    # Within a writer's hour minutes only grow.
    minute = (np.arange(rows) - starts[writer]) * 60 // np.maximum(counts[writer], 1) + hour * 60
    requests = random.integers(1, 40, rows)
    outcome = random.choice(3, rows, p=(0.97, 0.02, 0.01))
    empty = (operation == 1) & (random.random(rows) < 0.4)
    messages = np.where(empty | (outcome > 0), 0, requests * random.integers(1, 4, rows))
    size = messages * random.integers(50, 80_000, rows)
    units = np.maximum(requests, -(-size // 65_536))
    texts = {
        "schema": ([SCHEMA], np.zeros(rows, dtype=np.int32)),
        "writer": ([f"{number:016x}" for number in range(load.writers)], writer),
        "account": ([account for account, _ in queues], queue),
        "region": (["eu-west-1"], np.zeros(rows, dtype=np.int32)),
        "queue": ([name for _, name in queues], queue),
        "operation": (list(_OPERATIONS), operation),
        "status": (["2xx", "4xx", "5xx"], outcome),
        "code": (["", "RequestThrottled", "InternalError"], outcome),
    }
    columns: dict[str, Any] = {
        name: pa.DictionaryArray.from_arrays(codes.astype(np.int32), values).cast(pa.string())
        for name, (values, codes) in texts.items()
    }
    columns |= {"number": number, "minute": minute, "requests": requests, "units": units}
    columns |= {
        "messages": messages,
        "bytes": size,
        "failed_entries": np.zeros(rows, dtype=np.int64),
    }
    table = pa.table([columns[name] for name in COLUMNS], schema=ARROW)
    return table, numbers + counts
