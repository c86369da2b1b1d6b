from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from data_plane.dynamodb.opening import OpenError, connect, make_table, open_table
from data_plane.dynamodb.tables import cell_table

REGION = "us-east-1"


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        yield connect("", REGION, connections_max=1)


@pytest.fixture
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "BOTO_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "none"))


def test_a_missing_table_is_made(dynamodb: Any) -> None:
    for _ in range(2):
        open_table("", REGION, "tidegate")
    (name,) = dynamodb.list_tables()["TableNames"]
    table = dynamodb.describe_table(TableName=name)["Table"]
    assert (name, table["TableStatus"]) == ("tidegate", "ACTIVE")
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert [key["AttributeName"] for key in table["KeySchema"]] == ["pk", "sk"]
    live = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert live == {"TimeToLiveStatus": "ENABLED", "AttributeName": "x"}


def test_a_table_whose_maker_ended_too_early_is_completed(dynamodb: Any) -> None:
    dynamodb.create_table(**cell_table("tidegate"))
    open_table("", REGION, "tidegate")
    live = dynamodb.describe_time_to_live(TableName="tidegate")["TimeToLiveDescription"]
    assert live["TimeToLiveStatus"] == "ENABLED"


def test_two_that_make_a_table_at_once_do_no_harm(dynamodb: Any) -> None:
    make_table(dynamodb, "tidegate")
    make_table(dynamodb, "tidegate")
    assert dynamodb.list_tables()["TableNames"] == ["tidegate"]


def test_a_table_of_somebody_else_is_refused(dynamodb: Any) -> None:
    dynamodb.create_table(
        TableName="orders",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )
    with pytest.raises(OpenError) as refused:
        open_table("", REGION, "orders")
    assert refused.value.setting == "table"
    assert str(refused.value) == "table: 'orders' is another table: a cell's has the keys pk and sk"


@pytest.mark.usefixtures("no_credentials")
def test_without_credentials_there_is_no_cell_on_aws() -> None:
    for endpoint in ("", "https://dynamodb.example"):
        with pytest.raises(OpenError, match="no AWS credentials were found") as refused:
            connect(endpoint, REGION, connections_max=1)
        assert refused.value.setting == "cell"


@pytest.mark.usefixtures("no_credentials")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "dynamodb.localhost"])
def test_an_emulator_on_this_machine_needs_no_credentials(host: str) -> None:
    connect(f"http://{host}:4566", REGION, connections_max=1).close()


def test_a_profile_that_does_not_exist_is_named(
    no_credentials: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del no_credentials
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(OpenError, match=r"cell: .*\(nobody\)"):
        connect("", REGION, connections_max=1)


def test_what_a_client_may_take_is_bounded(dynamodb: Any) -> None:
    config = dynamodb.meta.config
    assert config.max_pool_connections == 1
    assert config.retries["total_max_attempts"] == 1
    assert config.connect_timeout <= 1
    assert config.read_timeout <= 2
    assert config.tcp_keepalive
