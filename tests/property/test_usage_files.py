"""Files of usage records, beside pyarrow: it reads what is written, and what it writes is read."""

from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from data_plane.usage.parquet import decode, encode
from data_plane.usage.record import AccessRecord, Record, UsageRecord, columns_of

INT64_MAX = (1 << 63) - 1
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COUNTS = st.integers(0, INT64_MAX)
NUMBERS = st.integers(1, INT64_MAX)
WRITERS = st.sampled_from(["0011223344556677", "8899aabbccddeeff"])
ACCOUNTS = st.sampled_from(["", "000000000000", "111122223333"])
STATUSES = st.sampled_from(["2xx", "3xx", "4xx", "5xx"])

USAGE = st.builds(
    UsageRecord,
    schema=st.just("tidegate.usage/1"),
    writer=WRITERS,
    number=NUMBERS,
    minute=COUNTS,
    account=ACCOUNTS,
    region=TEXTS,
    queue=TEXTS,
    operation=TEXTS,
    status=STATUSES,
    code=TEXTS,
    requests=COUNTS,
    units=COUNTS,
    messages=COUNTS,
    bytes=COUNTS,
    failed_entries=COUNTS,
)
ACCESS = st.builds(
    AccessRecord,
    schema=st.just("tidegate.access/1"),
    writer=WRITERS,
    number=NUMBERS,
    minute=COUNTS,
    account=ACCOUNTS,
    principal=TEXTS,
    access_key_id=TEXTS,
    client=TEXTS,
    region=TEXTS,
    queue=TEXTS,
    operation=TEXTS,
    status=STATUSES,
    code=TEXTS,
    requests=NUMBERS,
)
FILES = st.lists(USAGE, min_size=1, max_size=40)


def schema(kind: type[Record]) -> Any:
    types = {"string": pa.string(), "int64": pa.int64()}
    return pa.schema([pa.field(n, types[t], nullable=False) for n, t in columns_of(kind)])


def rows(records: list[Any]) -> list[dict[str, Any]]:
    return [{name: getattr(one, name) for name, _ in columns_of(type(one))} for one in records]


def written_by_arrow(records: list[UsageRecord], **options: Any) -> bytes:
    file = BytesIO()
    table = pa.Table.from_pylist(rows(records), schema=schema(UsageRecord))
    how = {"compression": "zstd", "store_schema": False} | options
    parquet.write_table(table, file, **how)
    return file.getvalue()


@given(st.one_of(FILES, st.lists(ACCESS, min_size=1, max_size=40)))
def test_arrow_reads_what_is_written(records: list[Any]) -> None:
    file = parquet.ParquetFile(BytesIO(encode(records)))
    assert file.schema_arrow.equals(schema(type(records[0])))
    assert file.read().to_pylist() == rows(records)
    assert encode(list(records)) == encode(records)


@given(FILES)
def test_what_is_written_is_read(records: list[UsageRecord]) -> None:
    assert decode(encode(records)) == records


@given(
    FILES,
    st.sampled_from(
        [
            {},
            {"use_dictionary": False},
            {"compression": "none"},
            {"row_group_size": 7},
            {"data_page_size": 16, "write_batch_size": 3},
            {"dictionary_pagesize_limit": 16, "write_batch_size": 3},
            {"use_dictionary": ["schema", "queue"], "store_schema": True},
        ]
    ),
)
def test_what_arrow_writes_is_read(records: list[UsageRecord], options: dict[str, Any]) -> None:
    assert decode(written_by_arrow(records, **options)) == records


@given(FILES, st.integers(0, 10_000), st.integers(1, 255))
def test_changed_bytes_are_refused_or_read_but_fail_in_no_other_way(
    records: list[UsageRecord], at: int, change: int
) -> None:
    for content in (encode(records), written_by_arrow(records)):
        at %= len(content)
        changed = content[:at] + bytes([content[at] ^ change]) + content[at + 1 :]
        for broken in (changed, content[:at]):
            try:
                decode(broken)
            except ValueError:
                continue


@given(st.binary(max_size=200))
def test_other_bytes_are_no_records(content: bytes) -> None:
    for tried in (content, b"PAR1" + content + b"PAR1"):
        with pytest.raises(ValueError, match="no file of records"):
            decode(tried)


def test_many_rows_and_long_runs_are_read() -> None:
    one = UsageRecord(
        "tidegate.usage/1", "0011223344556677", 1, 29_000_000, "000000000000", "us-east-1",
        "orders", "SendMessage", "2xx", "", 1, 1, 1, 1, 0,
    )  # fmt: skip
    records = [
        UsageRecord(**{**rows([one])[0], "number": number, "queue": f"q{number % 300}"})
        for number in range(1, 5_001)
    ]
    assert decode(written_by_arrow(records)) == records
    assert decode(encode(records)) == records


def test_columns_that_are_optional_or_missing_are_refused() -> None:
    table = pa.table({"schema": pa.array(["tidegate.usage/1"])})
    file = BytesIO()
    parquet.write_table(table, file, compression="zstd")
    with pytest.raises(ValueError, match="a column is optional"):
        decode(file.getvalue())
