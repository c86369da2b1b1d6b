"""What is kept of an hour of usage: docs/storage.md, *Sealed hours*, is the format."""

import io
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from glue_jobs.arguments import JobError
from glue_jobs.hour_rows import Identity
from glue_jobs.identities import Run
from glue_jobs.outputs import Written, canonical, parquet_of
from glue_jobs.places import Found, Place
from glue_jobs.screening import Screened

HOURS: Final = "hours/"
SCHEMA: Final = "tidegate.hour/1"
MADE_BY: Final = 1
"""What screening and adding up mean: raised when the same files come to other sums."""

_OF_ASIDE: Final = ("name", "bytes", "sha256", "reason", "newer", "unread")

_PART: Final = re.compile(r"(\d{6})\.json")


@dataclass(frozen=True, slots=True)
class Hour:
    """An hour as its last part has it; `number` is that of the part, 0: there is none.

    `folder` is its place below `records/`, `date=.../hour=...`; `parts` are all objects of it.
    """

    folder: str
    hour: int
    number: int = 0
    listing: str = ""
    covered: str = ""
    covers: str = ""
    files: int = 0
    rows: int = 0
    runs: tuple[Run, ...] = ()
    aside: tuple[Screened, ...] = ()
    conflicts: tuple[Identity, ...] = ()
    sums: tuple[str, ...] = ()
    parts: tuple[Written, ...] = ()
    made_by: int = MADE_BY


def listing_of(files: Iterable[Found | Screened]) -> str:
    """What tells a list of files from another: names of records say what is in them."""
    return sha256(canonical([[its.name, its.bytes] for its in files])).hexdigest()


def last_part(out: Place, folder: str, hour: int) -> Hour:
    """The last part of an hour that counts. Raises JobError where a part cannot be read."""
    names = {its.name for its in out.list(f"{HOURS}{folder}/")}
    number = 0
    while part_name(folder, number + 1) in names:
        number += 1
    if not number:
        return Hour(folder, hour)
    name = part_name(folder, number)
    content = out.read(name)
    try:
        return _read(folder, number, content, json.loads(content))
    except (ValueError, KeyError, TypeError) as error:
        raise JobError(
            f"{out.url}/{name}: it is no part of an hour ({error!r}); move it and later ones away,"
            " and run again"
        ) from error


def part_name(folder: str, number: int) -> str:
    """What the object of a part is called."""
    return f"{HOURS}{folder}/{number:06}.json"


def _read(folder: str, number: int, content: bytes, said: Mapping[str, Any]) -> Hour:
    if said["schema"] != SCHEMA:
        raise ValueError(f"its schema is {said['schema']!r}")
    own = Written(part_name(folder, number), len(content), sha256(content).hexdigest())
    return Hour(
        *(folder, said["hour"], number, said["listing"], said["covered"], said["covers"]),
        *(said["files"], said["rows"], tuple(Run(*its) for its in said["runs"])),
        tuple(Screened(**dict(zip(_OF_ASIDE, its, strict=True))) for its in said["aside"]),
        tuple((writer, its) for writer, its in said["conflicts"]),
        tuple(said["sums"]),
        (*(Written(*its) for its in said["before"]), own),
        said["made_by"],
    )


def covered_files(out: Place, its: Hour) -> list[Screened]:
    """The files of records that an hour's parts cover, by name."""
    return files_in(out, its.covers) if its.covers else []


def files_in(out: Place, name: str) -> list[Screened]:
    """The same, by what lists them."""
    content = pa.input_stream(io.BytesIO(out.read(name)), compression="zstd").read()
    return [
        Screened(
            *(name, bytes_, digest, rows),
            runs=tuple(Run(*run) for run in runs),
            repeats=tuple((writer, first, last) for writer, first, last in repeats),
        )
        for name, bytes_, digest, rows, runs, repeats in json.loads(content)
    ]


def put_part(
    out: Place, before: Hour, files: Sequence[Screened], told: Hour, sums: pa.Table
) -> Hour | None:
    """Put one more part of an hour: of `told` what it is now. None: another run did meanwhile."""
    folder, number = before.folder, before.number + 1
    written = list(before.parts)
    names = list(before.sums)
    if sums.num_rows:
        content = parquet_of(sums)
        name = f"{HOURS}{folder}/{number:06}.{sha256(content).hexdigest()}.parquet"
        written.append(_put(out, name, content))
        names.append(name)
    listed = canonical([_file(one) for one in files])
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(listed)
    content = packed.getvalue().to_pybytes()
    its = _put(out, f"{HOURS}{folder}/{sha256(content).hexdigest()}.json.zst", content)
    written += [] if its in written else [its]
    said = {
        "schema": SCHEMA,
        "made_by": MADE_BY,
        "hour": before.hour,
        "listing": told.listing,
        "covered": sha256(listed).hexdigest(),
        "covers": its.name,
        "files": len(files),
        "rows": sum(one.rows for one in files),
        "runs": [_run(run) for run in told.runs],
        "aside": [[getattr(one, name) for name in _OF_ASIDE] for one in told.aside],
        "conflicts": [list(one) for one in told.conflicts],
        "sums": names,
        "before": [[one.name, one.bytes, one.sha256] for one in written],
    }
    content = canonical(said) + b"\n"
    if not out.put_new(part_name(folder, number), content):
        return None
    return _read(folder, number, content, said)


def _file(its: Screened) -> list[Any]:
    return [its.name, its.bytes, its.sha256, its.rows, [_run(run) for run in its.runs], its.repeats]


def _run(run: Run) -> list[Any]:
    return [run.writer, run.first, run.last, run.from_minute, run.to_minute]


def _put(out: Place, name: str, content: bytes) -> Written:
    out.put_new(name, content)
    return Written(name, len(content), sha256(content).hexdigest())


def read_sums(out: Place, names: Iterable[str]) -> list[pa.Table]:
    """Sums of parts."""
    return [pq.ParquetFile(io.BytesIO(out.read(name))).read() for name in names]


def cut_back(out: Place, altered: Collection[str], aside: str) -> None:
    """Let parts that rest on altered objects, and those behind them, count no more.

    They are kept below `aside` by their hashes. What is altered is there already.
    """
    for folder in sorted({_folder(name) for name in altered if name.startswith(HOURS)}):
        found = [its.name for its in out.list(f"{HOURS}{folder}/")]
        numbers = [name for name in found if _PART.fullmatch(name.rpartition("/")[2])]
        whole = 0
        for place, name in enumerate(sorted(numbers), start=1):
            content = out.read(name)
            if name != part_name(folder, place) or _rests_on(content, altered):
                break
            whole = place
        for name in sorted(numbers)[whole:]:
            out.move(name, f"{aside}/{sha256(out.read(name)).hexdigest()}")


def _rests_on(content: bytes, altered: Collection[str]) -> bool:
    return any(name in altered for name, _, _ in json.loads(content)["before"])


def _folder(name: str) -> str:
    return name.removeprefix(HOURS).rpartition("/")[0]
