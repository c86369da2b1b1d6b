"""The fields of a point in time in UTC, for texts: core code has no clock of its own."""

from typing import Final, NamedTuple

_DAY_S: Final = 86_400
_ERA_DAYS: Final = 146_097
_DAYS_TO_1970: Final = 719_468
_JANUARY: Final = 10


class UtcTime(NamedTuple):
    """A second of the Gregorian calendar."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int


def utc_time(time_s: int) -> UtcTime:
    """The fields of seconds since the epoch.

    The calendar is counted in eras of 400 years that begin in March, so that leap days come last.
    """
    days, second = divmod(time_s, _DAY_S)
    era, day_of_era = divmod(days + _DAYS_TO_1970, _ERA_DAYS)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    months = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * months + 2) // 5 + 1
    in_next_year = months >= _JANUARY
    return UtcTime(
        year + 400 * era + in_next_year,
        months - 9 if in_next_year else months + 3,
        day,
        second // 3600,
        second // 60 % 60,
        second % 60,
    )
