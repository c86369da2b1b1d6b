"""Hours that are sealed part by part come to the sums of their records, each counted once."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from glue_jobs import sealing
from glue_jobs.inputs import Inputs
from glue_jobs.outputs import ALTERED
from glue_jobs.places import FolderPlace
from glue_jobs.records import SUMS
from glue_jobs.sealed_hours import Hour, cut_back, last_part, listing_of, read_sums
from glue_jobs.sealing import (
    Pending,
    Places,
    look,
    look_at_slice,
    seal_slices,
    taken_back,
)
from glue_jobs.usage import KEYS
from tests.spark.generator import MINUTE, PERIOD, hour_folder, put_records, record

HOUR = MINUTE // 60
FOLDER = hour_folder(HOUR).removeprefix("records/")
A, B = "a" * 16, "b" * 16

Row = Mapping[str, Any]
Sums = dict[tuple[Any, ...], tuple[int, ...]]


def places_in(tmp_path: Path) -> Places:
    for name in ("usage", "out"):
        (tmp_path / name).mkdir(exist_ok=True)
    return Places(FolderPlace(tmp_path / "usage"), FolderPlace(tmp_path / "out"))


def seal(places: Places) -> Hour:
    """As a run does: an hour of several slices is looked at slice by slice."""
    its = look(places, FOLDER, HOUR)
    if isinstance(its, Pending):
        slices = [look_at_slice(places, its, at) for at in range(its.slices)]
        its = seal_slices(places, its, slices)
    assert isinstance(its, Hour)
    return its


def sums_of(places: Places, its: Hour) -> Sums:
    found: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for table in read_sums(places.out, its.sums):
        for row in table.to_pylist():
            found[tuple(row[name] for name in KEYS)].update({n: row[n] for n in SUMS})
    all_ = {key: tuple(sums[name] for name in SUMS) for key, sums in found.items()}
    return {key: sums for key, sums in all_.items() if any(sums)}


def plainly(rows: Iterable[Row]) -> tuple[Sums, list[tuple[str, int]]]:
    """The same by a look at each row."""
    versions: dict[tuple[str, int], set[tuple[Any, ...]]] = defaultdict(set)
    for row in rows:
        versions[row["writer"], row["number"]].add(tuple(row.items()))
    sums: dict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
    for its in versions.values():
        if len(its) > 1:
            continue
        row = dict(next(iter(its)))
        empty = row["operation"] == "ReceiveMessage" and row["status"] == "2xx"
        empty = empty and not row["messages"]
        row |= {"records": 1, "empty_receives": row["requests"] if empty else 0}
        key = (row["minute"] // 60, *(row[name] for name in KEYS[1:]))
        sums[key].update({name: row[name] for name in SUMS})
    conflicts = sorted(identity for identity, its in versions.items() if len(its) > 1)
    return {key: tuple(its[name] for name in SUMS) for key, its in sums.items()}, conflicts


def some_rows(random: Random) -> list[Row]:
    """Records of two writers, of which some are told in two ways."""
    return [
        record(
            writer=random.choice((A, B)),
            number=number,
            minute=MINUTE + number % 60,
            queue=f"queue-{number % 3}",
            operation="ReceiveMessage" if number % 2 else "SendMessage",
            messages=number % 4,
            units=1 if random.random() < 0.9 else random.randrange(2, 9),
        )
        for number in random.sample(range(1, 25), random.randrange(1, 12))
    ]


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("slice_files", [1, 1000])
def test_parts_add_up_to_records_each_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, slice_files: int
) -> None:
    """Whatever comes when, comes again, contradicts what was there, or goes."""
    monkeypatch.setattr(sealing, "SLICE_FILES", slice_files)
    random = Random(seed)
    places = places_in(tmp_path)
    files: dict[Path, Sequence[Row]] = {}
    for step in range(random.randrange(2, 6)):
        for _ in range(random.randrange(1, 4)):
            rows = some_rows(random)
            for path in put_records(tmp_path / "usage", rows):
                files[path] = rows
        if step and random.random() < 0.3:
            gone = random.choice(sorted(files))
            gone.unlink()
            del files[gone]
        its = seal(places)
        expected, conflicts = plainly(row for rows in files.values() for row in rows)
        assert sums_of(places, its) == expected
        assert sorted(its.conflicts) == conflicts
        assert its.files == len(files)
        assert its.rows == sum(map(len, files.values()))
        # Nothing is new: the last part stands, and no file is read.
        with monkeypatch.context() as patch:
            patch.setattr(sealing, "screen_and_read", None)
            assert look(places, FOLDER, HOUR, only=True) == its


def test_an_hour_is_read_once_and_late_files_alone_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = places_in(tmp_path)
    first = put_records(tmp_path / "usage", [record(writer=A, number=n) for n in (1, 2)])
    assert seal(places).number == 1
    kept = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    (late,) = put_records(tmp_path / "usage", [record(writer=A, number=3, units=7)])
    read = FolderPlace.read
    names: list[str] = []

    def told(self: FolderPlace, name: str) -> bytes:
        names.append(name)
        return read(self, name)

    monkeypatch.setattr(FolderPlace, "read", told)
    its = seal(places)
    assert (its.number, its.files) == (2, len(first) + 1)
    assert [name for name in names if name.startswith("records/")] == [
        late.relative_to(tmp_path / "usage").as_posix()
    ]
    assert {path: path.read_bytes() for path in kept} == kept
    (part,) = read_sums(places.out, its.sums[1:])
    assert [(row["records"], row["units"]) for row in part.to_pylist()] == [(1, 7)]


def test_what_is_no_file_of_records_is_looked_at_again_and_never_sealed(tmp_path: Path) -> None:
    places = places_in(tmp_path)
    (path,) = put_records(tmp_path / "usage", [record(writer=A)])
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"?")
    its = seal(places)
    assert [(one.reason, its.files) for one in its.aside] == [
        ("its bytes do not hash to its name", 0)
    ]
    assert look(places, FOLDER, HOUR, only=True) == its
    path.write_bytes(content)
    again = seal(places)
    assert (again.number, again.files, again.aside) == (2, 1, ())
    assert sums_of(places, again) == plainly([record(writer=A)])[0]


def test_records_that_do_not_count_are_taken_back(tmp_path: Path) -> None:
    """Of one file they are none of their writer's, and another hour has one, too."""
    places = places_in(tmp_path)
    right = [record(writer=A, number=n) for n in (1, 2, 3)]
    wrong = [record(writer=A, number=2, units=5), record(writer=B, number=1)]
    put_records(tmp_path / "usage", right)
    (path,) = put_records(tmp_path / "usage", wrong)
    its = seal(places)
    assert its.conflicts == ((A, 2),)
    name = path.relative_to(tmp_path / "usage").as_posix()
    taken = taken_back(places, its, [(name, A)], [(A, 3, 3)])
    left, _ = plainly([*right[:2], wrong[1]])
    both = Counter[str]()
    for table in (*read_sums(places.out, its.sums), taken.sums):
        for row in table.to_pylist():
            both.update({name: row[name] for name in SUMS})
    (expected,) = left.values()
    assert tuple(both[name] for name in SUMS) == expected
    assert (taken.were, taken.are) == ([(A, 2)], [])


