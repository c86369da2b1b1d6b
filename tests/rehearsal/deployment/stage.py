"""The stage that is deployed: one for the emulator, which runs functions on this machine."""

import json
import platform
import sys
from pathlib import Path
from typing import Final

from infra.asset import LOCKS, AssetError, fetch
from infra.options import ServiceOptions
from tests.rehearsal.processes import UnavailableError

RUNTIME: Final = f"python{sys.version_info.major}.{sys.version_info.minor}"
"""That of the emulator's environment, which is made of the same Python."""

ARCHITECTURE: Final = "arm64" if platform.machine() in {"arm64", "aarch64"} else "x86_64"

_STAGE: Final = f"""
name = "rehearsal"
account = "000000000000"
region = "us-east-1"
emulator = true

[service]
function_url = true
runtime = "{RUNTIME}"
architecture = "{ARCHITECTURE}"
memory_mb = 512
log_level = "info"
log_days = 1
"""


def fetch_wheels() -> None:
    """Have the wheels of the functions on this machine. Raises UnavailableError."""
    try:
        for lock in LOCKS:
            fetch(ServiceOptions(runtime=RUNTIME, architecture=ARCHITECTURE), lock)
    except AssetError as error:
        raise UnavailableError(f"the wheels of the functions: {error}") from error


def write_stage(
    file: Path, *, endpoint: str, long_poll_s_max: int, cells: tuple[str, ...] = ()
) -> None:
    """Write the TOML file of the stage, with AWS's APIs at this endpoint, and further cells."""
    options = f'endpoint = "{endpoint}"\nlong_poll_s_max = {long_poll_s_max}\n'
    options += "[analytics]\nbills = true\naudits = true\n"
    options += '[monitoring]\nemail = "operators@example.com"\n'
    options += '[[monitoring.queues]]\nqueue = "watched"\nage_s_max = 900\n'
    if cells:
        # Here nobody has an old map: there is one sandbox of each function.
        options += f"[state]\ncells = {json.dumps(cells)}\nkeeps = false\n[cluster]\ngrace_s = 0\n"
    file.write_text(_STAGE + options)
