"""Records as Parquet.

pyarrow is imported with the first file: a server that serves nobody has none of its memory.
"""

from collections.abc import Sequence
from functools import cache
from io import BytesIO
from typing import Any

from data_plane.usage.record import Record, columns_of


def encode(records: Sequence[Record]) -> bytes:
    """One file with these records, all of one kind; the same bytes for the same records."""
    import pyarrow as pa  # noqa: PLC0415 - see above
    from pyarrow import parquet  # noqa: PLC0415 - see above

    schema = schema_of(type(records[0]))
    columns = [
        pa.array([getattr(record, name) for record in records], type=schema.field(name).type)
        for name in schema.names
    ]
    file = BytesIO()
    parquet.write_table(
        pa.Table.from_arrays(columns, schema=schema),
        file,
        compression="zstd",
        row_group_size=len(records),
        store_schema=False,
    )
    return file.getvalue()


@cache
def schema_of(kind: type[Record]) -> Any:
    """The pyarrow schema of a kind of record."""
    import pyarrow as pa  # noqa: PLC0415 - see above

    types = {"string": pa.string(), "int64": pa.int64()}
    return pa.schema(
        [pa.field(name, types[column], nullable=False) for name, column in columns_of(kind)]
    )
