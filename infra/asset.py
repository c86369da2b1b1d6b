"""The files of functions: both planes, `app.py`, and the wheels of the Lambda runtime.

Nothing of it is built on this machine: pip takes wheels for the runtime's platform by a lock with
hashes, and keeps them in a folder, so that the next time needs no network. The asset's hash is that
of what goes in: what is the same is not uploaded again.

Lambda cannot keep compiled modules, so each start would compile all that it imports. They go in
compiled, where the Python that stages them is the runtime's.
"""

import compileall
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

from infra.options import RUNTIMES, ServiceOptions

ROOT: Final = Path(__file__).parents[1]
LOCK: Final = ROOT / "requirements" / "lambda.txt"
USAGE_LOCK: Final = ROOT / "requirements" / "lambda-usage.txt"
"""Of the function that stores usage records, which alone needs a big package for Parquet."""

LOCKS: Final = (LOCK, USAGE_LOCK)
WHEELS: Final = ROOT / "build" / "wheels"

SIZE_BYTES_MAX: Final = 250 * 1024 * 1024
"""Of a function's code, unpacked.

https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
"""

_TASK_ROOT: Final = "/var/task"
"""Where functions have their files: what tracebacks name."""

_ENTRY: Final = "app.py"
_PLANES: Final = ("data_plane", "control_plane")
_SUFFIXES: Final = frozenset({".py", ".json"})
_LOCK_HASH_CHARS: Final = 16
_LEFT_OUT: Final = frozenset({"__pycache__", "tests", "bin"})
_NOT_USED: Final = ("include", "*flight*")
"""Of pyarrow: headers, and a remote protocol. Nothing else of it is linked to them."""

_MACHINES: Final = {"arm64": "aarch64", "x86_64": "x86_64"}
_GLIBC_MINOR_OLDEST: Final = 17
_GLIBC_MINOR: Final = {"python3.11": 26}
"""Amazon Linux 2 has glibc 2.26, and later runtimes are on Amazon Linux 2023."""
_GLIBC_MINOR_LATER: Final = 34


class AssetError(Exception):
    """The asset cannot be made; the message says why."""


def sources() -> Iterator[Path]:
    """The project's own files that go in, relative to its root, in a fixed order."""
    yield Path(_ENTRY)
    for plane in _PLANES:
        for path in sorted((ROOT / plane).rglob("*")):
            if path.suffix in _SUFFIXES and path.is_file():
                yield path.relative_to(ROOT)


def is_compiled(options: ServiceOptions, version: tuple[int, int] = sys.version_info[:2]) -> bool:
    """Whether a Python of this version can compile for the runtime."""
    return RUNTIMES[options.runtime] == version


def digest(options: ServiceOptions, lock: Path | None = None) -> str:
    """What the asset is known by: the hash of all that goes in."""
    lock = lock or LOCK
    kind = f"{options.runtime} {options.architecture} {is_compiled(options)}"
    whole = hashlib.sha256(kind.encode())
    for path in (*sources(), lock.relative_to(ROOT), Path(__file__).relative_to(ROOT)):
        content = hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
        whole.update(f"\n{path.as_posix()} {content}".encode())
    return whole.hexdigest()


def stage(options: ServiceOptions, target: Path, lock: Path | None = None) -> None:
    """Lay the asset's files in a directory. Raises AssetError."""
    _install(options, target, lock or LOCK)
    for path in [path for path in target.rglob("*") if path.name in _LEFT_OUT and path.is_dir()]:
        shutil.rmtree(path, ignore_errors=True)
    for pattern in _NOT_USED:
        for path in (target / "pyarrow").glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in sources():
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target / path)
    if is_compiled(options):
        compileall.compile_dir(
            target,
            quiet=1,
            stripdir=str(target),
            prependdir=_TASK_ROOT,
            # Nothing looks at the sources again: they are what was compiled.
            invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
        )
    size_bytes = size(target)
    if size_bytes > SIZE_BYTES_MAX:
        raise AssetError(f"{size_bytes} bytes of code, Lambda takes {SIZE_BYTES_MAX}")


def size(target: Path) -> int:
    """Bytes of all files in a directory."""
    return sum(path.stat().st_size for path in target.rglob("*") if path.is_file())


def platforms(options: ServiceOptions) -> list[str]:
    """The tags of wheels that the runtime takes, newest first."""
    machine = _MACHINES[options.architecture]
    newest = _GLIBC_MINOR.get(options.runtime, _GLIBC_MINOR_LATER)
    tags = [
        f"manylinux_2_{minor}_{machine}" for minor in range(newest, _GLIBC_MINOR_OLDEST - 1, -1)
    ]
    return [*tags, f"manylinux2014_{machine}"]


def fetch(options: ServiceOptions, lock: Path | None = None) -> Path:
    """The folder with the wheels of the lock, filled if it is not there. Raises AssetError."""
    lock = lock or LOCK
    locked = hashlib.sha256(lock.read_bytes()).hexdigest()[:_LOCK_HASH_CHARS]
    wheels = WHEELS / f"{options.runtime}-{options.architecture}-{locked}"
    if not wheels.exists():
        with tempfile.TemporaryDirectory(dir=_made(WHEELS)) as folder:
            fetched = _made(Path(folder) / "wheels")
            _pip("download", "--dest", str(fetched), *_wheels_alone(options, lock))
            try:
                fetched.rename(wheels)
            except OSError:
                # Somebody else was faster.
                if not wheels.exists():
                    raise
    return wheels


def _install(options: ServiceOptions, target: Path, lock: Path) -> None:
    source = ("--no-index", "--find-links", str(fetch(options, lock)))
    wheels = _wheels_alone(options, lock)
    _pip("install", "--no-compile", "--target", str(target), *source, *wheels)


def _wheels_alone(options: ServiceOptions, lock: Path) -> tuple[str, ...]:
    """What makes pip take what the runtime takes, as the lock says, and run nothing."""
    version = ".".join(map(str, RUNTIMES[options.runtime]))
    return (
        *("--require-hashes", "--no-deps", "--only-binary", ":all:"),
        *("--implementation", "cp", "--python-version", version),
        *(word for tag in platforms(options) for word in ("--platform", tag)),
        *("--requirement", str(lock)),
    )


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - pip
    if done.returncode:
        raise AssetError(f"pip {arguments[0]}: {' '.join(done.stderr.split())}")