def test_parts_that_rest_on_what_was_altered_are_made_again(tmp_path: Path) -> None:
    places = places_in(tmp_path)
    its = Hour(FOLDER, HOUR)
    for number in (1, 2, 3):
        put_records(tmp_path / "usage", [record(writer=A, number=number)])
        its = seal(places)
    whole = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*.parquet")}
    second = tmp_path / "out" / its.sums[1]
    second.unlink()
    cut_back(places.out, [its.sums[1]], ALTERED)
    assert last_part(places.out, FOLDER, HOUR).number == 1
    assert len(list((tmp_path / "out" / ALTERED).iterdir())) == 2
    again = seal(places)
    assert (again.number, again.rows, again.covered) == (2, 3, its.covered)
    assert sums_of(places, again) == plainly(record(writer=A, number=n) for n in (1, 2, 3))[0]
    assert all(path.read_bytes() == whole[path] for path in whole if path.exists())


class CutOffError(Exception):
    """The process ends here."""


def test_what_a_kill_leaves_of_a_part_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of its objects was the last one: the bytes are those of who was not killed."""
    put_new = FolderPlace.put_new

    def seal_after(root: Path, kills: int) -> dict[str, bytes]:
        root.mkdir()
        places = places_in(root)
        left = kills

        def put(self: FolderPlace, name: str, content: bytes) -> bool:
            nonlocal left
            left -= 1
            if left == 0:
                raise CutOffError
            return put_new(self, name, content)

        for numbers in ((1, 2, 3), (3, 4)):
            for number in numbers:
                put_records(root / "usage", [record(writer=A, number=number, units=number)])
            with monkeypatch.context() as patch:
                patch.setattr(FolderPlace, "put_new", put)
                try:
                    seal(places)
                except CutOffError:
                    seal(places)
        out = root / "out"
        paths = (path for path in out.rglob("*") if path.is_file())
        return {path.relative_to(out).as_posix(): path.read_bytes() for path in paths}

    whole = seal_after(tmp_path / "whole", 0)
    assert len(whole) == 6
    for kills in range(1, 7):
        assert seal_after(tmp_path / str(kills), kills) == whole


def test_who_seals_an_hour_second_goes_on_from_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = places_in(tmp_path)
    put_records(tmp_path / "usage", [record(writer=A, number=1)])
    put_new = FolderPlace.put_new

    def other_first(self: FolderPlace, name: str, content: bytes) -> bool:
        if name.endswith("/000001.json"):
            monkeypatch.setattr(FolderPlace, "put_new", put_new)
            put_records(tmp_path / "usage", [record(writer=A, number=2)])
            assert seal(places).number == 1
            put_records(tmp_path / "usage", [record(writer=A, number=3)])
        return put_new(self, name, content)

    monkeypatch.setattr(FolderPlace, "put_new", other_first)
    its = seal(places)
    assert (its.number, its.files) == (2, 3)
    assert sums_of(places, its) == plainly(record(writer=A, number=n) for n in (1, 2, 3))[0]


def test_an_hour_of_which_nothing_counts_is_there_and_one_without_files_is_not() -> None:
    its = Hour(FOLDER, HOUR, 1, "its files", "what they hold", files=1, rows=1)
    told = Inputs(PERIOD, [its], {}, [], 0)
    refused = Inputs(PERIOD, [replace(its, files=0, rows=0)], {}, [], 0)
    assert (told.listing, told.fingerprint()) == (refused.listing, refused.fingerprint())
    gone = Inputs(PERIOD, [replace(its, listing=listing_of([]), files=0)], {}, [], 0)
    nothing = Inputs(PERIOD, [], {}, [], 0)
    assert (gone.listing, gone.fingerprint()) == (nothing.listing, nothing.fingerprint())
