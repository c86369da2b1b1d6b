"""Points in time as policies and requests write them, in microseconds since the epoch.

Policies have dates of ISO 8601 in W3C's profile (`2030-01-31`, `2030-01-31T12:00Z`,
`2030-01-31T12:00:00.5+01:00`), or seconds since the epoch.
"""

import re
from calendar import monthrange, timegm
from functools import lru_cache
from typing import Final

from data_plane.core.utc import utc_time

_US_PER_S: Final = 1_000_000
_REMEMBERED_MAX: Final = 1024
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
    if not (year and 1 <= month <= _MONTHS and 1 <= day <= monthrange(year, month)[1]):
        return None
    clock = (int(found[4] or 0), int(found[5] or 0), int(found[6] or 0))
    at_s = timegm((year, month, day, *clock))
    if found[8]:
        offset_s = int(found[9]) * 3600 + int(found[10]) * 60
        at_s -= offset_s if found[8] == "+" else -offset_s
    return at_s * _US_PER_S + _fraction_us(found[7])


def date_text(time_us: int) -> str:
    """The second as ISO 8601 writes it, in UTC."""
    year, month, day, hour, minute, second = utc_time(time_us // _US_PER_S)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"


def _fraction_us(digits: str | None) -> int:
    return int((digits or "")[:6].ljust(6, "0"))
