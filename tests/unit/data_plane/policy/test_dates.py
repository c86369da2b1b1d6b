from datetime import UTC, datetime, timedelta

import pytest

from data_plane.policy.dates import date_text, read_date

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("days", range(-60_000, 400_000, 4_999))
def test_dates_are_those_of_the_calendar(days: int) -> None:
    at = EPOCH + timedelta(days=days, seconds=days % 86_400)
    text = at.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
    time_us = (at - EPOCH) // timedelta(microseconds=1)
    assert read_date(text) == time_us
    assert date_text(time_us) == text


@pytest.mark.parametrize(
    ("text", "time_us"),
    [
        ("0", 0),
        ("1.5", 1_500_000),
        ("1970-01-02", 86_400_000_000),
        ("1970-01-01T00:01Z", 60_000_000),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T19:30:00-0430", 0),
    ],
)
def test_forms_of_dates(text: str, time_us: int) -> None:
    assert read_date(text) == time_us


@pytest.mark.parametrize(
    "text",
    [
        *("", "-1", "1.", "1970-01", "1970-1-1", "1970-13-01", "1970-02-29", "1970-01-00"),
        *("1970-01-01T00:00:00", "1970-01-01 00:00:00Z", "1970-01-01T00:60Z", "1970-01-01T24:00Z"),
        "\N{ARABIC-INDIC DIGIT THREE}",
    ],
)
def test_what_is_no_date(text: str) -> None:
    assert read_date(text) is None
