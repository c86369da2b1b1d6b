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
    only,
    statements,
    templates,
    text,
)

pytestmark = pytest.mark.xdist_group("infra")

ROLE = "AWS::IAM::Role"
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
    chained = re.findall(r'"Fn::ImportValue": "[^"]+"', text(told["digest"]["--place"]))
    assert len(chained) == 1
    assert chained[0] in text(told["audit"]["--out"])
    for name in (EVERYTHING.state.table, *EVERYTHING.state.cells):
        assert f":table/{name}" in text(told["export_table"]["--tables"])
    assert told["audit"].get("--table", "") == ("all" if EVERYTHING.state.cells else "")


def test_all_that_is_kept_is_chained_by_what_may_change_and_go() -> None:
    its = job("digest")["DefaultArguments"]
    assert '"s3://"' in text(its["--place"])
    assert its["--apart"] == "bills/_drafts/,usage/tails/"
    assert its["--changing"] == "usage/writers/,bills/accounts.json"
    # A day less than S3 keeps them.
    assert its["--kept_days"] == "exports/=34,usage/=429"
    assert its["--every_hours"] == "1"
    assert "DigestKey" in text(its["--signer"])
    assert its["--anchor"] == "s3://heads-of-everything/everything"


def test_the_job_that_signs_may_do_that_and_put_nothing_but_digests_and_heads() -> None:
    found = rights()
    assert found["Sign"][0] == {"kms:GetPublicKey", "kms:Sign", "kms:Verify"}
    assert "DigestKey" in found["Sign"][1]
    assert found["Digests"][0] == {"s3:PutObject"}
    assert "/digests/*" in found["Digests"][1]
    assert found["Chained"][0] == {"s3:GetObject"}
    assert found["Anchor"][0] == {"s3:GetObject", "s3:PutObject"}
    assert ":s3:::heads-of-everything/everything/*" in found["Anchor"][1]
    key = templates(EVERYTHING)["state"]["Resources"]["DigestKey"]["Properties"]
    assert (key["KeySpec"], key["KeyUsage"]) == ("ECC_NIST_P256", "SIGN_VERIFY")


def test_heads_lie_in_another_account_where_nobody_can_change_them() -> None:
    template = templates(EVERYTHING)["anchor"]
    bucket = only(template, "AWS::S3::Bucket")
    retention = bucket["ObjectLockConfiguration"]["Rule"]["DefaultRetention"]
    assert (bucket["ObjectLockEnabled"], retention) == (True, {"Mode": "COMPLIANCE", "Days": 400})
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    policy = only(template, "AWS::S3::BucketPolicy")["PolicyDocument"]["Statement"]
    let = [its for its in policy if its["Effect"] == "Allow"]
    assert {action for its in let for action in listed(its["Action"])} == {
        *("s3:GetObject", "s3:ListBucket", "s3:PutObject"),
    }
    roles = {text(its["Condition"]["ArnLike"]["aws:PrincipalArn"]) for its in let}
    (role,) = roles
    assert ":iam::123456789012:role/tidegate-everything-*-digest" in role
    names = {one["Properties"].get("RoleName", "") for one in of_type(analytics(), ROLE).values()}
    assert "tidegate-everything-eu-west-1-digest" in names


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
    assert found["Reports"][0] == {"s3:GetObject", "s3:PutObject"}
    assert "/bills/*" in found["Reports"][1]
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
