"""Rows of texts as aligned lines."""

from collections.abc import Iterable, Sequence


def lines(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> Iterable[str]:
    """A line for each row; with `numbers` all but the first column stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        sides = zip(others, widths[1:], strict=True)
        cells = [cell.rjust(width) if numbers else cell.ljust(width) for cell, width in sides]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()
