"""The formats that the planes write are those that the jobs read."""

from data_plane.usage import record
from glue_jobs import records


def test_jobs_and_front_ends_mean_the_same_columns() -> None:
    assert record.UsageRecord.__struct_fields__ == records.COLUMNS
    assert (record.SCHEMA, record.MARK_SCHEMA) == (records.SCHEMA, records.MARK_SCHEMA)
    assert record.NAME_CHARS_MAX == records.TEXT_CHARS_MAX
    assert frozenset(record.STATUS_CLASSES) == records.STATUSES
