"""What producers and consumers are made with: a mistake shows then, by the option's name."""


def check_whole(name: str, value: object, least: int, most: int | None = None) -> None:
    """Raises TypeError, ValueError."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is a whole number, not {value!r}")
    if most is None and value < least:
        raise ValueError(f"{name} is {least} or more, not {value}")
    if most is not None and not least <= value <= most:
        raise ValueError(f"{name} is from {least} to {most}, not {value}")


def check_seconds(name: str, value: object) -> float:
    """The seconds. Raises TypeError, ValueError."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} is a number of seconds, not {value!r}")
    if not value >= 0:  # Nor is what is no number, nan.
        raise ValueError(f"{name} is a number of seconds, 0 or more, not {value}")
    return value


def check_timeout(value: object) -> None:
    """None is without one. Raises TypeError, ValueError."""
    if value is not None:
        check_seconds("timeout_s", value)


def check_text(name: str, value: object) -> None:
    """Raises TypeError, ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {value!r}")
    if not value:
        raise ValueError(f"{name} is empty")
