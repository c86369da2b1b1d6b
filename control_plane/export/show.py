"""What an export holds, for a person to read.

dynamodb-json makes plain values of DynamoDB's typed ones. It is for eyes alone: it guesses at
what texts mean and makes floats of decimals (docs/audit.md; the tests state what it does).
"""

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from dynamodb_json import json_util

from control_plane.export.layout import FORMAT, ROOT

SUMMARY: Final = "manifest-summary.json"
FILES: Final = "manifest-files.json"
_IMAGES: Final = ("Item", "NewImage", "OldImage", "Keys")


class ShowError(Exception):
    """The folder holds no export, or a damaged one; the message is one line."""


def shown_lines(folder: Path, partition: str, limit: int) -> Iterator[str]:
    """Up to `limit` items of an export whose partition begins so, as JSON. Raises ShowError."""
    summary = _json_of(folder / SUMMARY)
    if summary.get("outputFormat") != FORMAT:
        raise ShowError(f"{folder / SUMMARY}: the output format is not {FORMAT}")
    return islice(_lines(folder, partition), limit)


def _json_of(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ShowError(f"{path}: {error}") from error
    if not isinstance(found, dict):
        raise ShowError(f"{path}: it is no JSON object")
    return found


def _lines(folder: Path, partition: str) -> Iterator[str]:
    for path in data_files(folder):
        try:
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    if _partition_of(json.loads(line)).startswith(partition):
                        yield json.dumps(plain(line), ensure_ascii=False, default=_plain_value)
        except (OSError, EOFError, ValueError) as error:
            raise ShowError(f"{path}: {error}") from error


def data_files(folder: Path) -> Iterator[Path]:
    """The files that the manifest of an export names, wherever the export was copied to."""
    root = folder.resolve()
    while root.name and root.name != ROOT:
        root = root.parent
    for line in (folder / FILES).read_text(encoding="utf-8").splitlines():
        key = str(json.loads(line)["dataFileS3Key"])
        # What stands before the folder is the prefix that the export had in its bucket.
        yield root.parent / key[key.index(f"{ROOT}/") :]


def _partition_of(line: dict[str, Any]) -> str:
    image: dict[str, Any] = next((line[name] for name in _IMAGES if line.get(name)), {})
    return str(image.get("pk", {}).get("S", ""))


def plain(line: str) -> Any:
    """A line of DynamoDB JSON in plain values, as near as dynamodb-json comes to them."""
    return json_util.loads(line)


def _plain_value(value: object) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value, key=lambda member: (len(str(member)), str(member)))
    return str(value)
