"""What is wrong with a usage place is told, each thing once, and what is right stays."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import audit
from glue_jobs.access import ACCESS
from glue_jobs.audit_inputs import Usage, put_aside, read_usage
from glue_jobs.places import FolderPlace
from tests.spark.cells import MINUTE_US, T0_US, write_export
from tests.spark.usage_places import write_mark, write_records

A, B = "aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb"
MINUTE = 29_900_000


def used(number: int, writer: str = A, **its: Any) -> dict[str, Any]:
    texts = {"account": "123456789012", "region": "", "queue": "orders", "operation": "SendMessage"}
    counts = {"requests": 1, "units": 1, "messages": 1, "bytes": 1, "failed_entries": 0}
    own = {"schema": "tidegate.usage/1", "writer": writer, "number": number, "minute": MINUTE}
    return {**own, **texts, "status": "2xx", "code": "", **counts, **its}


def accessed(number: int, **its: Any) -> dict[str, Any]:
    texts = dict.fromkeys(ACCESS.texts, "")
    own = {"schema": ACCESS.schema, "writer": A, "number": number, "minute": MINUTE}
    return {**texts, **own, "status": "2xx", "requests": 1, **its}


def whole(place: Path) -> None:
    """A place of which nothing is wrong: a server that was stopped, and one that went on."""
    write_records(place, [used(1), used(2)])
    write_records(place, [used(3)])
    # What was stored twice counts once.
    write_records(place, [used(2), used(3)])
    write_records(place, [accessed(1), accessed(2)], ACCESS)
    write_mark(place, A, opened=MINUTE, complete_to=MINUTE + 1, records=3, access=2)
    write_records(place, [used(1, B, minute=MINUTE + 2)])
    closing: dict[str, Any] = {
        "opened": MINUTE + 1,
        "complete_to": MINUTE + 3,
        "records": 1,
        "after": A,
    }
    write_mark(place, B, **closing)


def told(usage: Usage) -> list[tuple[str, int]]:
    return sorted((its.kind, its.count) for its in usage.told)


def details(usage: Usage) -> str:
    return "\n".join(its.detail for its in usage.told)


def test_nothing_is_told_of_a_whole_place(session: SparkSession, tmp_path: Path) -> None:
    whole(tmp_path)
    usage = read_usage(session, FolderPlace(tmp_path))
    assert not usage.told
    assert usage.from_minute == MINUTE
    assert usage.ended_us == (MINUTE + 4) * MINUTE_US
    assert (usage.records.count(), usage.access.count()) == (4, 2)


def test_everything_that_is_wrong_is_told(session: SparkSession, tmp_path: Path) -> None:
    place, out = tmp_path / "usage", tmp_path / "out"
    whole(place)
    later = write_records(place, [accessed(9, schema="tidegate.access/2")], ACCESS)
    damaged = write_records(place, [accessed(4)], ACCESS)
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    stray = write_records(place, [used(4)], name="more.parquet")
    (place / "records/lost.parquet").write_bytes(b"PAR1")
    (place / "notes.txt").write_text("mine")
    (place / "access/date=2026-11-21").symlink_to(tmp_path)
    (place / "more.json").symlink_to(tmp_path / "secret")
    # The same number with other contents, and numbers 5 to 6 are nowhere.
    write_records(place, [used(3, messages=7), used(7)])
    write_mark(place, "c" * 16, opened=-1)
    usage = read_usage(session, FolderPlace(place))
    assert told(usage) == [
        ("not_read", 1),
        ("not_read", 1),
        ("not_read", 1),
        ("not_read", 1),
        ("not_read", 1),
        ("not_read", 1),
        ("not_read", 1),
        ("record_differs", 1),
        ("stray", 1),
        ("usage_gap", 3),
    ]
    for said in (
        f"{later.name}: records of schema tidegate.access/2",
        f"{damaged.name}: its bytes do not hash to its name",
        f"{stray.name}: its name is not that of an object of records",
        "records/lost.parquet: its name is not that of an object of records",
        "its opened is -1",
        "access/date=2026-11-21: it is a link, and links are never followed",
        "more.json: it is a link, and links are never followed",
        f"record 3 of {A}",
        "notes.txt: it lies in no folder of a usage place",
        f"records 4 to 6 of {A}, minutes {MINUTE} to {MINUTE}",
    ):
        assert said in details(usage)
    # Which of the two was served nobody knows; the rest is there.
    assert {row.number for row in usage.records.where(f"writer = '{A}'").collect()} == {1, 2, 7}
    assert (usage.access.count(), usage.from_minute) == (2, -1)
    put_aside(usage, FolderPlace(place), FolderPlace(out))
    assert len(list((out / "quarantine").iterdir())) == 4


@pytest.mark.parametrize("number", [1, 2])
def test_an_access_record_that_was_dropped_is_missed(
    session: SparkSession, tmp_path: Path, number: int
) -> None:
    whole(tmp_path)
    (path,) = (tmp_path / "access").rglob("*.parquet")
    path.unlink()
    write_records(tmp_path, [accessed(3 - number)], ACCESS)
    usage = read_usage(session, FolderPlace(tmp_path))
    assert told(usage) == [("access_gap", 1)]
    assert f"record {number} of {A}" in details(usage)


def test_a_writer_that_was_cut_off_is_told(session: SparkSession, tmp_path: Path) -> None:
    whole(tmp_path)
    its: dict[str, Any] = {"opened": MINUTE, "complete_to": MINUTE, "records": 3, "access": 2}
    write_mark(tmp_path, A, **its, closed=False)
    usage = read_usage(session, FolderPlace(tmp_path))
    assert told(usage) == [("writer_cut_off", 1)]
    assert (usage.from_minute, usage.ended_us) == (-1, -1)
    # Somebody has ended it since. Of who has no mark nobody knows the end.
    write_mark(tmp_path, A, **its, closed=False, ended=MINUTE + 50)
    usage = read_usage(session, FolderPlace(tmp_path))
    assert (usage.from_minute, usage.ended_us) == (-1, (MINUTE + 51) * MINUTE_US)
    write_records(tmp_path, [used(1, "c" * 16)])
    assert read_usage(session, FolderPlace(tmp_path)).ended_us == -1


def test_usage_that_was_off_is_told_and_counts_from_then_on(
    session: SparkSession, tmp_path: Path
) -> None:
    whole(tmp_path)
    its: dict[str, Any] = {
        "opened": MINUTE + 9,
        "complete_to": MINUTE + 9,
        "records": 0,
        "after": B,
    }
    write_mark(tmp_path, "c" * 16, **its, off_from=MINUTE + 4)
    usage = read_usage(session, FolderPlace(tmp_path))
    assert told(usage) == [("not_metered", 1)]
    assert details(usage) == f"usage was off, minutes {MINUTE + 4} to {MINUTE + 9}"
    assert usage.from_minute == usage.metered_from == MINUTE + 10


def test_ends_of_sandboxes_are_counted_and_what_they_marked_is_missed(
    session: SparkSession, tmp_path: Path
) -> None:
    whole(tmp_path)
    its: dict[str, Any] = {
        "kind": "function",
        "closed": False,
        "opened": MINUTE,
        "complete_to": MINUTE + 1,
    }
    for number, writer in enumerate(("c" * 16, "d" * 16)):
        write_records(tmp_path, [used(1, writer)])
        write_records(tmp_path, [accessed(1, writer=writer)], ACCESS)
        write_mark(tmp_path, writer, day="2026-11-06", records=1 + number, access=1 + number, **its)
    usage = read_usage(session, FolderPlace(tmp_path))
    assert told(usage) == [("access_gap", 1), ("sandbox_ends", 2), ("usage_gap", 1)]
    assert f"record 2 of {'d' * 16}, minutes {MINUTE} to {MINUTE + 1}" in details(usage)


def test_usage_of_sandboxes_is_never_whole(session: SparkSession, tmp_path: Path) -> None:
    """What they answered last may be missing, so a difference to what is stored is no error."""
    whole(tmp_path)
    its: dict[str, Any] = {
        "kind": "function",
        "closed": False,
        "opened": MINUTE,
        "complete_to": MINUTE,
    }
    write_records(tmp_path, [used(1, "c" * 16)])
    write_records(tmp_path, [accessed(1, writer="c" * 16)], ACCESS)
    write_mark(tmp_path, "c" * 16, day="2026-11-06", records=1, access=1, **its)
    usage = read_usage(session, FolderPlace(tmp_path))
    assert (usage.from_minute, usage.ended_us) == (-1, -1)


def test_an_audit_that_fails_does_not_end_as_one_with_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("nobody expected this")

    write_export(tmp_path / "exports", [], T0_US)
    arguments = ["--usage=", *(f"--{name}={tmp_path / name}" for name in ("exports", "out"))]
    monkeypatch.setattr(audit, "open_session", broken)
    assert audit.main(arguments) == 2
    assert "RuntimeError: nobody expected this" in capsys.readouterr().err
    (tmp_path / "out").touch()
    assert audit.main(arguments) == 2
    said = f"audit: out: {tmp_path / 'out'} is no folder that can be written, or made\n"
    assert capsys.readouterr().err == said
