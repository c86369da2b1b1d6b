"""A release has one version, which stands in three files, and a section of the changelog."""

from pathlib import Path

import pytest

from infra.release.versions import VersionError, current, notes, set_version

LOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Cakes.\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for folder in ("data_plane", "sdk", "requirements"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data_plane/__init__.py").write_text('"""Words."""\n\nVERSION: Final = "0.1.0"\n')
    (tmp_path / "sdk/pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    (tmp_path / "requirements/sdk.in").write_text("# Words.\ntidegate-sdk==0.1.0\n")
    (tmp_path / "CHANGELOG.md").write_text(LOG)
    return tmp_path


def texts(tree: Path) -> list[str]:
    return [path.read_text() for path in sorted(tree.rglob("*.*")) if path.is_file()]


def test_a_version_is_written_everywhere(tree: Path) -> None:
    set_version(tree, "0.2.0", "2026-12-01")
    assert current(tree) == "0.2.0"
    assert (tree / "requirements/sdk.in").read_text() == "# Words.\ntidegate-sdk==0.2.0\n"
    assert (tree / "CHANGELOG.md").read_text() == (
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- Cakes.\n"
    )
    assert notes(tree, "0.2.0") == "### Added\n\n- Cakes."


def test_the_first_release_keeps_its_version(tree: Path) -> None:
    set_version(tree, "0.1.0", "2026-12-01")
    assert current(tree) == "0.1.0"
    with pytest.raises(VersionError, match=r"has a section \[0\.1\.0\] already"):
        set_version(tree, "0.1.0", "2026-12-02")
    with pytest.raises(VersionError, match="has nothing unreleased"):
        set_version(tree, "0.2.0", "2026-12-02")


@pytest.mark.parametrize("version", ["1", "1.2", "01.0.0", "0.1.0rc1", "0.0.9"])
def test_wrong_versions_change_nothing(tree: Path, version: str) -> None:
    before = texts(tree)
    with pytest.raises(VersionError):
        set_version(tree, version, "2026-12-01")
    assert texts(tree) == before


def test_versions_that_differ_are_named(tree: Path) -> None:
    (tree / "sdk/pyproject.toml").write_text('[project]\nversion = "0.1.1"\n')
    with pytest.raises(VersionError, match=r"sdk/pyproject\.toml': '0\.1\.1'"):
        current(tree)


def test_a_version_without_notes_is_not_released(tree: Path) -> None:
    with pytest.raises(VersionError, match=r"make release VERSION=0\.1\.0"):
        notes(tree, "0.1.0")
