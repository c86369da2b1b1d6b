"""Places of jobs: folders, and prefixes in buckets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from glue_jobs.digest import add_digest, tree_of
from glue_jobs.places import FolderPlace, is_missing, place_of
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
