"""Arguments of jobs, read in one place: as Glue hands them over, or from a command line."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

GLUE: Final = "awsglue"


class JobError(Exception):
    """A job cannot go on; the message is one line that says why, and names what is wrong."""


def json_of(text: bytes) -> Any:
    """What a file says that is named by an argument. Raises ValueError that says it is no JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is no JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class Argument:
    """A job's argument, given as `--name value`; one without a `default` is required.

    Names are of letters and underscores: what stands before the value in Glue's own form, too.
    """

    name: str
    help: str
    default: str | None = None


def read(known: Sequence[Argument], argv: Sequence[str]) -> dict[str, str]:
    """The value of each argument, from what stands after the program's name.

    Glue adds arguments of its own, which are passed over; on a command line an unknown one ends
    the program with argparse's line and code 2. Raises JobError where Glue was given too few.
    """
    if find_spec(GLUE) is not None:
        return _by_glue(known, argv)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for argument in known:
        parser.add_argument(
            f"--{argument.name}",
            help=argument.help,
            default=argument.default,
            required=argument.default is None,
        )
    return dict(vars(parser.parse_args(argv)))


def _by_glue(known: Sequence[Argument], argv: Sequence[str]) -> dict[str, str]:
    given = [name for argument in known if f"--{(name := argument.name)}" in _names(argv)]
    missing = [its.name for its in known if its.default is None and its.name not in given]
    if missing:
        raise JobError(f"--{missing[0]}: the job needs this argument")
    resolve = import_module(f"{GLUE}.utils").getResolvedOptions
    values = resolve(["job", *argv], given)
    return {its.name: str(values.get(its.name, its.default)) for its in known}


def _names(argv: Sequence[str]) -> set[str]:
    return {argument.partition("=")[0] for argument in argv}
