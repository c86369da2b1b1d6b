"""What is kept: the table is the one the code knows, and nothing deletes or empties it."""

import json
from typing import Any

import pytest

from data_plane.dynamodb.tables import cell_table, time_to_live
from infra.options import ServiceOptions, StageOptions, StateOptions
from tests.rehearsal.infra.synthesis import (
    EVERYTHING,
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
CELLS = ("state", "cell-us-east-1")


def state() -> Template:
    return templates(EVERYTHING)["state"]


@pytest.mark.parametrize("stack", CELLS)
def test_the_table_is_the_one_the_code_knows(stack: str) -> None:
    table = EVERYTHING.state.table
    lifetime = time_to_live(table)["TimeToLiveSpecification"]
    properties = only(templates(EVERYTHING)[stack], "AWS::DynamoDB::Table")
    deployed = {
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
        "StreamSpecification": {"StreamViewType": "NEW_AND_OLD_IMAGES"},
        "DeletionProtectionEnabled": True,
        "TimeToLiveSpecification": lifetime,
    }
    properties.pop("Tags")

    assert properties == {**cell_table(table), **deployed}


def test_logical_ids_are_pinned() -> None:
    resources = state()["Resources"]

    assert {name: resources[name]["Type"] for name in STATEFUL} == STATEFUL
    assert "CellTable" in templates(EVERYTHING)["cell-us-east-1"]["Resources"]


@pytest.mark.parametrize("stack", CELLS)
def test_nothing_that_holds_data_goes_with_its_stack(stack: str) -> None:
    resources = templates(EVERYTHING)[stack]["Resources"]
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
    others = {name: one for name, one in templates(EVERYTHING).items() if name not in CELLS}

    assert set(others) == {"service", "cluster", "analytics", "monitoring", "names"}
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
    key = only(state(), "AWS::KMS::Key")

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


def test_cells_of_further_regions_are_used_by_all_functions_by_the_names_of_these() -> None:
    stage = StageOptions(
        "s",
        region="eu-west-1",
        further_regions=("us-east-1",),
        state=StateOptions(cells=("second",)),
        service=ServiceOptions(
            metadata_cache=("cache-1:11211", "cache-2"), metadata_cache_tls=True
        ),
    )
    service = templates(stage)["service"]
    for handler in ("app.app", "app.task"):
        told = functions(service)[handler]["Environment"]["Variables"]
        assert ",us-east-1=us-east-1/tidegate" in text(told["TIDEGATE_CELLS"])
        assert told["TIDEGATE_METADATA_CACHE"] == "cache-1:11211,cache-2"
        assert told["TIDEGATE_METADATA_CACHE_LAYOUT"] == "sharded"
        assert told["TIDEGATE_METADATA_CACHE_TLS"] == "on"
    for _, one in statements(service):
        if one.get("Sid") == "Items":
            assert len(one["Resource"]) == 3
            assert ":dynamodb:us-east-1:" in text(one["Resource"][-1])
            assert ":table/tidegate" in text(one["Resource"][-1])
    assert "CellTable" in templates(stage)["cell-us-east-1"]["Resources"]
    alone = StageOptions("s", region="eu-west-1", further_regions=("us-east-1",))
    assert any(one.get("cells") for one in _inputs(alone))


def test_the_manager_looks_after_cells_where_there_are_several() -> None:
    several = StageOptions("s", state=StateOptions(cells=("second", "third")))
    assert [one for one in _inputs(several) if "cells" in one] == [
        {"tasks": ["move_messages", "sweep_dropped"], "cells": True}
    ]
    assert not [one for one in _inputs(StageOptions("s")) if "cells" in one]
