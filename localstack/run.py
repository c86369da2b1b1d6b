"""LocalStack with Tidegate in the place of its SQS, without Docker.

    python localstack/run.py awslocal sqs list-queues
    python localstack/run.py                            a shell

The command finds the way in its environment: SQS is Tidegate's, everything else LocalStack's, or
MiniStack's, which stands in where LocalStack cannot be had. All ends with it. What runs is what
`make rehearse` has installed.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
_INSTALLED: Final = ROOT / ".venvs/test/bin/python"

if importlib.util.find_spec("granian") is None:
    if not _INSTALLED.exists():
        sys.exit("localstack/run.py: what it needs is not installed yet: `make rehearse` does that")
    os.execv(_INSTALLED, [str(_INSTALLED), *sys.argv])
sys.path.insert(0, str(ROOT))  # before any distribution that ships a `tests`

from localstack.provision import REGION, provision, serve_options
from tests.ports import free_port
from tests.rehearsal import emulators
from tests.rehearsal.localstack import hooks_of, localstack
from tests.rehearsal.processes import HOST, Program, UnavailableError, own_network
from tests.rehearsal.processes import running as running_program

_ENGINES: Final = ("localstack", "ministack")
_HOOKS_S_MAX: Final = 120
_NO_COMMAND: Final = 127
"""As shells have it."""
_IN_OWN_NETWORK: Final = "--in-own-network"


@contextmanager
def serving(engine: str, folder: Path) -> Iterator[dict[str, str]]:
    """Engine and server, ready; what a client's environment needs. Raises UnavailableError."""
    port = free_port()
    tidegate = f"http://{HOST}:{port}"
    with _engine(engine, folder, tidegate) as url:
        command = [sys.executable, "-m", "control_plane.cli", "serve", "--auth", "off"]
        where = ("--port", str(port), "--data", str(folder / "data"), *serve_options(url))
        program = Program("Tidegate", [*command, *where], port, "/health", folder=ROOT)
        with running_program(program, folder / "tidegate.log"):
            # LocalStack hands calls of SQS over itself; MiniStack has no place for that.
            sqs = url if engine == "localstack" else tidegate
            yield {
                "AWS_ENDPOINT_URL": url,
                "AWS_ENDPOINT_URL_SQS": sqs,
                "LOCALSTACK_HOST": sqs.removeprefix("http://"),
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_DEFAULT_REGION": REGION,
            }


@contextmanager
def _engine(engine: str, folder: Path, tidegate: str) -> Iterator[str]:
    if engine == "ministack":
        with emulators.running("ministack", folder) as url:
            provision(url)
            yield url
        return
    with running_program(localstack(folder / "root", tidegate), folder / "localstack.log") as url:
        deadline = time.monotonic() + _HOOKS_S_MAX
        while not (states := hooks_of(url)) and time.monotonic() < deadline:
            time.sleep(0.2)  # between two looks at an engine that starts
        if set(states.values()) != {"SUCCESSFUL"}:
            raise RuntimeError(f"hooks: {states}: {(folder / 'localstack.log').read_text()}")
        yield url


def _chosen(wanted: str | None, *, in_own_network: bool) -> str:
    """The engine; LocalStack's attempt may replace this process. Raises UnavailableError."""
    if wanted == "ministack":
        return wanted
    if not in_own_network and (prefix := own_network()):
        os.execvp(prefix[0], [*prefix, sys.executable, __file__, _IN_OWN_NETWORK, *sys.argv[1:]])
    try:
        with TemporaryDirectory() as folder:
            localstack(Path(folder) / "root", "")
    except UnavailableError as error:
        if wanted is not None:
            raise
        print(f"MiniStack stands in for LocalStack: {error}", file=sys.stderr)
        return "ministack"
    return "localstack"


def main() -> int:
    """The exit code of the command."""
    parser = argparse.ArgumentParser(prog="python localstack/run.py")
    parser.add_argument("--engine", choices=_ENGINES, help="default: LocalStack if it can be had")
    parser.add_argument(_IN_OWN_NETWORK, action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="default: a shell")
    options = parser.parse_args()
    command = options.command or [os.environ.get("SHELL", "sh")]
    if shutil.which(command[0]) is None:
        told = "; it comes with `pip install awscli-local`" if command[0] == "awslocal" else ""
        print(f"localstack/run.py: {command[0]}: there is no such command{told}", file=sys.stderr)
        return _NO_COMMAND
    try:
        engine = _chosen(options.engine, in_own_network=options.in_own_network)
        with TemporaryDirectory() as folder, serving(engine, Path(folder)) as environment:
            child = subprocess.run(command, env={**os.environ, **environment}, check=False)
            return child.returncode
    except UnavailableError as error:
        print(f"{options.engine}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
