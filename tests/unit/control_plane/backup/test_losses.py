"""What a restore says of what was lost: a comparison, or the commands that make one."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import Result

from control_plane.cli import losses, restore
from tests.unit.control_plane.backup.test_backup import data, made, run

__all__ = ["data", "made"]

FOUND = [
    ("error", "lost", "orders", 1),
    ("error", "lost", "orders", 1),
    ("error", "ledger_gap", None, 1),
    ("note", "writer_cut_off", None, 1),
]


def restored(tmp_path: Path, *options: str | Path) -> Result:
    keys = tmp_path / "k/keys"
    return run("restore", tmp_path / "b", "--data", tmp_path / "new", "--keys", keys, *options)


def spark(tmp_path: Path, code: int, said: str) -> Path:
    """A program that stands for the Python with Spark, and keeps what it was told."""
    program = tmp_path / "spark"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n"
        f"open({str(tmp_path / 'told')!r}, 'w').write('\\n'.join(sys.argv[1:]))\n"
        f"print({said!r})\nsys.exit({code})\n"
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """A place of exports with a chain of digests."""
    place = tmp_path / "exports"
    place.mkdir()
    (place / "one").write_text("1")
    assert run("digest", "add", place, "--hour", "2020-01-01T00").exit_code == 0
    return place


@pytest.mark.usefixtures("made")
def test_without_exports_the_commands_are_told(tmp_path: Path) -> None:
    said = restored(tmp_path).output
    assert f"tidegate export PLACE --data {tmp_path / 'new'} && tidegate audit --exports" in said


@pytest.mark.usefixtures("made")
def test_a_place_that_is_missing_is_told_before_anything_is_restored(tmp_path: Path) -> None:
    ran = restored(tmp_path, "--exports", tmp_path / "none")
    assert (ran.exit_code, "--exports: there is no folder" in ran.output) == (2, True)
    ran = restored(tmp_path, "--exports", tmp_path, "--usage", str(tmp_path / "none"))
    assert (ran.exit_code, "--usage: there is no folder" in ran.output) == (2, True)
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("made")
def test_where_there_is_no_spark_the_command_is_told(
    tmp_path: Path, exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "find_python", lambda: None)
    (exports / "one").write_text("2")
    ran = restored(tmp_path, "--exports", exports)
    assert ran.exit_code == 0, ran.output
    assert f"{exports}: changed: one" in ran.output
    assert list(exports.rglob("manifest-summary.json"))
    out = tmp_path / "new" / losses.AUDITS
    assert f"tidegate audit --exports {exports} --usage '' --out {out}" in ran.output


@pytest.mark.usefixtures("made")
def test_what_the_audit_finds_is_summed_up(
    tmp_path: Path, exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("severity", "kind", "queue", "count")
    findings = [dict(zip(names, each, strict=True)) for each in FOUND]
    (tmp_path / "report.json").write_text(json.dumps({"findings": findings}))
    page = tmp_path / "report.html"
    page.touch()
    program = spark(tmp_path, 1, f"audit: 3 errors, 1 note: {page}")
    monkeypatch.setattr(restore, "find_python", lambda: program)
    ran = restored(tmp_path, "--exports", exports, "--audits", tmp_path / "a")
    assert ran.exit_code == 0, ran.output
    assert f"{exports}: head: " in ran.output
    assert ran.output.endswith("ledger_gap: 1 of (no queue)\nlost: 2 of orders\n")
    told = (tmp_path / "told").read_text().splitlines()
    assert told == ["-m", "glue_jobs.audit", f"--exports={exports}", "--usage=", told[-1]]
    assert told[-1] == f"--out={tmp_path / 'a'}"


@pytest.mark.usefixtures("made")
def test_an_audit_that_fails_is_told_with_the_command(
    tmp_path: Path, exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restore, "find_python", lambda: spark(tmp_path, 2, ""))
    ran = restored(tmp_path, "--exports", exports)
    assert ran.exit_code == 1
    assert "the service is restored; the audit failed: tidegate audit --exports" in ran.output
    assert (tmp_path / "new/data.mdb").exists()


def test_tables_are_exported_and_audited_under_their_names() -> None:
    export, second, audit = losses.how_to_compare_tables({"one": "one-2", "two": "two-2"})
    assert export.endswith("--table-name one-2)")
    assert second.endswith("--table-name two-2)")
    assert audit.endswith("--usage PLACE --table all --restored one=one-2,two=two-2")
