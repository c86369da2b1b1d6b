"""Usage places made by hand: objects of records and of access records, and marks."""

import hashlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from glue_jobs.records import MARK_SCHEMA, MARKS, USAGE, Kind

MINUTES_PER_DAY = 1440


def write_records(
    root: Path, rows: Iterable[dict[str, Any]], kind: Kind = USAGE, name: str = ""
) -> Path:
    """Write an object as front ends do, in the hour of its first row; where it is."""
    told = list(rows)
    integer = [pa.int64() if its in kind.numbers_min else pa.string() for its in kind.columns]
    fields = [
        pa.field(its, of, nullable=False) for its, of in zip(kind.columns, integer, strict=True)
    ]
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(told, schema=pa.schema(fields)), file, compression="zstd")
    digest = hashlib.sha256(file.getvalue()).hexdigest()
    minute = told[0]["minute"]
    day = str(pa.scalar(minute // MINUTES_PER_DAY, pa.int32()).cast(pa.date32()))
    folder = root / kind.folder / f"date={day}/hour={minute // 60 % 24:02d}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name or f"{digest}.parquet")
    path.write_bytes(file.getvalue())
    return path


def write_mark(root: Path, writer: str, day: str = "", **its: Any) -> Path:
    """Write a writer's mark: of a server that was stopped, unless `its` say otherwise.

    `day` is that on which a sandbox opened.
    """
    mark = {"schema": MARK_SCHEMA, "writer": writer, "kind": "server", "opened": 0, "after": ""}
    mark |= {"complete_to": 0, "records": 0, "access": 0, "closed": True}
    path = root / MARKS / (f"date={day}" if day else "") / f"{writer}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(mark | its))
    return path
