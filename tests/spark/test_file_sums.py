"""Sums of a file, held to a naive sum of its rows."""

from random import Random

import pyarrow as pa

from glue_jobs.file_sums import sums_of
from glue_jobs.records import SUMS
from glue_jobs.usage import KEYS
from tests.spark.generator import ARROW, MINUTE, record


def test_sums_are_those_of_the_rows() -> None:
    random = Random(8)
    rows = [
        record(
            number=number,
            minute=MINUTE + random.randrange(60),
            account=random.choice(("111122223333", "")),
            queue=random.choice(("a", "b")),
            operation=random.choice(("ReceiveMessage", "SendMessage")),
            status=random.choice(("2xx", "4xx")),
            requests=random.randrange(1, 9),
            messages=random.choice((0, 0, 7)),
            bytes=random.randrange(2**40),
        )
        for number in range(1, 500)
    ]
    expected: dict[tuple[object, ...], list[int]] = {}
    for row in rows:
        key = (row["minute"] // 60, *(row[name] for name in KEYS[1:]))
        sums = expected.setdefault(key, [0] * len(SUMS))
        empty = row["operation"] == "ReceiveMessage" and row["status"] == "2xx"
        empty = empty and not row["messages"]
        added = {**row, "records": 1, "empty_receives": row["requests"] if empty else 0}
        for place, name in enumerate(SUMS):
            sums[place] += added[name]
    table = pa.Table.from_pylist(rows, schema=ARROW)
    for name in ("operation", "status", "queue"):
        place = table.column_names.index(name)
        table = table.set_column(place, name, table.column(name).dictionary_encode())
    found = {
        tuple(row[name] for name in KEYS): [row[name] for name in SUMS]
        for row in sums_of(table).to_pylist()
    }
    assert found == expected
