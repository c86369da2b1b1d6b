"""The job that bills: what it runs, what it is told, what it may do, and when."""

import json
from pathlib import Path
from typing import Any

import pytest

from infra.bill_tables import TABLES
from infra.option_checks import OptionError
from infra.options import AnalyticsOptions, StageOptions
from tests.rehearsal.infra.synthesis import (
    EVERYTHING,
    ROOT,
    Template,
    find_node,
    listed,
    of_type,
    statements,
    templates,
    text,
)

pytestmark = pytest.mark.xdist_group("infra")


def analytics() -> Template:
    return templates(EVERYTHING)["analytics"]


def job() -> Template:
    (found,) = (
        one["Properties"]
        for one in of_type(analytics(), "AWS::Glue::Job").values()
        if one["Properties"]["Name"].endswith("-bill")
    )
    properties: Template = found
    return properties


def triggers() -> list[Template]:
    found = (one["Properties"] for one in of_type(analytics(), "AWS::Glue::Trigger").values())
    return [its for its in found if "-bill-" in its["Name"]]


def arguments_of_the_job() -> set[str]:
    """What the job's entry takes, read from its text: PySpark is not here."""
    source = (ROOT / "glue_jobs/bill.py").read_text(encoding="utf-8")
    return {line.split('"')[1] for line in source.splitlines() if line.startswith('    Argument("')}


def test_a_stage_has_no_job_unless_it_asks_for_bills() -> None:
    template = templates(StageOptions("s"))["analytics"]
    assert not of_type(template, "AWS::Glue::Job")
    assert not of_type(template, "AWS::Glue::Trigger")
    assert len(of_type(template, "AWS::Glue::Table")) == 1


def test_the_job_is_told_what_it_takes() -> None:
    told = job()["DefaultArguments"]
    triggered = [trigger["Actions"][0]["Arguments"] for trigger in triggers()]
    given = {name.removeprefix("--") for its in (told, *triggered) for name in its}
    of_glue = {
        *("additional-python-modules", "extra-py-files", "enable-metrics"),
        "enable-continuous-cloudwatch-log",
    }
    assert given - of_glue <= arguments_of_the_job()
    assert {"usage", "out", "period", "accounts"} <= given
    modules = [one.partition("==")[0] for one in told["--additional-python-modules"].split(",")]
    assert modules == ["fontpkg-noto-sans", "fpdf2", "jinja2"]
    assert text(told["--accounts"]).endswith('/bills/accounts.json"]]}')
    assert told["--kept_days"] == str(EVERYTHING.state.usage_days)
    assert text(told["--usage"]).startswith(text(told["--chained"]).removesuffix("]]}"))
    assert job()["GlueVersion"] == "5.1"


def test_months_are_billed_every_hour_until_they_are_closed() -> None:
    when = {trigger["Schedule"]: trigger["Actions"][0]["Arguments"] for trigger in triggers()}
    place = when["cron(40 2 5-31 * ? *)"]["--exports"]
    exports = {"--exports": place}
    assert when == {
        "cron(15 * * * ? *)": {"--period": "current"},
        "cron(40 2 1-4 * ? *)": {"--period": "previous", **exports},
        "cron(40 2 5-31 * ? *)": {"--period": "due", "--close": "yes", **exports},
    }
    assert text(place).endswith('/exports"]]}')
    assert job()["ExecutionProperty"]["MaxConcurrentRuns"] > 1


def test_the_job_reads_usage_and_exports_and_writes_bills_alone() -> None:
    rights = {
        statement["Sid"]: (set(listed(statement["Action"])), text(statement["Resource"]))
        for name, statement in statements(analytics())
        if name.startswith("Bills")
    }
    assert rights["Usage"][0] == {"s3:GetObject"}
    assert "/usage/*" in rights["Usage"][1]
    assert rights["Bills"][0] == {"s3:DeleteObject", "s3:GetObject", "s3:PutObject"}
    assert "/bills/*" in rights["Bills"][1]
    assert "/exports/*" in rights["Exports"][1]
    assert "/digests/*" in rights["Digests"][1]
    assert set(rights) == {"Usage", "Exports", "Digests", "Bills", "Names", "Code", "Logs"}
    assert "*" not in rights["Code"][1]


def test_bills_outlive_usage_records() -> None:
    bucket = templates(EVERYTHING)["state"]["Resources"]["UsageBucket"]["Properties"]
    expiring = [
        rule for rule in bucket["LifecycleConfiguration"]["Rules"] if "ExpirationInDays" in rule
    ]
    assert {rule["Prefix"] for rule in expiring} == {"usage/", "exports/"}


def test_tables_have_the_columns_of_bills() -> None:
    tables = {
        one["Properties"]["TableInput"]["Name"]: one["Properties"]["TableInput"]
        for one in of_type(analytics(), "AWS::Glue::Table").values()
    }
    for name, (path, columns) in TABLES.items():
        its = tables[name]["StorageDescriptor"]["Columns"]
        assert [(one["Name"], one["Type"]) for one in its] == list(columns)
        assert path in text(tables[name]["Parameters"]["storage.location.template"])


def test_the_modules_are_all_of_the_jobs_and_nothing_else(tmp_path: Path) -> None:
    find_node()
    import aws_cdk as cdk  # noqa: PLC0415 - it starts Node

    from infra.spark_jobs import modules  # noqa: PLC0415 - as above

    app = cdk.App(outdir=str(tmp_path))
    modules(cdk.Stack(app, "modules"))
    app.synth()
    [folder] = [path for path in tmp_path.glob("asset.*") if path.is_dir()]
    assert [path.name for path in folder.iterdir()] == ["glue_jobs"]
    staged = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    own = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "glue_jobs").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert staged == own


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("every_hours", 0),
        ("workers", 1),
        ("close_day", 1),
        ("close_day", 29),
        ("timeout_minutes", 0),
        ("late_periods", -1),
        ("accounts", "/x"),
        ("prices", "a b"),
    ],
)
def test_a_wrong_option_is_named(option: str, value: Any) -> None:
    with pytest.raises(OptionError, match=option):
        AnalyticsOptions(**json.loads(json.dumps({option: value})))
