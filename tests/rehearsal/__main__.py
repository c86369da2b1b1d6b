"""`make rehearse`: say what can be had here, then run the rehearsals in a network of their own.

DynamoDB Local listens on all interfaces, so everything runs where there is none but loopback, if
this machine allows to make such a network.
"""

import argparse
import subprocess
import sys

from infra import asset
from infra.stage_file import read_stage
from tests.rehearsal import dynamodb_local as local
from tests.rehearsal.chalice.project import wheels
from tests.rehearsal.deployment.stage import fetch_wheels
from tests.rehearsal.installed.bare import fetch as fetch_installed
from tests.rehearsal.installed.image import fetch_base
from tests.rehearsal.processes import UnavailableError, own_network


def say(line: str) -> None:
    print(f"rehearsal: {line}", file=sys.stderr, flush=True)


def main() -> int:
    """The exit code of the tests."""
    parser = argparse.ArgumentParser(prog="python -m tests.rehearsal")
    parser.add_argument("--seeds", type=int, help="seeds for each kind of fault")
    parser.add_argument("--only", default="", metavar="EXPRESSION", help="as pytest's -k")
    options = parser.parse_args()
    prefix = own_network()
    # What the functions of a deployment need cannot be had in a network of its own.
    try:
        for lock in asset.LOCKS:
            asset.fetch(read_stage("emulator").service, lock)
    except asset.AssetError as error:
        say(f"the deployment is left out: {error}")
    if prefix:
        try:
            local.engine()
            local.java()
        except UnavailableError as error:
            say(f"DynamoDB Local is left out: {error}")
    else:
        say("DynamoDB Local is left out: no network of its own can be made here")
    try:
        fetch_wheels()
    except UnavailableError as error:
        say(f"the deployment is left out: {error}")
    try:
        wheels()
    except UnavailableError as error:
        say(f"`chalice package` is left out: {error}")
    arguments = ["--seeds", str(options.seeds)] if options.seeds is not None else []
    chosen = ["-k", options.only] if options.only else []
    try:
        fetch_installed()
    except UnavailableError as error:
        say(f"what is installed is left out: {error}")
    try:
        fetch_base()
    except UnavailableError as error:
        say(f"the image is left out: {error}")
    command = [sys.executable, "-m", "pytest", "--dist", "loadgroup", "tests/rehearsal"]
    rehearsed = subprocess.run(
        [*prefix, *command, *arguments, *chosen], cwd=local.ROOT, check=False
    )
    return rehearsed.returncode


if __name__ == "__main__":
    sys.exit(main())
