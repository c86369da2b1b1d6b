"""The newest digest of usage is printed on each invoice, where no editor of the chain comes."""

from pathlib import Path

from pyspark.sql import SparkSession

from glue_jobs.digest import Rules, add_digest
from glue_jobs.places import place_of
from glue_jobs.sealed import seal_of
from glue_jobs.statement import as_page
from glue_jobs.statement_pdf import as_pdf
from glue_jobs.verifier import Folder, Known, findings
from tests.spark.generator import PERIOD, put_records, record
from tests.spark.test_bill import bill
from tests.spark.test_statement import statement, words_of


def sealed(usage: Path, hour: str) -> str:
    return add_digest(place_of(str(usage)), hour, Rules(changing=("writers/",))).hash


def rolled_back(usage: Path, head: str) -> list[str]:
    told = findings(Folder(usage), Known(head=head))
    return [line for line in told if line.startswith("rolled back")]


def test_an_invoice_has_the_newest_head(session: SparkSession, tmp_path: Path) -> None:
    usage, out = tmp_path / "usage", tmp_path / "bills"
    put_records(usage, [record(writer="a" * 16)])
    heads = [sealed(usage, f"{PERIOD}-28T01")]
    first = Path(bill(session, usage, out).invoices[0].statement)
    # What is chained anew alone is no reason to bill anew.
    sealed(usage, f"{PERIOD}-28T02")
    assert Path(bill(session, usage, out).invoices[0].statement) == first
    put_records(usage, [record(writer="a" * 16, number=2)])
    heads.append(sealed(usage, f"{PERIOD}-28T03"))
    second = Path(bill(session, usage, out).invoices[0].statement)
    assert first != second
    for path, head in zip((first, second), heads, strict=True):
        assert f"{head}." in path.read_text()
        assert not rolled_back(usage, head)
    # Who makes the chain anew makes another one than the invoice has.
    for path in (usage / "digests").iterdir():
        path.unlink()
    assert sealed(usage, f"{PERIOD}-28T03") not in heads
    assert rolled_back(usage, heads[1]) == [f"rolled back: no digest has the hash {heads[1]}"]


def test_what_is_no_digest_is_passed_over(tmp_path: Path) -> None:
    place = place_of(str(tmp_path))
    assert seal_of(place) == ""
    head = sealed(tmp_path, "2026-11-28T01")
    junk: dict[str, bytes] = {
        f"digests/00000002-{'f' * 64}.json": b"{}",
        f"digests/00000003-{head}.json": next((tmp_path / "digests").iterdir()).read_bytes(),
        f"digests/99999999-{'f' * 64}.json": b"[" * 100_000,
    }
    for name, content in junk.items():
        place.put_new(name, content)
    assert seal_of(place) == f"1 2026-11-28T01 {head}"


def test_page_and_document_have_the_head(tmp_path: Path) -> None:
    assert "chained" not in as_page(statement()).decode()
    head = sealed(tmp_path, "2026-11-28T01")
    its = statement(name="ACME", buyer={}, sealed_by=seal_of(place_of(str(tmp_path))))
    said = f"Usage records are chained: digest 1 of 2026-11-28T01, UTC, is {head}."
    assert said in as_page(its).decode()
    assert "".join(said.split()) in "".join(words_of(as_pdf(its)).split())
