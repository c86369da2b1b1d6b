"""What is kept: the table is the one the code knows, and nothing deletes or empties it."""

import json
import re
from typing import Any

import pytest

from data_plane.dynamodb.tables import cell_table, time_to_live
from infra.option_checks import OptionError
from infra.options import ServiceOptions, StageOptions, StateOptions
from tests.rehearsal.infra.synthesis import (
    EVERYTHING,
    REGION,
    Template,
    functions,
    of_type,
    only,
    statements,
    templates,
    text,
)

pytestmark = pytest.mark.xdist_group("infra")

STATEFUL = {
    "CellTable": "AWS::DynamoDB::Table",
    "BodiesBucket": "AWS::S3::Bucket",
    "UsageBucket": "AWS::S3::Bucket",
    "MasterKey": "AWS::KMS::Key",
    "MasterKeyAlias": "AWS::KMS::Alias",
}
OF_AUDITS = {"DigestKey": "AWS::KMS::Key"}
TABLES = {"CellTable": "tidegate", "CellTable2": "tidegate-second"}


def state() -> Template:
    return templates(EVERYTHING)["state"]


@pytest.mark.parametrize(("logical_id", "table"), TABLES.items())
def test_tables_are_those_the_code_knows(logical_id: str, table: str) -> None:
    lifetime = time_to_live(table)["TimeToLiveSpecification"]
    properties = dict(state()["Resources"][logical_id]["Properties"])
    deployed = {
        "OnDemandThroughput": {"MaxReadRequestUnits": 500, "MaxWriteRequestUnits": 250},
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "StreamSpecification": {"StreamViewType": "NEW_AND_OLD_IMAGES"},
        "DeletionProtectionEnabled": True,
        "TimeToLiveSpecification": lifetime,
    }
    properties.pop("Tags")

    assert properties == {**cell_table(table), **deployed}


def test_logical_ids_are_pinned() -> None:
    resources = state()["Resources"]

    every = STATEFUL | OF_AUDITS
    assert {name: resources[name]["Type"] for name in every} == every
    assert set(TABLES) <= set(resources)


def test_nothing_that_holds_data_goes_with_its_stack() -> None:
    resources = state()["Resources"]
    kept = [name for name, one in resources.items() if one["Type"] in STATEFUL.values()]

    assert kept
    for name in kept:
        assert resources[name]["DeletionPolicy"] == "Retain", name
        assert resources[name]["UpdateReplacePolicy"] == "Retain", name


def test_a_stage_that_keeps_nothing_can_be_destroyed() -> None:
    template = templates(StageOptions("s", state=StateOptions(keeps=False)))["state"]

    assert only(template, "AWS::DynamoDB::Table")["DeletionProtectionEnabled"] is False
    for name in STATEFUL:
        assert template["Resources"][name]["DeletionPolicy"] == "Delete", name


def test_no_other_stack_has_anything_that_is_kept() -> None:
    stateful = set(STATEFUL.values())
    others = {name: one for name, one in templates(EVERYTHING).items() if name != "state"}

    # That of another account keeps what digests were, and protects it as the state is.
    assert others.pop("anchor")
    assert set(others) == {"service", "cluster", "analytics", "names", "monitoring"}
    for name, template in others.items():
        types = {one["Type"] for one in template["Resources"].values()}
        assert not types & stateful, name


@pytest.mark.parametrize("bucket", ["BodiesBucket", "UsageBucket"])
def test_buckets_are_closed_and_encrypted(bucket: str) -> None:
    properties = state()["Resources"][bucket]["Properties"]

    assert set(properties["PublicAccessBlockConfiguration"].values()) == {True}
    [rule] = properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    policies = [
        one["Properties"]["PolicyDocument"]["Statement"]
        for one in of_type(state(), "AWS::S3::BucketPolicy").values()
        if one["Properties"]["Bucket"] == {"Ref": bucket}
    ]
    assert any(_denies_clear_text(one) for statements in policies for one in statements)


def _denies_clear_text(statement: dict[str, Any]) -> bool:
    return bool(
        statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    )


def test_no_rule_removes_bodies() -> None:
    """What the longest retention still needs, S3 must not expire."""
    rules = state()["Resources"]["BodiesBucket"]["Properties"]["LifecycleConfiguration"]["Rules"]

    assert not [rule for rule in rules if "ExpirationInDays" in rule]


def test_usage_records_are_kept_for_as_long_as_the_stage_says() -> None:
    stage = StageOptions("s", state=StateOptions(usage_days=90))
    properties = templates(stage)["state"]["Resources"]["UsageBucket"]["Properties"]
    rules = properties["LifecycleConfiguration"]["Rules"]

    days = {one["Prefix"]: one["ExpirationInDays"] for one in rules if "ExpirationInDays" in one}
    assert days["usage/"] == 90
    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}


def test_the_master_key_rotates_and_can_have_replicas() -> None:
    key = state()["Resources"]["MasterKey"]["Properties"]

    assert key["EnableKeyRotation"] is True
    assert key["MultiRegion"] is True
    assert only(state(), "AWS::KMS::Alias")["AliasName"] == "alias/tidegate-everything"


