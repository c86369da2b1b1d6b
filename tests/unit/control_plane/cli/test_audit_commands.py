"""`tidegate audit` and `tidegate digest`."""

import errno
import sys
from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError
from click.testing import CliRunner, Result

from control_plane.cli import digest
from control_plane.cli.main import tidegate
from glue_jobs.verifier import Folder


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
    assert added.output.startswith("digest 1 of 2020-01-01T00: 1 object\nhead: ")
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


def test_signed_digests_are_verified_by_the_public_key_alone(tmp_path: Path) -> None:
    place, key, heads = tmp_path / "place", tmp_path / "key", str(tmp_path / "heads")
    place.mkdir()
    (place / "bill").write_text("2.50")
    made = _tidegate("digest", "key", str(key))
    assert made.output.endswith(f"public key: {key}.pub\n")
    assert (key.stat().st_mode & 0o777, _tidegate("digest", "key", str(key)).exit_code) == (
        0o600,
        1,
    )
    pem = _tidegate("digest", "public-key", str(key)).output
    assert pem == Path(f"{key}.pub").read_text()
    signed = ("--signer", str(key), "--anchor", heads, "--every-hours", "1")
    for hour in ("2026-11-21T01", "2026-11-21T02"):
        added = _tidegate("digest", "add", str(place), "--hour", hour, *signed)
        assert added.exit_code == 0, added.output
    verify = ("digest", "verify", str(place), "--key", f"{key}.pub")
    at = ("--as-of", "2026-11-21T04")
    whole = _tidegate(*verify, *at, "--anchor", heads)
    assert (whole.exit_code, whole.output[:20]) == (0, "excluded (12 of 12):")
    alone = _tidegate(*verify, *at)
    assert (alone.exit_code, alone.output[:20]) == (0, "excluded (10 of 12):")
    assert [line.split(": ")[1] for line in alone.output.splitlines()[1:3]] == [
        *("newest-cut-off", "older-head-replayed"),
    ]
    assert _head(alone) == _head(added)
    late = _tidegate(*verify)
    assert (late.exit_code, late.output[:43]) == (1, "late: the newest digest is of 2026-11-21T02")
    stranger = _tidegate("digest", "verify", str(place), "--key", str(place / "bill"))
    assert stranger.exit_code == 2
    assert f"Error: {place / 'bill'} is no public key that verifies: " in stranger.output
    for wrong in (("--anchor", f"{heads}2"), ("--as-of", "yesterday")):
        refused = _tidegate(*verify, *wrong)
        assert (refused.exit_code, wrong[1] in refused.output) == (2, True), refused.output


def test_what_cannot_be_read_is_told_apart_from_what_was_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bill").write_text("2.50")
    assert _tidegate("digest", "add", str(tmp_path)).exit_code == 0

    def measure(_folder: Folder, name: str) -> tuple[int, str]:
        raise PermissionError(errno.EACCES, "Permission denied", name)

    monkeypatch.setattr(Folder, "measure", measure)
    verified = _tidegate("digest", "verify", str(tmp_path))
    assert verified.exit_code == 2
    assert verified.output.startswith("not read: bill: Permission denied\nhead: ")


def test_a_bucket_that_does_not_answer_is_said_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(*_: object, **__: object) -> None:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1/bucket")

    monkeypatch.setattr(digest, "add_digest", add)
    refused = _tidegate("digest", "add", str(tmp_path))
    said = 'Error: Could not connect to the endpoint URL: "http://127.0.0.1:1/bucket"\n'
    assert (refused.exit_code, refused.output) == (1, said)


def test_no_digest_is_of_an_hour_that_is_not_over(tmp_path: Path) -> None:
    refused = _tidegate("digest", "add", str(tmp_path), "--hour", "2999-01-01T00")
    assert (refused.exit_code, list(tmp_path.iterdir())) == (1, [])
    assert "2999-01-01T00 is not over: 2" in refused.output


def test_no_chain_begins_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    mistyped = tmp_path / "usgae"
    for command in ("add", "verify"):
        refused = _tidegate("digest", command, str(mistyped))
        assert (refused.exit_code, mistyped.exists()) == (2, False), command
        assert f"there is no folder {mistyped}" in refused.output


def test_what_is_newer_than_all_digests_is_allowed_where_it_is_said(tmp_path: Path) -> None:
    assert _tidegate("digest", "add", str(tmp_path)).exit_code == 0
    (tmp_path / "new").write_text("")
    assert _tidegate("digest", "verify", str(tmp_path)).exit_code == 1
    assert _tidegate("digest", "verify", str(tmp_path), "--open").exit_code == 0
    wrong = _tidegate("digest", "verify", str(tmp_path), "--open", "--head", "0" * 64)
    assert (wrong.exit_code, wrong.output[:12]) == (1, "rolled back:")


def test_the_audit_runs_where_spark_is(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    spark = tmp_path / "python"
    runs_jobs = "if sys.argv[1] == '-m': sys.exit(print(sys.argv[1:]) or 1)"
    spark.write_text(f"#!{sys.executable}\nimport sys\n{runs_jobs}\n")
    spark.chmod(0o755)
    ran = _tidegate("audit", "--exports", "e", "--usage", "", "--python", str(spark))
    assert ran.exit_code == 1
    told = ["-m", "glue_jobs.audit", "--exports=e", "--usage=", "--out=data/audits"]
    told += ["--table=", "--restored="]
    assert sorted(told) == sorted(eval(capfd.readouterr().out))  # noqa: S307 - its own list
    missing = _tidegate("audit", "--exports", "e", "--python", str(tmp_path / "none"))
    assert missing.exit_code == 2
    assert "is not there; `make bill` installs it" in missing.output
