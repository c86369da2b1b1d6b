"""The deployed jobs, each run as deployed, over what deployed functions wrote."""

import os
import re
import subprocess
from typing import Final

import pytest

from tests.rehearsal.deployment.story import FIFO, STANDARD, Story, counted
from tests.rehearsal.glue.job import SPARK

pytestmark = pytest.mark.xdist_group("deployment")

JOBS: Final = {
    "present": "bill",
    "previous": "bill",
    "again": "bill",
    "export_table": "export-table",
}
"""Names of jobs, where a run of the story has another one."""


def test_each_run_ends_well_and_says_what_it_does(story: Story) -> None:
    ended = {name: run.code for name, run in story.runs.items()}
    assert ended == dict.fromkeys(story.runs, 0), [run.log for run in story.runs.values()]
    steps = {
        name: re.findall(r"^\w+:   (.*) \(\d+\.\d s\)$", run.log, re.MULTILINE)
        for name, run in story.runs.items()
    }
    assert len(steps["present"]) == len(("looked", "added up", "rated", "wrote"))
    assert len(steps["audit"]) == len(("exports", "usage", "items", "messages", "compared"))
    assert re.search(r"audit: 0 errors, \d+ notes?: s3://", story.runs["audit"].log)
    assert re.search(r"digest 1 of \S+: \d+ new, head [0-9a-f]{64}", story.runs["digest"].log)


def test_modules_are_those_of_the_deployment(story: Story) -> None:
    """This repository's own are installed beside Spark, and must not stand before them."""
    (modules,) = story.jobs.folder.glob("*.zip")
    environment = {**os.environ, "PYTHONPATH": str(modules)}
    command = [str(SPARK / "python"), "-c", "import glue_jobs.audit as its; print(its.__file__)"]
    ran = subprocess.run(
        command, cwd=story.jobs.folder, env=environment, capture_output=True, text=True, check=True
    )
    assert ran.stdout.startswith(f"{modules}/")


def test_roles_allow_all_that_jobs_do(story: Story) -> None:
    for name, run in story.runs.items():
        assert len(run.calls) > 1
        assert story.jobs.refused(JOBS.get(name, name), run) == [], name
    # Had audits what bills may do, and nothing else, this would show.
    assert story.jobs.refused("digest", story.runs["present"]) != []


def test_bills_are_what_the_client_was_told(story: Story) -> None:
    rows = story.rows("bills/usage_hourly/")
    assert counted(rows, "requests") == story.requests
    assert counted(rows, "messages") == story.messages
    (invoice,) = [
        row for row in story.rows("bills/invoices/") if "payable" in row and row["payable"] == 0
    ]
    assert invoice["account"] == "000000000000"
    # A month without usage has tables without rows, and no object that is none.
    assert [name for name in story.objects("bills/") if "//" in name or name.endswith("/")] == []


def test_a_bill_of_the_same_usage_is_the_same(story: Story) -> None:
    assert "nothing is new" in story.runs["again"].log
    assert story.billed_again == story.billed != {}


def test_the_audit_accounts_for_each_message(story: Story) -> None:
    assert [row for row in story.table("findings") if row["severity"] == "error"] == []
    found = {row["queue"]: row for row in story.table("conservation")}
    for queue in (STANDARD, FIFO):
        rows = [row for row in story.table("conservation") if row["queue"] == queue]
        sums = {name: sum(int(row[name]) for row in rows) for name in ("sent", "deleted", "stored")}
        assert sums == {"sent": 8, "deleted": 3, "stored": 5}
        (metered,) = [row for row in story.table("metered") if row["queue"] == queue]
        assert int(metered["metered_sent"]) == int(metered["sent"]) == 8
        assert int(metered["metered_deleted"]) == 3
    assert set(found) >= {STANDARD, FIFO}
    done = [row for row in story.table("access") if row["queue"] == STANDARD]
    assert {row["principal"] for row in done} == {"arn:aws:iam::000000000000:root"}
