"""The project as `chalice` finds it, in a folder of its own, and its command line."""

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.asset import ROOT, AssetError, fetch
from infra.options import ServiceOptions
from tests.rehearsal.dynamodb_local import ENVIRONMENTS
from tests.rehearsal.emulators import REGION
from tests.rehearsal.processes import HOST, Program, UnavailableError

LOCK: Final = ROOT / "requirements" / "chalice-functions.txt"
RUNTIME: Final = "python3.11"
"""That of Chalice's environment: it packages for the Python that it runs on."""

_BIN: Final = ENVIRONMENTS / "chalice" / "bin"
_PACKAGE_S_MAX: Final = 1800


def config() -> dict[str, Any]:
    """What `.chalice/config.json` says."""
    said: dict[str, Any] = json.loads((ROOT / ".chalice" / "config.json").read_text("utf-8"))
    return said


def command() -> Path:
    """Chalice's program. Raises UnavailableError."""
    found = _BIN / "chalice"
    if not found.exists():
        raise UnavailableError("Chalice is not installed (requirements/chalice.txt)")
    return found


@dataclass(frozen=True, slots=True)
class Project:
    """A copy of the project at `folder`, whose files are links but for `.chalice`."""

    folder: Path

    @classmethod
    def at(cls, folder: Path, **environment: str) -> "Project":
        """Make it; the environment of its functions is that of the stage `dev`, and this."""
        folder.mkdir(parents=True)
        for name in ("app.py", "vendor"):
            (folder / name).symlink_to(ROOT / name)
        shutil.copyfile(ROOT / "requirements.txt", folder / "requirements.txt")
        shutil.copytree(
            ROOT / ".chalice", folder / ".chalice", ignore=shutil.ignore_patterns("deploy*")
        )
        said = config()
        said["stages"]["dev"]["environment_variables"].update(environment)
        (folder / ".chalice" / "config.json").write_text(json.dumps(said), encoding="utf-8")
        return cls(folder)

    def package(self, out: Path) -> Mapping[str, Any]:
        """Run `chalice package`, on wheels that are here already; the template it wrote."""
        done = subprocess.run(
            [str(command()), "package", "--stage", "dev", str(out)],
            cwd=self.folder,
            env={**_environment(), "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": " ".join(wheels())},
            capture_output=True,
            text=True,
            timeout=_PACKAGE_S_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Could not install dependencies" not in done.stdout, done.stdout
        template: dict[str, Any] = json.loads((out / "sam.json").read_text("utf-8"))
        return template

    def local(self, port: int) -> Program:
        """`chalice local`."""
        words = ["local", "--no-autoreload", "--stage", "dev", "--host", HOST, "--port", str(port)]
        return Program(
            "chalice local",
            [str(command()), *words],
            port,
            "/health",
            _environment(),
            folder=self.folder,
        )


def wheels() -> list[str]:
    """Folders with the wheels of the lock, for this machine and for Lambda's."""
    architectures = {config()["lambda_architecture"], "x86_64"}
    try:
        return [
            str(fetch(ServiceOptions(runtime=RUNTIME, architecture=one), LOCK))
            for one in sorted(architectures)
        ]
    except AssetError as error:
        raise UnavailableError(f"the wheels of `chalice package`: {error}") from error


def _environment() -> dict[str, str]:
    own = {
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "rehearsal",
        "AWS_SECRET_ACCESS_KEY": "rehearsal",
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return {**os.environ, **own}
