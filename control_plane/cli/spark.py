"""Which Python runs the jobs on Spark: they have an environment of their own, or share this one."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

_OF_CHECKOUT: Final = Path(__file__).parents[2] / ".venvs/spark/bin/python"

python_option = click.option(
    "--python",
    type=click.Path(path_type=Path),
    show_default="this one, where it has Spark, else that of `make bill`",
    help="The Python that has Spark.",
)


def spark_python(named: Path | None) -> Path:
    """The Python that was named, else one that has Spark. Raises click.UsageError."""
    found = named if named is not None else find_python()
    if found is not None and found.exists():
        if named is not None:
            _check_jobs(named)
        return found
    missing = "this needs Spark" if found is None else f"--python: {found} is not there"
    raise click.UsageError(f"{missing}; {how_to_install()} installs it")


def _check_jobs(python: Path) -> None:
    """Raise click.UsageError unless it runs the jobs: they say by code 1 what no other means."""
    command = [str(python), "-c", "import glue_jobs.bill, glue_jobs.audit"]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - it was named
    except subprocess.CalledProcessError as error:
        said = str(error.stderr).strip().rpartition("\n")[2] or str(error)
    except OSError as error:
        said = str(error.strerror)
    else:
        return
    raise click.UsageError(f"--python: {python} does not run the jobs: {said}")


def find_python() -> Path | None:
    """This Python where it has Spark, else that of the checkout; None: there is no Spark."""
    if find_spec("pyspark") is not None:
        return Path(sys.executable)
    return _OF_CHECKOUT if _OF_CHECKOUT.exists() else None


def how_to_install() -> str:
    """The command that installs Spark."""
    in_checkout = (_OF_CHECKOUT.parents[3] / "Makefile").exists()
    return "`make bill`" if in_checkout else "`pip install 'tidegate[bill]'`"
