"""Pointers that somebody edited: what was written is told, and is what counts."""

import json
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs.arguments import JobError
from glue_jobs.billing_run import BillingRun
from glue_jobs.outputs import point, pointer_of, pointers
from glue_jobs.places import FolderPlace
from tests.spark.generator import MINUTE, PERIOD
from tests.spark.test_bill import NEXT, B, bill
from tests.spark.test_payers import THIRD, put_usage, terms

EARLIER = "2026-10"
POINTER = f"runs/period={PERIOD}/000001.json"


def said(**more: Any) -> dict[str, Any]:
    return {"run": "0" * 16, "state": "closed", "bound": {}, "invoices": {"acme": "2.49"}, **more}


def edit(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


def test_a_pointer_is_what_its_copy_says(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path)
    put = point(place, PERIOD, said(), [])
    assert pointers(place) == [put]
    for new in (b'"0.49"', b"no JSON"):
        edit(tmp_path / POINTER, b'"2.49"', new)
        its = pointer_of(place, PERIOD)
        assert its is not None
        assert (its.said, its.name, its.sha256, its.is_altered) == (
            *(put.said, POINTER, put.sha256),
            True,
        )
        edit(tmp_path / POINTER, new, b'"2.49"')
    assert pointers(place) == [put]


def test_a_pointer_and_its_copy_are_what_a_later_one_has_of_them(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path)
    earlier = point(place, EARLIER, said(), [])
    point(place, PERIOD, said(bound={EARLIER: earlier.sha256}), [])
    assert not any(its.is_altered for its in pointers(place))
    # Who edits both, and calls the copy as it is to be called, is told by the later one.
    (copy,) = (tmp_path / f"pointed/period={EARLIER}").iterdir()
    pointer = tmp_path / earlier.name
    edit(pointer, b"2.49", b"0.49")
    whole = copy.read_bytes()
    copy.with_name(f"000001.{sha256(pointer.read_bytes()).hexdigest()}.json").write_bytes(
        pointer.read_bytes()
    )
    assert pointers(place)[0].said == earlier.said
    assert pointers(place)[0].is_altered
    copy.unlink()
    its = pointers(place)[0]
    assert (its.is_altered, its.sha256) == (True, earlier.sha256)
    # And so is one that is gone.
    copy.write_bytes(whole)
    pointer.unlink()
    assert pointers(place)[0].said == earlier.said
    assert pointers(place)[0].is_altered


def test_a_pointer_that_somebody_added_is_told(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path)
    put = point(place, PERIOD, said(), [])
    place.put(f"runs/period={PERIOD}/notes.txt", b"mine")
    place.put(f"pointed/period={PERIOD}/notes.txt", b"mine")
    assert pointers(place) == [put]
    forged = {name: value for name, value in put.said.items() if name != "bound"}
    place.put(f"runs/period={PERIOD}/000002.json", json.dumps(forged).encode())
    assert [(its.number, its.is_altered) for its in pointers(place)] == [(2, True)]


def test_what_a_cut_off_run_left_counts_for_nothing(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path)
    point(place, PERIOD, said(records=1), [])
    (tmp_path / POINTER).unlink()
    assert pointers(place) == []
    whole = point(place, PERIOD, said(records=2), [])
    assert pointers(place) == [whole]
    edit(tmp_path / POINTER, b"2.49", b"0.49")
    with pytest.raises(JobError, match="it was altered; put it back from a copy of yours"):
        pointers(place)


def test_a_run_that_ends_later_does_not_open_what_another_closed(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path)
    point(place, PERIOD, said(state="open"), [])
    closed = point(place, PERIOD, said(), [])
    for state in ("open", "closed"):
        with pytest.raises(JobError, match=f"another run closed it meanwhile: run {'0' * 16}"):
            point(place, PERIOD, said(state=state, records=1), [])
    assert pointers(place) == [closed]


def test_a_pointer_that_was_put_though_its_answer_was_lost_counts(tmp_path: Path) -> None:
    class Repeating(FolderPlace):
        """As a bucket whose client repeats what it got no answer to."""

        def put_new(self, name: str, content: bytes) -> bool:
            super().put_new(name, content)
            return super().put_new(name, content)

    place = Repeating(tmp_path)
    put = point(place, PERIOD, said(), [])
    assert pointers(place) == [put]


def test_a_pointer_of_before_has_no_copy(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path)
    of_before = {"schema": "tidegate.run/1", "period": PERIOD, **said(), "files": []}
    del of_before["bound"]
    place.put(POINTER, json.dumps(of_before).encode())
    assert [its.is_altered for its in pointers(place)] == [False]
    place.put(POINTER, b"{}")
    with pytest.raises(JobError, match="it is no pointer to a run"):
        pointers(place)


def test_who_edits_the_pointer_of_a_closed_month_changes_no_bill(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out, asked = tmp_path / "usage", tmp_path / "bills", terms(tmp_path)
    put_usage(place)
    closed = bill(session, place, out, close=True, **asked)
    whole = (out / POINTER).read_bytes()
    told = f"altered: {POINTER} is not what run {closed.run} of {PERIOD} wrote"
    (copy,) = (out / f"pointed/period={PERIOD}").iterdir()
    for is_copy_edited in (False, True):
        (out / POINTER).write_bytes(whole)
        edit(out / POINTER, b'"0.96"', b'"0.06"')
        edit(out / POINTER, b'"TG-000002"', b'"TG-000009"')
        edit(out / POINTER, b'{"c-1":"1.44"}', b"{}")
        if is_copy_edited:
            content = (out / POINTER).read_bytes()
            copy.rename(copy.with_name(f"000001.{sha256(content).hexdigest()}.json"))
        again = bill(session, place, out, close=True, **asked)
        assert again.invoices == closed.invoices
        assert again.findings == [f"{told}; nothing is corrected"]
    put_usage(place, MINUTE + NEXT, B)
    second = bill(session, place, out, period="2026-12", close=True, **asked)
    # What is left of the credit, and the numbers behind those that were given.
    assert [(its.payable, its.number) for its in second.invoices] == [
        (Decimal("0.96"), "TG-000003"),
        (Decimal("1.06"), "TG-000004"),
    ]
    assert second.findings[-1] == f"{told}; nothing is corrected"


@pytest.mark.nightly
def test_who_edits_the_pointer_of_an_open_month_changes_no_bill(
    session: SparkSession, tmp_path: Path
) -> None:
    place, out, asked = tmp_path / "usage", tmp_path / "bills", terms(tmp_path)
    put_usage(place)
    first = bill(session, place, out, **asked)
    whole = (out / POINTER).read_bytes()
    edit(out / POINTER, b'"0.96"', b'"0.06"')
    edited = (out / POINTER).read_bytes()
    again = bill(session, place, out, **asked)
    assert again.invoices == first.invoices
    assert {its.account for its in again.invoices} == {THIRD, "acme"}
    told = f"altered: {POINTER} is not what run {first.run} of {PERIOD} wrote; it is made again"
    assert again.findings == [*first.findings, told]
    assert (out / POINTER).read_bytes() == whole
    assert edited in {its.read_bytes() for its in (out / "altered").iterdir()}
    assert bill(session, place, out, **asked) == first


def test_what_a_cut_off_run_found_altered_the_next_one_tells(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, out, asked = tmp_path / "usage", tmp_path / "bills", terms(tmp_path)
    put_usage(place)
    first = bill(session, place, out, **asked)
    sums = next((out / "hours").rglob("*.parquet"))
    whole = sums.read_bytes()
    sums.write_bytes(b"PAR1")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(BillingRun, "write_bills", killed)
        with pytest.raises(KeyboardInterrupt):
            bill(session, place, out, **asked)
    assert sums.read_bytes() == whole
    again = bill(session, place, out, **asked)
    told = f"altered: {sums.relative_to(out)} is not what run {first.run}"
    assert [its for its in again.findings if its.startswith("altered")] == [
        f"{told} of {PERIOD} wrote; it is made again"
    ]
    assert bill(session, place, out, **asked) == first
