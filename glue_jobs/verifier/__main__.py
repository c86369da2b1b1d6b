"""The program: a line for whatever is not as the digests say, notes, and the head.

Exit codes: 0: all is well; 1: something is not; 2: something could not be looked at.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from .chain import Known, chain_of, exit_code, findings
from .digests import is_hour
from .folder import Folder
from .keys import key_in


def main(argv: list[str]) -> int:
    """Verify a folder; the exit code."""
    parser = argparse.ArgumentParser(
        prog="verifier", description="Verify a folder against its chain of digests."
    )
    parser.add_argument("folder", type=Path)
    present = "{:04}-{:02}-{:02}T{:02}".format(*time.gmtime())
    several: dict[str, Any] = {"type": Path, "action": "append", "default": []}
    parser.add_argument("--key", **several, help="a public key, PEM; repeatable")
    parser.add_argument(
        "--anchor", **several, help="file, or folder, of anchored heads; repeatable"
    )
    parser.add_argument("--head", default="", help="hash of a digest that was kept elsewhere")
    parser.add_argument("--as-of", default=present, help="hour of the look, UTC: %(default)s")
    parser.add_argument("--open", action="store_true", help="allow objects newer than all digests")
    options = parser.parse_args(argv)
    try:
        if not options.folder.is_dir():
            raise ValueError(f"there is no folder {options.folder}")
        if not is_hour(options.as_of):
            raise ValueError(f"--as-of: {options.as_of!r} is not of the form YYYY-MM-DDTHH")
        keys = [key_in(path) for path in options.key]
        anchored = [line for path in options.anchor for line in _lines(path)]
    except (OSError, ValueError) as error:
        print(f"verifier: {error}", file=sys.stderr)  # noqa: T201 - this is a program
        return 2
    lines = anchored if options.anchor else None
    known = Known(keys, lines, options.head, options.as_of, options.open)
    try:
        return _tell(Folder(options.folder), known)
    except OSError as error:
        print(f"verifier: {error}", file=sys.stderr)  # noqa: T201 - as above
        return 2


def _tell(tree: Folder, known: Known) -> int:
    found = []
    for line in findings(tree, known):
        print(line)  # noqa: T201 - as above
        found.append(line)
    if chain := chain_of(tree, tree.names())[0]:
        print(f"head: {chain[-1].hash} {chain[-1].number} {chain[-1].hour}")  # noqa: T201 - as above
    return exit_code(found)


def _lines(anchor: Path) -> list[bytes]:
    """Heads in a file, or in the files of a folder."""
    files = sorted(anchor.glob("**/*.json")) if anchor.is_dir() else [anchor]
    return [line for file in files for line in file.read_bytes().splitlines(keepends=True)]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
