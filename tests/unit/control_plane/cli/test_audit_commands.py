"""`tidegate audit` and `tidegate digest`."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from control_plane.cli.main import tidegate


def _tidegate(*arguments: str) -> Result:
    return CliRunner().invoke(tidegate, arguments)


def _head(result: Result) -> str:
    return str(result.output.splitlines()[-1]).split()[1]


def test_digests_are_added_and_verified(tmp_path: Path) -> None:
    (tmp_path / "bill").write_text("2.50")
    (tmp_path / "writers").mkdir()
    added = _tidegate(
        "digest", "add", str(tmp_path), "--apart", "writers/", "--hour", "2020-01-01T00"
    )
    assert added.output.startswith("digest 1 of 2020-01-01T00: 1 objects\nhead: ")
    (tmp_path / "writers/w").write_text("1")
    verified = _tidegate("digest", "verify", str(tmp_path), "--head", _head(added))
    assert (verified.exit_code, _head(verified)) == (0, _head(added))
    (tmp_path / "bill").write_text("0.50")
    spoilt = _tidegate("digest", "verify", str(tmp_path))
    assert spoilt.exit_code == 1
    assert spoilt.output.startswith("changed: bill: other bytes than before\nhead: ")
    (tmp_path / "bill").unlink()
    refused = _tidegate("digest", "add", str(tmp_path))
    assert refused.exit_code == 1
    assert "is gone: bill" in refused.output


def test_what_is_newer_than_all_digests_is_allowed_where_it_is_said(tmp_path: Path) -> None:
    assert _tidegate("digest", "add", str(tmp_path)).exit_code == 0
    (tmp_path / "new").write_text("")
    assert _tidegate("digest", "verify", str(tmp_path)).exit_code == 1
    assert _tidegate("digest", "verify", str(tmp_path), "--open").exit_code == 0
    wrong = _tidegate("digest", "verify", str(tmp_path), "--open", "--head", "0" * 64)
    assert (wrong.exit_code, wrong.output[:12]) == (1, "rolled back:")


def test_the_audit_runs_where_spark_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spark = tmp_path / "python"
    spark.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\nsys.exit(1)\n")
    spark.chmod(0o755)
    ran = _tidegate("audit", "--exports", "e", "--usage", "", "--python", str(spark))
    assert ran.exit_code == 1
    told = ["-m", "glue_jobs.audit", "--exports=e", "--usage=", "--out=data/audits", "--table="]
    assert sorted(told) == sorted(eval(capfd.readouterr().out))  # noqa: S307 - its own list
    missing = _tidegate("audit", "--exports", "e", "--python", str(tmp_path / "none"))
    assert missing.exit_code == 2
    assert "is not there; `make bill` installs it" in missing.output
