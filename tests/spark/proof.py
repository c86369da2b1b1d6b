"""`python -m tests.spark.proof make|again FOLDER`: a bill of `usage` there, and what kills leave.

`make` writes the bill, what a kill at some of its steps would leave, and `said.json`; `again` goes
on from each, in its own process, and adds to `said.json` what came to other bytes.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from pyarrow import parquet

from glue_jobs.session import open_session
from tests.spark.steps import bill_in_steps, unequal

_STEPS_TRIED: Final = 6
_SEED: Final = 8
_COLUMNS: Final = ("hour", "account", "queue", "operation")
_COUNTED: Final = ("requests", "units", "messages", "bytes")


def main(given: Sequence[str]) -> int:
    """Make, or go on."""
    way, folder = given
    root = Path(folder)
    session = open_session("proof", cores="2", is_little=True)
    said = _make(session, root) if way == "make" else _again(session, root)
    (root / "said.json").write_text(json.dumps(said))
    return 0


def _options(root: Path) -> dict[str, Any]:
    days = sorted((root / "usage/records").glob("date=*"))
    (period,) = {day.name.removeprefix("date=")[:7] for day in days}
    return {"usage": str(root / "usage"), "out": str(root / "bills"), "period": period}


def _make(session: Any, root: Path) -> dict[str, Any]:
    _summary, steps = bill_in_steps(session, _options(root), root / "kept")
    (pointer,) = (root / "bills/runs").rglob("*.json")
    tables = sorted((root / "bills/usage_hourly").rglob("rows.parquet"))
    rows = [
        {name: row[name] for name in (*_COLUMNS, *_COUNTED)}
        for path in tables
        for row in parquet.ParquetFile(path).read().to_pylist()
    ]
    gaps = json.loads(pointer.read_bytes())["gaps"]
    return {"rows": rows, "gaps": gaps, "steps": len(steps), "kept": steps}


def _again(session: Any, root: Path) -> dict[str, Any]:
    said: dict[str, Any] = json.loads((root / "said.json").read_bytes())
    names = sorted(said["kept"])
    some = Random(_SEED).sample(names, min(_STEPS_TRIED, len(names)))
    tried = {name: said["kept"][name] for name in sorted(some)}
    said["unequal"] = unequal(session, _options(root), root / "kept", tried)
    said["tried"] = len(tried)
    return said


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
