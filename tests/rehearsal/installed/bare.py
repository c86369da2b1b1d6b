"""Environments outside the checkout, made of wheels alone, on each Python that is here."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from infra.asset import ROOT
from tests.rehearsal.processes import UnavailableError

LOCK: Final = ROOT / "requirements" / "serve.txt"
VERSIONS: Final = ("3.11", "3.12", "3.13")
WHEELS: Final = ROOT / "build" / "wheels"

_HASH_CHARS: Final = 16
_COMMAND_S_MAX: Final = 300
_UV: Final = Path(sys.executable).with_name("uv")


def fetch() -> None:
    """Have the wheels of the lock for each Python on this machine. Raises UnavailableError."""
    for version in VERSIONS:
        folder = wheels(version)
        if folder.exists():
            continue
        WHEELS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=WHEELS) as made:
            fetched = Path(made) / "wheels"
            options = ("--require-hashes", "--no-deps", "--only-binary", ":all:")
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download"]
            command += ["--quiet", *options, "--python-version", version, "-r", str(LOCK)]
            ran = subprocess.run(
                [*command, "--dest", str(fetched)], capture_output=True, text=True, check=False
            )
            if ran.returncode:
                raise UnavailableError(" ".join(ran.stderr.split())[-300:])
            fetched.rename(folder)


def wheels(version: str) -> Path:
    """The folder of the lock's wheels for a Python."""
    locked = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:_HASH_CHARS]
    return WHEELS / f"installed-{version}-{locked}"


def interpreter(version: str) -> str:
    """A Python of this version. Raises UnavailableError."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return sys.executable
    name = f"python{version}"
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/{name}"))
    for candidate in (shutil.which(name), *map(str, kept)):
        # One that is found may only stand for others, none of which is chosen here.
        if (
            candidate is not None
            and not subprocess.run(
                [candidate, "--version"], capture_output=True, check=False
            ).returncode
        ):
            return candidate
    raise UnavailableError(f"there is no Python {version}")


@dataclass(frozen=True, slots=True)
class Bare:
    """An environment in `folder`, where commands run as a new user's do: nothing is set."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "env/bin/python"

    def make(self, version: str, distributions: Path) -> None:
        """Install `tidegate` from folders of wheels. Raises UnavailableError."""
        if not wheels(version).exists():
            raise UnavailableError(f"the wheels for Python {version} were not fetched")
        env = str(self.folder / "env")
        self._uv("venv", "--quiet", "--no-project", "--python", interpreter(version), env)
        places = ("--find-links", str(distributions), "--find-links", str(wheels(version)))
        self._uv("pip", "install", "--quiet", "--python", env, "--no-index", *places, "tidegate")

    def run(
        self, *arguments: str, environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the folder."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_S_MAX,
            check=False,
        )

    def command(self, program: str, *arguments: str) -> Sequence[str]:
        return [str(self.folder / "env/bin" / program), *arguments]

    def environment(self, more: dict[str, str] | None = None) -> dict[str, str]:
        nobody = {"HOME": str(self.folder), "PATH": os.defpath, "LANG": "C.UTF-8"}
        return {**nobody, "AWS_EC2_METADATA_DISABLED": "true", **(more or {})}

    def _uv(self, *arguments: str) -> None:
        ran = subprocess.run(
            [str(_UV), "--offline", *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
