"""The image, built without Docker (buildah) and run as a container (runc), as root of a machine.

Its base is Debian's, made by debootstrap, because no registry of images can be reached from here:
`Containerfile` names another one, with the same Python.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.asset import ROOT
from tests.rehearsal.installed.bare import WHEELS, wheels
from tests.rehearsal.processes import UnavailableError

BASE: Final = ROOT / "build" / "image-base"
PYTHON: Final = "3.11"
"""Debian's, in the release of the base."""

_SUITE: Final = "bookworm"
_PACKAGES: Final = "python3,python3-venv,ca-certificates"
_TOOLS: Final = ("buildah", "runc")
_BUILD_S_MAX: Final = 600
_RUN_S_MAX: Final = 300


def fetch_base() -> None:
    """Have Debian's files where the tools are. Raises UnavailableError."""
    check_tools()
    if BASE.exists():
        return
    if shutil.which("debootstrap") is None:
        raise UnavailableError("there is no debootstrap")
    made = BASE.with_name(f"{BASE.name}.new")
    shutil.rmtree(made, ignore_errors=True)
    made.parent.mkdir(exist_ok=True)
    _run(["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(made)])
    # Devices have no end; each container gets its own.
    for name in ("dev", "var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(made / name)
        (made / name).mkdir()
    made.rename(BASE)


def check_tools() -> None:
    """Raise UnavailableError where an image can be neither built nor run."""
    missing = [name for name in _TOOLS if shutil.which(name) is None]
    if missing or os.geteuid():
        raise UnavailableError(f"{', '.join(missing) or 'root'} is needed for images")


@dataclass(slots=True)
class Image:
    """An image that is built in `folder`; `root` has its files then."""

    folder: Path
    root: Path = Path()

    @property
    def data(self) -> Path:
        """What is mounted as its volume."""
        return self.folder / "volume"

    def build(self) -> dict[str, Any]:
        """Build it as `Containerfile` says, and answer its configuration."""
        base = self._buildah("from", "scratch")
        self._buildah("add", "--quiet", base, str(BASE), "/")
        self._buildah("commit", "--quiet", "--disable-compression", base, "localhost/base")
        arguments = ["--build-arg", "BASE=localhost/base", "--build-arg", "PIP_NO_INDEX=1"]
        arguments += ["--build-arg", "PIP_FIND_LINKS=/wheels"]
        arguments += ["--volume", f"{wheels(PYTHON)}:/wheels:ro", "--isolation", "chroot"]
        arguments += ["--network", "host", "--ignorefile", str(ROOT / ".dockerignore")]
        arguments += ["--format", "docker", "--file", str(ROOT / "Containerfile")]
        self._buildah("build", "--quiet", *arguments, "--tag", "localhost/tidegate", str(ROOT))
        working = self._buildah("from", "--pull-never", "localhost/tidegate")
        self.root = Path(self._buildah("mount", working))
        told = json.loads(self._buildah("inspect", "--type", "image", "localhost/tidegate"))
        config: dict[str, Any] = told["Docker"]["config"]
        return config

    def run(
        self, name: str, config: Mapping[str, Any], more: Mapping[str, str], *arguments: str
    ) -> subprocess.Popen[str]:
        """Start a container on the image's own command, or on these arguments."""
        bundle = self.folder / "bundle"
        bundle.mkdir(exist_ok=True)
        words = [*config["Entrypoint"], *(arguments or config["Cmd"])]
        environment = [*config["Env"], *(f"{key}={value}" for key, value in more.items())]
        spec = _specification(words, environment, config, self)
        (bundle / "config.json").write_text(json.dumps(spec), encoding="utf-8")
        return subprocess.Popen(
            ["runc", "--root", str(self.folder / "runc"), "run", "--bundle", str(bundle), name],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def execute(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program in a container that runs."""
        command = ["runc", "--root", str(self.folder / "runc"), "exec", name, *words]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=_RUN_S_MAX, check=False
        )

    def stop(self, name: str) -> None:
        """Send the first process what stops it."""
        _run(["runc", "--root", str(self.folder / "runc"), "kill", name, signal.SIGTERM.name])

    def _buildah(self, *arguments: str) -> str:
        places = ("--root", str(self.folder / "store"), "--runroot", str(self.folder / "runroot"))
        return _run(["buildah", "--storage-driver", "vfs", *places, *arguments])


def _run(command: Sequence[str]) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_S_MAX, check=False)
    if ran.returncode:
        raise AssertionError(f"{command[0]}: {ran.stdout[-2000:]}{ran.stderr[-2000:]}")
    return ran.stdout.strip()


def _specification(
    words: Sequence[str], environment: Sequence[str], config: Mapping[str, Any], image: Image
) -> dict[str, Any]:
    """An OCI runtime's: the image's user, a read-only root, no rights, the network of the host."""
    user, _, group = config["User"].partition(":")
    system = ("nosuid", "noexec", "nodev")
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": [*system]},  # noqa: S108
    ]
    (volume,) = config["Volumes"]
    mounts += [
        {"destination": volume, "type": "bind", "source": str(image.data), "options": ["rbind"]}
    ]
    return {
        "ociVersion": "1.0.2",
        "root": {"path": str(image.root), "readonly": True},
        "process": {
            "user": {"uid": int(user), "gid": int(group)},
            "args": list(words),
            "env": list(environment),
            "cwd": config["WorkingDir"],
            "noNewPrivileges": True,
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 4096, "soft": 1024}],
        },
        "mounts": mounts,
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]},
    }


def fetched() -> bool:
    """Whether base and wheels are here."""
    return BASE.exists() and wheels(PYTHON).parent == WHEELS and wheels(PYTHON).exists()
