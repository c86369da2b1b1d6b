"""Commands that are printed, to be run again as they stand."""

import shlex
import sys
from pathlib import Path


def module_command(module: str, *arguments: str) -> str:
    """What runs a module as it was run here: by this interpreter, from the working directory."""
    python, folder = Path(sys.executable), Path.cwd()
    if python.is_relative_to(folder):
        python = python.relative_to(folder)
    return shlex.join([str(python), "-m", module, *arguments])
