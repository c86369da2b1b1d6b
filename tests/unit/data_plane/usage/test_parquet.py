from hashlib import sha256
from io import BytesIO

from pyarrow import parquet

from data_plane.usage.place import objects_of
from data_plane.usage.record import AccessRecord, UsageRecord, columns_of
from data_plane.usage.totals import Counting
from tests.unit.data_plane.http.test_metrics import served

HOUR_US = 3_600_000_000


def records() -> list[UsageRecord]:
    counting = Counting(())
    for queue, hour in (("b", 0), ("a", 0), ("a", 25)):
        counting.served(served("ReceiveMessage", queue=queue, finished_us=hour * HOUR_US))
    return list(counting.take().records("0011223344556677", 5))


def test_objects_are_named_by_hour_and_content() -> None:
    objects = objects_of(records())
    assert objects == objects_of(records())
    assert [name.rpartition("/")[0] for name, _ in objects] == [
        "records/date=1970-01-01/hour=00",
        "records/date=1970-01-02/hour=01",
    ]
    for name, content in objects:
        assert name.endswith(f"/{sha256(content).hexdigest()}.parquet")


def test_a_file_is_as_the_contract_says() -> None:
    file = parquet.ParquetFile(BytesIO(objects_of(records())[0][1]))
    assert file.num_row_groups == 1
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    columns = [(field.name, str(field.type)) for field in file.schema_arrow]
    assert columns == columns_of(UsageRecord)
    assert not any(field.nullable for field in file.schema_arrow)
    rows = file.read().to_pylist()
    assert [(row["number"], row["queue"]) for row in rows] == [(5, "a"), (6, "b")]


def test_columns_are_text_or_integers() -> None:
    numbers = [name for name, kind in columns_of(UsageRecord) if kind == "int64"]
    assert numbers == [
        *("number", "minute", "requests", "units", "messages", "bytes", "failed_entries")
    ]
    assert columns_of(AccessRecord)[-1] == ("requests", "int64")
    assert columns_of(AccessRecord)[5] == ("principal", "string")
