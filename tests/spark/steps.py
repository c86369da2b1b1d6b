"""What a bill leaves that is killed at any of its steps, and what comes of it in another process.

A process that is killed leaves what it has written by then. So one bill, which keeps a copy of its
outputs at each of its steps, shows what a kill at each of them would leave.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import Any, Final

from pyspark.sql import SparkSession

from glue_jobs.billing_options import Options, Summary
from glue_jobs.billing_run import BillingRun
from glue_jobs.places import FolderPlace
from glue_jobs.progress import Progress
from glue_jobs.session import open_session

_WRITES: Final = ("put", "put_new", "move", "clear")
"""All that changes a place; Spark's own drafts lie there when the next of these begins."""

Step = Callable[[str], None]


@contextmanager
def told_of_steps(step: Step) -> Iterator[Progress]:
    """Call `step` before and after each change of a place, and, by the progress, of each part."""
    of_before = {name: getattr(FolderPlace, name) for name in _WRITES}

    def told(name: str) -> Callable[..., Any]:
        def tell(self: FolderPlace, what: str, *given: Any) -> Any:
            step(f"before {name} {what}")
            result = of_before[name](self, what, *given)
            step(f"after {name} {what}")
            return result

        return tell

    try:
        for name in _WRITES:
            setattr(FolderPlace, name, told(name))
        yield Progress("", lambda line: step(line.removeprefix(":").strip().partition(" (")[0]))
    finally:
        for name, method in of_before.items():
            setattr(FolderPlace, name, method)


def bill_in_steps(
    session: SparkSession, options: Mapping[str, Any], kept: Path
) -> tuple[Summary, dict[str, str]]:
    """Bill, and keep what there is at each step, below `kept`; by name the step that it is of.

    What is as it was at the step before is not kept again.
    """
    out = Path(str(options["out"]))
    steps: dict[str, str] = {}
    known: set[str] = set()

    def keep(step: str) -> None:
        state = sha256(repr(sorted(all_of(out).items())).encode()).hexdigest()
        if state in known:
            return
        known.add(state)
        name = f"{len(steps):04}"
        steps[name] = step
        (kept / name).mkdir(parents=True)
        if out.exists():
            copytree(out, kept / name, dirs_exist_ok=True)

    with told_of_steps(keep) as progress:
        return BillingRun(session, Options(**options), progress).run(), steps


def unequal(
    session: SparkSession, options: Mapping[str, Any], kept: Path, steps: Mapping[str, str]
) -> list[str]:
    """The steps from which a bill that goes on comes to other bytes than the one that was not cut.

    `options` are those of that one.
    """
    whole = all_of(Path(str(options["out"])))
    problems = []
    for name, step in steps.items():
        given = Options(**{**options, "out": str(kept / name)})
        BillingRun(session, given, Progress("", lambda _: None)).run()
        if (its := all_of(kept / name)) != whole:
            differing = sorted(what for what, _ in its.items() ^ whole.items())
            problems.append(f"killed at {step}: {', '.join(differing[:5])}")
    return problems


def all_of(out: Path) -> Mapping[str, bytes]:
    """Every file, names of runs included, and hidden ones."""
    return {
        str(path.relative_to(out)): path.read_bytes() for path in out.rglob("*") if path.is_file()
    }


def _main(told: str, kept: str) -> None:
    """Bill in steps by options in JSON, and print which steps there were."""
    session = open_session("steps", cores="2", is_little=True)
    _summary, steps = bill_in_steps(session, json.loads(told), Path(kept))
    session.stop()
    print(json.dumps(steps))


if __name__ == "__main__":
    _main(*sys.argv[1:])
