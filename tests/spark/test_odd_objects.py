"""Links, and folders called as files, in a usage place are told, and nothing of them is read."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.generator import put_records, record
from tests.spark.test_bill import A, bill

LINK = "it is a link, and links are never followed"


def test_what_is_no_object_is_put_aside_unread(session: SparkSession, tmp_path: Path) -> None:
    place, out = tmp_path / "usage", tmp_path / "bills"
    put_records(place, [record(number=1, writer=A)])
    day = "records/date=2026-11-01"
    (tmp_path / "secret").write_text("secret")
    (place / f"{day}/hour=00/{'1' * 64}.parquet").mkdir()
    (place / f"{day}/hour=00/{'2' * 64}.parquet").symlink_to(tmp_path / "secret")
    (place / "records/date=2026-11-02").symlink_to(place / day)
    (place / "writers").mkdir(exist_ok=True)
    (place / "writers/more.json").symlink_to(tmp_path / "secret")
    summary = bill(session, place, out)
    assert set(summary.findings) == {
        f"put aside: {day}/hour=00/{'1' * 64}.parquet: it is a folder with the name of a file",
        f"put aside: {day}/hour=00/{'2' * 64}.parquet: {LINK}",
        f"put aside: records/date=2026-11-02: {LINK}",
        f"bad mark: writers/more.json cannot be read: {LINK}",
    }
    assert not (out / "quarantine").exists()
    assert bill(session, place, out) == summary
    (csv,) = out.glob("statements/**/*.csv")
    wrote = csv.read_bytes()
    csv.unlink()
    csv.symlink_to(tmp_path / "secret")
    (altered,) = set(bill(session, place, out).findings) - set(summary.findings)
    assert altered.startswith(f"altered: {csv.relative_to(out)} is not what run")
    assert (csv.is_symlink(), csv.read_bytes()) == (False, wrote)
    files = [its for its in out.rglob("*") if its.is_file() and not its.is_symlink()]
    assert not [its for its in files if b"secret" in its.read_bytes()]
