"""The version, which stands in three files, and the changelog's sections."""

import re
from pathlib import Path
from typing import Final

_VERSION: Final = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
_PLACES: Final = (
    ("data_plane/__init__.py", re.compile(r'(?m)^(VERSION: Final = ")[^"]*(")$')),
    ("sdk/pyproject.toml", re.compile(r'(?m)^(version = ")[^"]*(")$')),
    ("requirements/sdk.in", re.compile(r"(?m)^(tidegate-sdk==)\S+()$")),
)
_CHANGELOG: Final = "CHANGELOG.md"
_UNRELEASED: Final = "## [Unreleased]\n"


class VersionError(Exception):
    """The version cannot be released; the message says why."""


def current(root: Path) -> str:
    """The version of a tree. Raises VersionError unless all places say the same."""
    said = {path: _said(root, path, pattern) for path, pattern in _PLACES}
    if len(set(said.values())) != 1:
        raise VersionError(f"the versions differ: {said}")
    return next(iter(said.values()))


def notes(root: Path, version: str) -> str:
    """What the changelog says of a version. Raises VersionError where it says nothing."""
    text = (root / _CHANGELOG).read_text(encoding="utf-8")
    found = re.search(
        rf"(?ms)^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## \[|\Z)", text
    )
    if found is None or not found[1].strip():
        raise VersionError(
            f"{_CHANGELOG} has no section [{version}]: make release VERSION={version}"
        )
    return found[1].strip()


def set_version(root: Path, version: str, day: str) -> None:
    """Write a version (x.y.z) everywhere, and make a section of what is unreleased.

    Raises VersionError, and changes nothing then.
    """
    if _VERSION.fullmatch(version) is None:
        raise VersionError(f"{version!r} is not of the form x.y.z")
    changelog = root / _CHANGELOG
    text = changelog.read_text(encoding="utf-8")
    if f"## [{version}]" in text:
        raise VersionError(f"{_CHANGELOG} has a section [{version}] already")
    before, mark, after = text.partition(_UNRELEASED)
    if not mark or not after.partition("\n## [")[0].strip():
        raise VersionError(f"{_CHANGELOG} has nothing unreleased")
    if _numbers(version) < _numbers(current(root)):
        raise VersionError(f"{version} is older than {current(root)}")
    for path, pattern in _PLACES:
        file = root / path
        replaced = pattern.sub(rf"\g<1>{version}\g<2>", file.read_text(encoding="utf-8"), count=1)
        file.write_text(replaced, encoding="utf-8")
    changelog.write_text(f"{before}{mark}\n## [{version}] - {day}\n{after}", encoding="utf-8")


def _said(root: Path, path: str, pattern: re.Pattern[str]) -> str:
    found = pattern.search((root / path).read_text(encoding="utf-8"))
    if found is None:
        raise VersionError(f"{path} says no version")
    whole = found.group()
    return whole[len(found[1]) : len(whole) - len(found[2])]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
