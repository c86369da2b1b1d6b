"""Cells as exports have them, made by hand: what a test plants in them nobody else wrote."""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

MINUTE_US = 60_000_000
T0_US = 29_900_000 * MINUTE_US
"""When the cells of tests begin."""

ACCOUNT, REGION = "123456789012", "us-east-1"
RETENTION_S = 345_600

Typed = dict[str, dict[str, Any]]
Value = int | str | bytes | set[int]


def _typed(value: Value) -> dict[str, Any]:
    match value:
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": base64.b64encode(value).decode()}
        case set():
            return {"NS": [str(member) for member in sorted(value)]}


def _messages(at_us: int, block: int | bytes, first: int, count: int) -> dict[str, Value]:
    its: dict[str, Value] = {"v": 1, "k": "s", "t": at_us, "b": block}
    # Each message was a call of its own.
    return {**its, "i": first, "n": count, "y": 10 * count, "r": count, "p": count}


def be64(number: int) -> bytes:
    return number.to_bytes(8, "big")


@dataclass
class Cell:
    """Items by their keys, as a cell stores them."""

    items: dict[tuple[str, bytes], dict[str, Value]] = field(default_factory=dict)

    def put(self, partition: str, sort: bytes, **attributes: Value) -> None:
        self.items[partition, sort] = {"v": 1, **attributes}

    def queue(self, name: str, uid: str, purged_us: int = 0, **attributes: str) -> None:
        self.put(
            f"Q|{ACCOUNT}|{REGION}",
            name.encode(),
            k="q",
            u=uid,
            p=purged_us,
            a=json.dumps(attributes),
        )

    def stream(self, name: str, uid: str, made_us: int = T0_US, hours: int = 24) -> None:
        its: dict[str, Value] = {"k": "t", "u": uid, "b": made_us // 1000, "h": hours, "i": 0}
        self.put(f"A|{ACCOUNT}|{REGION}", name.encode(), **its)

    def records(
        self, uid: str, shard: int, offset: int, count: int, at_us: int, **others: Value
    ) -> tuple[str, bytes]:
        """A slot of a stream; without a count its end."""
        key = (f"N|{uid}|{shard:08x}|0", be64(offset))
        its: dict[str, Value] = {"v": 1, "k": "d" if count else "e", "n": count, "t": at_us}
        nonce = hashlib.sha256(f"{key} {at_us}".encode()).digest()[:16]
        expires_s = at_us // 1_000_000 + 86_400 + 3_600
        self.items[key] = {**its, "w": nonce, "x": expires_s, **others}
        return key

    def anchor(self, uid: str, shard: int, following: int, last_us: int) -> None:
        self.put(f"H|{uid}", f"{shard:08x}|0".encode(), o=following, t=last_us, a=last_us)

    def segment(
        self, uid: str, block: bytes, first: int, count: int, at_us: int, **others: Value
    ) -> tuple[str, bytes]:
        key = (f"B|{uid}|00|0", be64(at_us) + block + bytes((first,)))
        expires_s = at_us // 1_000_000 + RETENTION_S + 3600
        its = _messages(at_us, block, first, count)
        self.items[key] = {**its, "x": expires_s, **others}
        return key

    def slot(  # noqa: PLR0913, PLR0917 - a slot has that much
        self, uid: str, slot: int, block: int, first: int, count: int, at_us: int, **others: Value
    ) -> tuple[str, bytes]:
        key = (f"G|{uid}|00|0", be64(slot))
        its = _messages(at_us, block, first, count)
        entries = b"".join(
            bytes(16) + bytes((slot, index)) + bytes(30) for index in range(first, first + count)
        )
        expires_s = at_us // 1_000_000 + RETENTION_S + 3600
        self.items[key] = {**its, "x": expires_s, "u": entries, **others}
        return key

    def done(self, uid: str, block: bytes, indexes: Iterable[int], **others: Value) -> None:
        letter = "S" if len(block) == 10 else "F"
        self.put(f"{letter}|{uid}|00|0", block, d=set(indexes), **others)

    def trace(self, uid: str, at_us: int, block: bytes, cause: str, **its: Value) -> None:
        first = its.get("i", 255)
        assert isinstance(first, int)
        kind = "s" if "i" in its else "d"
        key = (f"E|{uid}|00|0", be64(at_us) + block + bytes((first,)))
        self.items[key] = {"v": 1, "k": kind, "c": cause, "b": block, **its}

    def ledger(
        self,
        minute: int,
        queue: str,
        uid: str,
        messages: int,
        kind: bytes = b"s",
        **others: Value,
    ) -> None:
        what = f"{ACCOUNT}|{REGION}|{queue}|{uid}".encode()
        its: dict[str, Value] = dict.fromkeys("rum", messages)
        key = be64(minute) + be64(T0_US) + kind + what
        self.put("L|", key, **{**its, "y": 10 * messages, **others})

    def ledger_mark(
        self, writer: str = "00112233445566aa", last: int = 0, recorded_to: bytes = b""
    ) -> None:
        self.put("M|ledger", b"00", i=writer, n=last, b=T0_US // MINUTE_US, p=recorded_to)

    def lines(self) -> list[dict[str, Typed]]:
        return [{"Item": _image(*each)} for each in self.items.items()]


def _image(key: tuple[str, bytes], attributes: dict[str, Value]) -> Typed:
    its = {name: _typed(value) for name, value in attributes.items()}
    return {"pk": {"S": key[0]}, "sk": _typed(b"\0" + key[1]), **its}


def changes(before: Cell, after: Cell, at_us: int) -> list[dict[str, Any]]:
    """What an incremental export has between two looks at a table."""
    lines = []
    for key in before.items.keys() | after.items.keys():
        old, new = before.items.get(key), after.items.get(key)
        if old != new:
            line: dict[str, Any] = {
                "Metadata": {"WriteTimestampMicros": {"N": str(at_us)}},
                "Keys": {"pk": {"S": key[0]}, "sk": _typed(b"\0" + key[1])},
            }
            if old is not None:
                line["OldImage"] = _image(key, old)
            if new is not None:
                line["NewImage"] = _image(key, new)
            lines.append(line)
    return lines


def write_export(  # noqa: PLR0913 - an export has that much
    root: Path,
    lines: Iterable[dict[str, Any]],
    as_of_us: int,
    from_us: int | None = None,
    *,
    table: str = "arn:aws:dynamodb:us-east-1:123456789012:table/tidegate",
    prefix: str = "",
    cell: str = "",
    cells: tuple[str, ...] = (),
) -> Path:
    """Write an export as DynamoDB does; with `from_us` an incremental one. Its data file.

    With `cell` it is one of `tidegate export`: of this embedded cell of a service of `cells`.
    """
    name = f"{as_of_us // 1000:014d}-0a1b2c3d"
    folder = root / prefix / "AWSDynamoDB" / name
    # DynamoDB puts the data of incremental exports beside the folders of all exports.
    data = folder / "data" if from_us is None else folder.parent / "data"
    file = data / f"{hashlib.sha256(name.encode()).hexdigest()[:26]}.json.gz"
    data.mkdir(parents=True, exist_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    told = list(lines)
    content = gzip.compress("".join(json.dumps(line) + "\n" for line in told).encode(), mtime=0)
    file.write_bytes(content)
    key = f"{prefix}/" if prefix else ""
    entry = {
        "itemCount": len(told),
        "md5Checksum": _md5(content),
        "dataFileS3Key": key + file.relative_to(root / prefix).as_posix(),
    }
    (folder / "manifest-files.json").write_text(json.dumps(entry) + "\n")
    summary: dict[str, Any] = {
        "version": "2020-06-30",
        "tableArn": table,
        "manifestFilesS3Key": f"{key}AWSDynamoDB/{name}/manifest-files.json",
        "itemCount": len(told),
        "outputFormat": "DYNAMODB_JSON",
    }
    if from_us is None:
        summary |= {"exportType": "FULL_EXPORT", "exportTime": _iso(as_of_us)}
    else:
        times = {"exportFromTime": _iso(from_us), "exportToTime": _iso(as_of_us)}
        summary |= {"exportType": "INCREMENTAL_EXPORT", **times}
    if cell:
        summary["tidegate"] = {"cell": cell, "as_of_us": as_of_us, "cells": cells}
        summary["tableArn"] = f"arn:aws:dynamodb:local:000000000000:table/{cell}"
    (folder / "manifest-summary.json").write_text(json.dumps(summary))
    for stem in ("manifest-summary", "manifest-files") if cell else ():
        (folder / f"{stem}.checksum").write_text(_md5((folder / f"{stem}.json").read_bytes()))
    return file


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _iso(time_us: int) -> str:
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time_us)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
