from pathlib import Path

from glue_jobs.places import is_missing


def test_a_folder_is_there_or_not_and_a_prefix_always_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not is_missing(str(tmp_path))
    assert is_missing(str(tmp_path / "none"))
    assert is_missing(str(tmp_path / "file"))
    assert not is_missing("s3://bucket/none")
