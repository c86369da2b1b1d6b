"""Places of jobs: folders, and prefixes in buckets."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from glue_jobs.digest import add_digest, tree_of
from glue_jobs.places import FolderPlace, is_missing, place_of, read_url
from glue_jobs.verifier import findings


def test_a_folder_is_there_or_not_and_a_prefix_always_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not is_missing(str(tmp_path))
    assert is_missing(str(tmp_path / "none"))
    assert is_missing(str(tmp_path / "file"))
    assert not is_missing("s3://bucket/none")


def test_what_is_cleared_leaves_no_empty_folders_and_others_alone(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path / "bills")
    for name in ("drafts/a/b/1/rows", "drafts/c/rows"):
        place.put(name, b"")
    place.clear("drafts/a/b")
    assert [path.name for path in (tmp_path / "bills/drafts").iterdir()] == ["c"]
    place.clear("drafts/c")
    place.clear("drafts/c")
    assert list((tmp_path / "bills").iterdir()) == []


def test_links_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("")
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "rows").touch()
    (tmp_path / "place" / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "place" / "folder").symlink_to(tmp_path)
    assert [found.name for found in FolderPlace(tmp_path / "place").list("")] == ["rows"]


def test_no_link_is_followed_wherever_it_is(tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    (outside / "secret").write_text("secret")
    (top := tmp_path / "place").mkdir()
    (top / "hour").symlink_to(outside)
    place = FolderPlace(top)
    assert (place.list("hour/"), [its.name for its in place.odd("hour/")]) == ([], ["hour"])
    (top / "rows").symlink_to(outside / "secret")
    for name in ("hour/secret", "rows", "../outside/secret"):
        with pytest.raises(OSError, match=name):
            place.read(name)
    # A path that somebody names may be a link, or lead over one.
    assert read_url(str(top / "rows")) == read_url(str(top / "hour/secret")) == b"secret"
    (tmp_path / "other").symlink_to(outside)
    assert FolderPlace(tmp_path / "other").read("secret") == b"secret"


def test_what_is_no_object_is_told_with_why(tmp_path: Path) -> None:
    (tmp_path / "records/date=2026-11-01/a.parquet").mkdir(parents=True)
    (tmp_path / "records/date=2026-11-01/b.parquet").symlink_to(tmp_path / "none")
    os.mkfifo(tmp_path / "records/date=2026-11-02")
    (tmp_path / "records/rows").touch()
    place = FolderPlace(tmp_path)
    assert [(its.name, its.odd) for its in place.odd("records/date=2026-")] == [
        ("records/date=2026-11-01/a.parquet", "it is a folder with the name of a file"),
        ("records/date=2026-11-01/b.parquet", "it is a link, and links are never followed"),
        ("records/date=2026-11-02", "it is no file"),
    ]
    assert place.odd("writers/") == []
    assert [its.name for its in place.list("")] == ["records/rows"]


@pytest.fixture
def bucket() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="bucket")
        yield client


def test_marks_of_empty_folders_are_no_objects(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for key in ("bills/", "bills/a/", "bills/a/rows", "bills/.draft"):
        bucket.put_object(Bucket="bucket", Key=key, Body=b"")
    place = place_of("s3://bucket/bills")
    assert [found.name for found in place.list("")] == ["a/rows"]
    assert [found.name for found in place.list("a/")] == ["a/rows"]


def test_the_verifier_sees_what_jobs_pass_over(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    bucket.put_object(Bucket="bucket", Key="bills/a/", Body=b"")
    bucket.put_object(Bucket="bucket", Key="bills/a/rows", Body=b"1")
    add_digest(place_of("s3://bucket/bills"), "2026-11-21T00")
    tree = tree_of("s3://bucket/bills")
    assert list(findings(tree)) == []
    bucket.put_object(Bucket="bucket", Key="bills/a/", Body=b"hidden")
    bucket.put_object(Bucket="bucket", Key="bills/.hidden", Body=b"")
    bucket.put_object(Bucket="bucket", Key="bills/a/rows", Body=b"2")
    assert list(findings(tree)) == [
        "added: .hidden: no digest names it",
        "added: a/: no digest names it",
        "changed: a/rows: other bytes than before",
    ]


def test_what_is_beneath_a_folder_is_so_beneath_a_prefix(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    names = ("a/1.json", "a/b/2.json", "a/b/c/3.json", "a/d/4.json", "a/.e/5", "a/.6", "ab/7.json")
    for name in names:
        FolderPlace(tmp_path).put(name, b"its content")
    for name in (*names, "a/"):
        bucket.put_object(Bucket="bucket", Key=f"its/{name}", Body=b"its content")
    for place in (FolderPlace(tmp_path), place_of("s3://bucket/its")):
        folders, found = place.beneath("a/")
        assert folders == ["a/b", "a/d"]
        assert [(its.name, its.bytes, its.odd) for its in found] == [("a/1.json", 11, "")]
        assert place.beneath("nowhere/") == ([], [])


def test_what_is_odd_beneath_a_folder_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a/b.json").mkdir(parents=True)
    (tmp_path / "a/c").symlink_to(tmp_path)
    folders, found = FolderPlace(tmp_path).beneath("a/")
    assert (folders, [its.name for its in found if its.odd]) == ([], ["a/b.json", "a/c"])
    assert [its.name for its in FolderPlace(tmp_path).beneath("a/c/")[1] if its.odd] == ["a/c"]
