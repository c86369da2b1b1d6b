"""Numbers of things in English: one file is, two files are."""


def counted(count: int, one: str, many: str = "") -> str:
    """A count and its noun; `many` where that is not the noun with an s."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def verb(count: int, one: str = "is", many: str = "are") -> str:
    """The form of a verb that agrees with a count."""
    return one if count == 1 else many


def ranged(first: int, last: int, one: str) -> str:
    """Numbered things from the first to the last."""
    return f"{one} {first}" if first == last else f"{one}s {first} to {last}"
