"""What options of a stage must be like, and how a wrong one is told."""

import re
from typing import Final

ACCOUNT: Final = re.compile(r"[0-9]{12}")
QUEUE: Final = re.compile(r"[A-Za-z0-9_-]{1,75}(\.fifo)?|[A-Za-z0-9_-]{1,80}")


class OptionError(ValueError):
    """An option has a wrong value; the message is one line that names the option."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"{option}: {reason}")
        self.option = option
        self.reason = reason


def match(option: str, value: str, pattern: re.Pattern[str], reason: str) -> None:
    """The whole value is of the pattern. Raises OptionError."""
    if pattern.fullmatch(value) is None:
        raise OptionError(option, f"{value!r} is {reason}")


def within(option: str, value: int, lowest: int, highest: int) -> None:
    """It is one of these, or in between. Raises OptionError."""
    if not lowest <= value <= highest:
        raise OptionError(option, f"{value} is not within {lowest} and {highest}")


def once(option: str, values: list[str]) -> None:
    """No value is there twice. Raises OptionError."""
    for value in values:
        if values.count(value) > 1:
            raise OptionError(option, f"{value or 'all others'!r} is there twice")


def one_of(option: str, value: str | int, known: tuple[str, ...] | tuple[int, ...]) -> None:
    """It is one of these. Raises OptionError."""
    if value not in known:
        raise OptionError(option, f"{value!r} is none of {', '.join(map(str, known))}")
