"""The wheels of both distributions: the same bytes for the same commit.

They are built of copies of the files that git has, so that nothing else gets in, with the modes
that git knows and the time of the commit. Setuptools is that of the environment, which is pinned.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DISTRIBUTIONS: Final = (".", "sdk")

_UMASK: Final = 0o022
_MODE: Final = 0o644
_MODE_OF_PROGRAMS: Final = 0o755


class BuildError(Exception):
    """A wheel cannot be built; the message says why."""


def build(out: Path) -> list[Path]:
    """Build both wheels into a folder and answer them. Raises BuildError."""
    out.mkdir(parents=True, exist_ok=True)
    before = set(out.glob("*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "built"
        copy = Path(folder) / "tidegate"
        _copy_sources(copy)
        for distribution in DISTRIBUTIONS:
            _wheel(copy / distribution, built)
        for wheel in before:
            if any(wheel.name.split("-")[0] == new.name.split("-")[0] for new in built.iterdir()):
                wheel.unlink()
        return sorted(Path(shutil.copy(wheel, out)) for wheel in built.iterdir())


def commit_time_s() -> int:
    """When what is checked out was committed."""
    return int(_git("log", "-1", "--format=%ct").strip())


def _copy_sources(target: Path) -> None:
    for name in _git("ls-files", "-z").split("\0"):
        source, copied = ROOT / name, target / name
        if not name or source.is_symlink() or not source.is_file():
            continue
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copied)
        copied.chmod(_MODE_OF_PROGRAMS if source.stat().st_mode & 0o100 else _MODE)


def _wheel(source: Path, target: Path) -> None:
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir", "--quiet")
    ran = subprocess.run(  # noqa: S603 - pip
        [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(target), "."],
        cwd=source,
        # Setuptools makes files of its own, whose modes go into the wheel.
        umask=_UMASK,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(commit_time_s())},  # noqa: TID251 - pip's
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise BuildError(f"pip wheel: {' '.join(ran.stderr.split())}")


def _git(*arguments: str) -> str:
    ran = subprocess.run(  # noqa: S603 - git
        ["git", *arguments],  # noqa: S607 - as above
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        raise BuildError(f"git {arguments[0]}: {' '.join(ran.stderr.split())}")
    return ran.stdout
