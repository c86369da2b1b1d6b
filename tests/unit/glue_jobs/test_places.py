from pathlib import Path

from glue_jobs.places import FolderPlace, is_missing


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
