"""The jobs behind audits: what they run, what they are told, what they may do, and when."""

import re
from typing import Any

import pytest

from infra.audit_tables import AUDIT_TABLES
from infra.options import StageOptions
from tests.rehearsal.infra.synthesis import (
    EVERYTHING,
    ROOT,
    Template,
    listed,
    of_type,
    statements,
    templates,
    text,
)

pytestmark = pytest.mark.xdist_group("infra")

JOBS = ("export_table", "audit", "digest")
OF_GLUE = {
    *("additional-python-modules", "extra-py-files", "enable-metrics"),
    "enable-continuous-cloudwatch-log",
}


def analytics() -> Template:
    return templates(EVERYTHING)["analytics"]


def job(module: str) -> dict[str, Any]:
    name = f"tidegate-{EVERYTHING.name}-{module.replace('_', '-')}"
    (found,) = (
        one["Properties"]
        for one in of_type(analytics(), "AWS::Glue::Job").values()
        if one["Properties"]["Name"] == name
    )
    properties: dict[str, Any] = found
    return properties


def arguments_of(module: str) -> tuple[set[str], set[str]]:
    """All that a job takes, and what it has to be given, read from its text."""
    source = (ROOT / f"glue_jobs/{module}.py").read_text(encoding="utf-8")
    lines = [line for line in source.splitlines() if line.startswith('    Argument("')]
    texts = [re.findall(r'"([^"]*)"', line) for line in lines]
    return {its[0] for its in texts}, {its[0] for its in texts if len(its) == len(("name", "help"))}


def rights() -> dict[str, tuple[set[str], str]]:
    return {
        statement["Sid"]: (set(listed(statement["Action"])), text(statement["Resource"]))
        for _, statement in statements(analytics())
    }


def test_a_stage_has_no_audits_unless_it_asks_for_them() -> None:
    template = templates(StageOptions("s"))["analytics"]
    assert not of_type(template, "AWS::Glue::Job")
    assert not any("audit" in name.lower() for name in template["Resources"])


@pytest.mark.parametrize("module", JOBS)
def test_each_job_is_told_what_it_takes(module: str) -> None:
    its = job(module)
    given = {name.removeprefix("--") for name in its["DefaultArguments"]} - OF_GLUE
    known, needed = arguments_of(module)
    assert needed <= given <= known
    assert its["ExecutionProperty"] == {"MaxConcurrentRuns": 1}


def test_places_fit_together() -> None:
    told = {module: job(module)["DefaultArguments"] for module in JOBS}
    assert text(told["export_table"]["--out"]) == text(told["audit"]["--exports"])
    assert text(told["audit"]["--out"]) == text(told["digest"]["--place"])
    assert told["digest"]["--apart"] == "_drafts/"
    for name in (EVERYTHING.state.table, *EVERYTHING.state.cells):
        assert f":table/{name}" in text(told["export_table"]["--tables"])
    assert told["audit"].get("--table", "") == ("all" if EVERYTHING.state.cells else "")


def test_each_job_has_its_schedule() -> None:
    when = {
        trigger["Properties"]["Name"].removeprefix(f"tidegate-{EVERYTHING.name}-"): (
            trigger["Properties"]["Schedule"]
        )
        for trigger in of_type(analytics(), "AWS::Glue::Trigger").values()
    }
    assert when["export-table-hourly"] == "cron(5 * * * ? *)"
    assert when["audit-daily"] == "cron(30 3 * * ? *)"
    assert when["digest-hourly"] == "cron(50 * * * ? *)"


def test_nothing_that_is_kept_can_be_removed_by_audits() -> None:
    found = rights()
    for sid in ("Reports", "Digests"):
        assert found[sid][0] == {"s3:GetObject", "s3:PutObject"}
        assert "/bills/*" in found[sid][1]
    assert found["Export"][0] == {"dynamodb:ExportTableToPointInTime", "dynamodb:ListExports"}
    assert "*" not in found["Export"][1]
    assert found["Objects"][0] == {
        *("s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl"),
    }
    assert "/exports/*" in found["Objects"][1]


def test_tables_have_the_columns_of_reports() -> None:
    source = (ROOT / "glue_jobs/templates/audit.html.j2").read_text(encoding="utf-8")
    tables = {
        one["Properties"]["TableInput"]["Name"]: one["Properties"]["TableInput"]
        for one in of_type(analytics(), "AWS::Glue::Table").values()
    }
    for name, columns in AUDIT_TABLES.items():
        its = tables[f"audit_{name}"]
        assert [one["Name"] for one in its["StorageDescriptor"]["Columns"]] == list(columns)
        location = text(its["Parameters"]["storage.location.template"])
        assert f"/audit/${{moment}}/{name}" in location
        assert f"{name}/rows.csv" in source or name == "metered"
