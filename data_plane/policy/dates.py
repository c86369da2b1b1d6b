"""Points in time as policies and requests write them, in microseconds since the epoch.

Policies have dates of ISO 8601 in W3C's profile (`2030-01-31`, `2030-01-31T12:00Z`,
`2030-01-31T12:00:00.5+01:00`), or seconds since the epoch.
"""

import re
from functools import lru_cache
from typing import Final

_US_PER_S: Final = 1_000_000
_S_PER_DAY: Final = 86_400
_DAYS_PER_ERA: Final = 146_097
_DAYS_TO_1970: Final = 719_468
_REMEMBERED_MAX: Final = 1024
_MARCH: Final = 3
_MONTHS: Final = 12

_epoch_seconds: Final = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?", re.ASCII).fullmatch
_iso: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)"
    r"(?:T([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?"
    r"(?:Z|([+-])([01]\d|2[0-3]):?([0-5]\d)))?",
    re.ASCII,
).fullmatch


@lru_cache(maxsize=_REMEMBERED_MAX)
def read_date(text: str) -> int | None:
    """The point in time, or None for what is no date. A day without a time is its beginning."""
    seconds = _epoch_seconds(text)
    if seconds is not None:
        return int(seconds[1]) * _US_PER_S + _fraction_us(seconds[2])
    found = _iso(text)
    if found is None:
        return None
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    if not (1 <= month <= _MONTHS and 1 <= day <= _days_in(year, month)):
        return None
    at_s = _days(year, month, day) * _S_PER_DAY
    at_s += int(found[4] or 0) * 3600 + int(found[5] or 0) * 60 + int(found[6] or 0)
    if found[8]:
        offset_s = int(found[9]) * 3600 + int(found[10]) * 60
        at_s -= offset_s if found[8] == "+" else -offset_s
    return at_s * _US_PER_S + _fraction_us(found[7])


def date_text(time_us: int) -> str:
    """The second as ISO 8601 writes it, in UTC."""
    days, second = divmod(time_us // _US_PER_S, _S_PER_DAY)
    year, month, day = _date(days)
    clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{year:04}-{month:02}-{day:02}T{clock}Z"


def _fraction_us(digits: str | None) -> int:
    return int((digits or "")[:6].ljust(6, "0"))


def _days_in(year: int, month: int) -> int:
    following = (year + 1, 1) if month == _MONTHS else (year, month + 1)
    return _days(*following, 1) - _days(year, month, 1)


def _days(year: int, month: int, day: int) -> int:
    """Days since the epoch. A year begins in March here, so that a leap day is its last."""
    year -= month < _MARCH
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month - _MARCH) % _MONTHS) + 2) // 5 + day - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * _DAYS_PER_ERA + day_of_era - _DAYS_TO_1970


def _date(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since the epoch."""
    era, day_of_era = divmod(days + _DAYS_TO_1970, _DAYS_PER_ERA)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = (month + 2) % _MONTHS + 1
    return era * 400 + year_of_era + (month < _MARCH), month, day
