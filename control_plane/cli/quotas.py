"""Quotas as the command line spells them."""

from collections.abc import Iterable

import click


def read_quotas(texts: Iterable[str]) -> dict[str, int]:
    """The numbers of texts of the form NAME=NUMBER. Raises click.BadParameter."""
    quotas: dict[str, int] = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not name or not number.isascii() or not number.isdigit():
            raise click.BadParameter(f"{text!r} is not NAME=NUMBER")
        quotas[name] = int(number)
    return quotas
