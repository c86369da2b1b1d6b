"""`python -m tests.spark.audits FOLDER...`: audits of many services, one after another, in one JVM.

Each folder has `exports` and `usage`; it gets the report in `out`.
"""

import sys
from collections.abc import Sequence

from glue_jobs import audit
from glue_jobs.session import open_session


def main(folders: Sequence[str]) -> int:
    """Audit what is in these folders."""
    session = open_session("audits", is_little=True)
    for folder in folders:
        places = {name: f"{folder}/{name}" for name in ("exports", "usage", "out")}
        report = audit.run({**places, "table": "", "restored": ""}, session)
        print(f"{folder}: {report['sentence']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
