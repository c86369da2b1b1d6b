"""The formats that the planes write are those that the jobs read."""

import msgspec

from data_plane.usage import record
from data_plane.usage.sent import writer_of
from data_plane.usage.sent_reading import DeskMinute
from glue_jobs import records

DESK = bytes(range(6))
MINUTE = 29_833_333


def test_jobs_and_front_ends_mean_the_same_columns() -> None:
    assert record.UsageRecord.__struct_fields__ == records.COLUMNS
    assert (record.SCHEMA, record.MARK_SCHEMA) == (records.SCHEMA, records.MARK_SCHEMA)
    assert record.NAME_CHARS_MAX == records.TEXT_CHARS_MAX
    assert frozenset(record.STATUS_CLASSES) == records.STATUSES
    assert record.priced_as("GetRecords", "long-term") == f"GetRecords{records.KIND}long-term"


def test_a_minute_of_a_desk_is_named_as_servers_name_it() -> None:
    """By this name others make the same records: it stays."""
    name = writer_of(DeskMinute(MINUTE, DESK))
    assert records.minute_writer(DESK.hex(), MINUTE) == name == "4c8d02a98e984f44"


def test_marks_say_whose_minutes_are_writers() -> None:
    desks = f"{'f' * 12} {DESK.hex()}"
    told = record.Mark(record.MARK_SCHEMA, "0" * 16, "server", 1, "", 2, 3, 0, True, desks)  # noqa: FBT003
    mark = records.read_mark(msgspec.json.encode(told))
    assert mark.wrote_in(MINUTE, "4c8d02a98e984f44")
    assert not mark.wrote_in(MINUTE + 1, "4c8d02a98e984f44")


def test_marks_of_before_have_no_desks() -> None:
    told = record.Mark(record.MARK_SCHEMA, "0" * 16, "server", 1, "", 2, 3, 0, True)  # noqa: FBT003
    said = msgspec.to_builtins(told)
    del said["desks"]
    assert records.read_mark(msgspec.json.encode(said)).desks == ""
