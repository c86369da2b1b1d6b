"""Run a module with a fault: `python -m tests.drills.planted FAULT -m MODULE ARGUMENTS`."""

import runpy
import sys

from tests.drills.planted.faults import FAULTS

if __name__ == "__main__":
    _, name, _, module, *arguments = sys.argv
    FAULTS[name].plant()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
