"""`make release`: version and changelog, wheels built twice, their materials, known weaknesses.

Without VERSION it releases the version that the tree has. Nothing is uploaded, tagged or signed:
that happens where it is published.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from infra.release.versions import VersionError, current, notes, set_version
from infra.release.wheels import ROOT, BuildError, build, commit_time_s

DIST: Final = ROOT / "dist"
_LOCK: Final = ROOT / "requirements/serve.txt"
_SUMS: Final = "SHA256SUMS"


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m infra.release")
    parser.add_argument(
        "--version", default="", help="set it first, in all files and the changelog"
    )
    parser.add_argument("--out", type=Path, default=DIST, help="folder for what is made")
    parser.add_argument("--no-audit", action="store_true", help="ask nobody for known weaknesses")
    options = parser.parse_args()
    try:
        if options.version:
            set_version(ROOT, options.version, _day())
            say(f"version {options.version} is written: commit it, then `make release` again")
            return 0
        return release(options.out, audits=not options.no_audit)
    except (BuildError, VersionError) as error:
        say(str(error))
        return 1


def release(out: Path, *, audits: bool) -> int:
    """Make all files of a release; the exit code. Raises BuildError, VersionError."""
    version = current(ROOT)
    said = notes(ROOT, version)
    made = build(out)
    with tempfile.TemporaryDirectory() as folder:
        again = {path.name: digest(path) for path in build(Path(folder))}
    for path in made:
        if digest(path) != again[path.name]:
            raise BuildError(f"{path.name} has other bytes when it is built again")
    (out / "NOTES.md").write_text(f"{said}\n", encoding="utf-8")
    made += [_materials(out / f"tidegate-{version}.cdx.json"), out / "NOTES.md"]
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in sorted(made))
    (out / _SUMS).write_text(sums, encoding="utf-8")
    for line in sums.splitlines():
        say(line)
    return _audit() if audits else 0


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def say(line: str) -> None:
    """Tell whoever releases."""
    sys.stderr.write(f"release: {line}\n")


def _materials(path: Path) -> Path:
    """A CycloneDX bill of materials of what is installed beside the wheels, by hash."""
    command = [_tool("cyclonedx-py"), "requirements", "--output-reproducible", "--validate"]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "-o", str(path), str(_LOCK)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if ran.returncode:
        raise BuildError(f"cyclonedx-py: {' '.join(ran.stderr.split())}")
    return path


def _audit() -> int:
    """Ask for known weaknesses of what is pinned; 1: there are some, or nobody could say."""
    command = [_tool("pip-audit"), "--strict", "--disable-pip", "--require-hashes", "--no-deps"]
    ran = subprocess.run([*command, "-r", str(_LOCK)], check=False)  # noqa: S603 - ours
    if ran.returncode:
        say("the audit of known weaknesses did not pass: see above")
    return ran.returncode


def _tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _day() -> str:
    now_s = int(os.environ.get("SOURCE_DATE_EPOCH") or 0) or commit_time_s()  # noqa: TID251 - as tools
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%d")


if __name__ == "__main__":
    sys.exit(main())
