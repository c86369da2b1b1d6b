"""Writes an export of a cell as DynamoDB writes one to S3, so that one reader serves both.

    AWSDynamoDB/<export id>/manifest-summary.json, manifest-files.json, and a checksum of each
    AWSDynamoDB/<export id>/data/<name>.json.gz, an item in DynamoDB JSON on each line

What DynamoDB's manifests have is there under the same names. Beside that the summary has
`tidegate`, and each file its `sha256`.
"""

import gzip
import hashlib
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from data_plane.core.utc import utc_time
from data_plane.dynamodb.items import encode_item
from data_plane.ports import Item

ROOT: Final = "AWSDynamoDB"
FORMAT: Final = "DYNAMODB_JSON"
LAYOUT_VERSION: Final = "2020-06-30"
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of lines in a file, before compression."""

_LEVEL: Final = 6


class ExportedCell(NamedTuple):
    """What an export is of: the cell's name, and the moment in microseconds since the epoch.

    `cells` names all cells of a service that has several.
    """

    cell: str
    as_of_us: int
    cells: tuple[str, ...] = ()


class Export(NamedTuple):
    """An export that was written: where, and how much it is."""

    folder: Path
    items: int
    size_bytes: int


class ExportExistsError(Exception):
    """An export of this cell and moment is there already."""


def export_id(exported: ExportedCell) -> str:
    """As DynamoDB's: milliseconds, and eight digits more, which here follow from what it is of."""
    digest = hashlib.sha256(f"{exported.cell}|{exported.as_of_us}".encode()).hexdigest()
    return f"{exported.as_of_us // 1000:014d}-{digest[:8]}"


def write_export(root: Path, exported: ExportedCell, items: Iterable[Item], now_ms: int) -> Export:
    """Write a full export below `root`; it shows under its name when it is complete.

    `now_ms` is when it began. Equal items in equal order give equal files. Raises OSError,
    ExportExistsError.
    """
    name = export_id(exported)
    folder = root / ROOT / name
    if folder.exists():
        raise ExportExistsError(str(folder))
    unfinished = root / ROOT / f".{name}"
    (unfinished / "data").mkdir(parents=True, exist_ok=True)
    files: list[dict[str, Any]] = []
    size_bytes = 0
    rest = iter(items)
    for first in rest:
        file_name = hashlib.sha256(f"{name}/{len(files)}".encode()).hexdigest()[:26]
        path = f"data/{file_name}.json.gz"
        entry, read_bytes = _write_file(unfinished / path, chain((first,), rest))
        files.append(entry | {"dataFileS3Key": f"{ROOT}/{name}/{path}"})
        size_bytes += read_bytes
    _write_manifests(unfinished, name, exported, files, size_bytes, now_ms)
    unfinished.rename(folder)
    _sync(folder.parent)
    return Export(folder, sum(entry["itemCount"] for entry in files), size_bytes)


def _write_file(path: Path, items: Iterator[Item]) -> tuple[dict[str, Any], int]:
    """Lines of one file, as many as it takes: what the manifest says of it, and their bytes."""
    count = size_bytes = 0
    with path.open("wb") as raw:
        # Without a name and a time in it, equal lines give equal bytes.
        with gzip.GzipFile("", "wb", _LEVEL, raw, mtime=0) as lines:
            for key, attributes in items:
                line = msgspec.json.encode({"Item": encode_item(key, attributes)}) + b"\n"
                lines.write(line)
                count += 1
                size_bytes += len(line)
                if size_bytes >= FILE_BYTES_MAX:
                    break
        raw.flush()
        os.fsync(raw.fileno())
    stored = path.read_bytes()
    md5 = _md5(stored)
    sha256 = hashlib.sha256(stored).hexdigest()
    return {"itemCount": count, "md5Checksum": md5, "etag": md5, "sha256": sha256}, size_bytes


def _write_manifests(  # noqa: PLR0913, PLR0917 - what a manifest says
    folder: Path,
    name: str,
    exported: ExportedCell,
    files: list[dict[str, Any]],
    size_bytes: int,
    now_ms: int,
) -> None:
    arn = f"arn:aws:dynamodb:local:000000000000:table/{exported.cell}"
    summary = {
        "version": LAYOUT_VERSION,
        "exportArn": f"{arn}/export/{name}",
        "startTime": iso_time(now_ms),
        "endTime": iso_time(now_ms),
        "tableArn": arn,
        "tableId": "",
        "exportTime": iso_time(exported.as_of_us // 1000),
        "s3Bucket": "",
        "s3Prefix": "",
        "s3SseAlgorithm": "",
        "s3SseKmsKeyId": None,
        "manifestFilesS3Key": f"{ROOT}/{name}/manifest-files.json",
        "billedSizeBytes": size_bytes,
        "itemCount": sum(entry["itemCount"] for entry in files),
        "outputFormat": FORMAT,
        "exportType": "FULL_EXPORT",
        "tidegate": {
            "cell": exported.cell,
            "as_of_us": exported.as_of_us,
            **({"cells": exported.cells} if exported.cells else {}),
        },
    }
    lines = b"".join(msgspec.json.encode(entry) + b"\n" for entry in files)
    for stem, content in (
        ("manifest-files", lines),
        ("manifest-summary", msgspec.json.encode(summary) + b"\n"),
    ):
        (folder / f"{stem}.json").write_bytes(content)
        (folder / f"{stem}.checksum").write_text(_md5(content), encoding="ascii")
    _sync(folder)


def iso_time(time_ms: int) -> str:
    """A time as manifests have it."""
    at = utc_time(time_ms // 1000)
    day, clock = f"{at.year:04d}-{at.month:02d}-{at.day:02d}", at[3:]
    return f"{day}T{':'.join(f'{part:02d}' for part in clock)}.{time_ms % 1000:03d}Z"


def _md5(content: bytes) -> str:
    return b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _sync(folder: Path) -> None:
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)
