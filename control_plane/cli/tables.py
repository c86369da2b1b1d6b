"""Rows of texts and numbers, as aligned lines for people or as JSON for programs."""

import json
from collections.abc import Iterable, Sequence
from typing import Final

import click

Cell = str | float | list[str] | None
"""What a table shows of a thing; None: there is none."""

NOTHING: Final = "-"

json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON array of objects, for programs."
)


def lines(rows: Sequence[Sequence[str]], *, numbers: bool = False) -> Iterable[str]:
    """A line for each row; with `numbers` all but the first column stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *others in rows:
        sides = zip(others, widths[1:], strict=True)
        cells = [cell.rjust(width) if numbers else cell.ljust(width) for cell, width in sides]
        yield "  ".join([first.ljust(widths[0]), *cells]).rstrip()


def tell(
    columns: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    as_json: bool,
    numbers: bool = False,
) -> None:
    """Print rows under their columns, or as JSON, where IN FLIGHT is called `in_flight`."""
    if not as_json:
        shown = [list(map(_shown, row)) for row in rows]
        for line in lines([columns, *shown], numbers=numbers):
            click.echo(line)
        return
    names = [column.lower().replace(" ", "_") for column in columns]
    click.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows], indent=2))


def _shown(cell: Cell) -> str:
    if cell is None:
        return NOTHING
    return ", ".join(cell) if isinstance(cell, list) else str(cell)


def printable(text: str, chars_max: int) -> str:
    """The beginning of a text, in one line, without what a terminal would act upon."""
    shown = text if len(text) <= chars_max else text[: chars_max - 1] + "…"
    return "".join(character if character.isprintable() else "·" for character in shown)