def test_further_cells_are_tables_like_the_first_which_all_functions_use() -> None:
    stage = StageOptions("s", state=StateOptions(cells=("second", "third")))
    tables = of_type(templates(stage)["state"], "AWS::DynamoDB::Table")
    assert set(tables) == {"CellTable", "CellTable2", "CellTable3"}
    assert {one["DeletionPolicy"] for one in tables.values()} == {"Retain"}
    told = [dict(tables[name]["Properties"]) for name in sorted(tables)]
    assert [one.pop("TableName") for one in told] == ["tidegate", "second", "third"]
    assert told[0] == told[1] == told[2]

    service = templates(stage)["service"]
    items = [one for _, one in statements(service) if one.get("Sid") == "Items"]
    assert items
    assert all(len(one["Resource"]) == len(tables) for one in items)
    task = functions(service)["app.task"]["Environment"]["Variables"]
    assert "CellTable2" in text(task["TIDEGATE_CELLS"])
    assert task["TIDEGATE_GRACE_S"] == "600"


def _inputs(stage: StageOptions) -> list[dict[str, Any]]:
    rules = of_type(templates(stage)["cluster"], "AWS::Events::Rule").values()
    targets = [target for rule in rules for target in rule["Properties"]["Targets"]]
    return [json.loads(target["Input"]) for target in targets]


def test_functions_are_told_of_nodes_that_they_share() -> None:
    options = ServiceOptions(metadata_cache=("cache-1:11211", "cache-2"), metadata_cache_tls=True)
    service = templates(StageOptions("s", service=options))["service"]
    for handler in ("app.app", "app.task"):
        told = functions(service)[handler]["Environment"]["Variables"]
        assert told["TIDEGATE_METADATA_CACHE"] == "cache-1:11211,cache-2"
        assert told["TIDEGATE_METADATA_CACHE_LAYOUT"] == "sharded"
        assert told["TIDEGATE_METADATA_CACHE_TLS"] == "on"


def test_a_stage_is_in_one_region() -> None:
    """Whatever the options are: what would be elsewhere could not outlive the stage's own."""
    places = text(templates(EVERYTHING))

    assert REGION in places
    assert set(re.findall(r"\b[a-z]{2}-[a-z]+-[1-9]\b", places)) - {REGION} <= {
        # Those that Route 53 checks from.
        *EVERYTHING.names.check_regions,
    }


def test_the_manager_looks_after_cells_where_there_are_several() -> None:
    several = StageOptions("s", state=StateOptions(cells=("second", "third")))
    assert [one for one in _inputs(several) if "cells" in one] == [
        {"tasks": ["move_messages", "sweep_dropped"], "cells": True}
    ]
    assert not [one for one in _inputs(StageOptions("s")) if "cells" in one]


def test_tables_have_a_ceiling() -> None:
    for table in of_type(state(), "AWS::DynamoDB::Table").values():
        ceiling = table["Properties"]["OnDemandThroughput"]
        assert ceiling == {"MaxReadRequestUnits": 500, "MaxWriteRequestUnits": 250}
    none = StateOptions(read_units_per_s_max=0, write_units_per_s_max=0)
    unbounded = only(templates(StageOptions("s", state=none))["state"], "AWS::DynamoDB::Table")
    assert "OnDemandThroughput" not in unbounded
    by_default = only(templates(StageOptions("s"))["state"], "AWS::DynamoDB::Table")
    assert set(by_default["OnDemandThroughput"]) == {"MaxReadRequestUnits", "MaxWriteRequestUnits"}


def test_removed_bodies_outlive_what_a_table_can_be_restored_to() -> None:
    properties = state()["Resources"]["BodiesBucket"]["Properties"]
    rules = properties["LifecycleConfiguration"]["Rules"]
    days = [
        rule["NoncurrentVersionExpiration"]["NoncurrentDays"]
        for rule in rules
        if "NoncurrentVersionExpiration" in rule
    ]

    assert properties["VersioningConfiguration"] == {"Status": "Enabled"}
    assert days == [37]  # point-in-time recovery has 35


def test_a_restored_table_is_used_and_left_alone() -> None:
    arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/tidegate-2"
    stream = f"{arn}/stream/2026-11-23T00:00:00.000"
    restored = StateOptions(restored_table="tidegate-2", restored_stream=stream)
    made = templates(StageOptions("s", state=restored))

    assert not of_type(made["state"], "AWS::DynamoDB::Table")
    made_functions = of_type(made["service"], "AWS::Lambda::Function").values()
    told = [one["Properties"].get("Environment", {}).get("Variables", {}) for one in made_functions]
    cells = [one for one in told if "TIDEGATE_TABLE" in one]
    assert cells
    for environment in cells:
        assert environment["TIDEGATE_TABLE"] == "tidegate-2"
        assert environment["TIDEGATE_CELL_NAME"] == "tidegate"
    [mapping] = of_type(made["service"], "AWS::Lambda::EventSourceMapping").values()
    assert mapping["Properties"]["EventSourceArn"] == stream
    assert arn in json.dumps(made["service"])


@pytest.mark.parametrize(
    ("table", "stream"), [("tidegate-2", ""), ("", "arn:x"), ("tidegate-2", "arn:table/other/s")]
)
def test_a_restored_table_has_its_stream(table: str, stream: str) -> None:
    with pytest.raises(OptionError, match="restored_"):
        StateOptions(restored_table=table, restored_stream=stream)
