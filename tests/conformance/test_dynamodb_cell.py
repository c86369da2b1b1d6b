"""The DynamoDB cell against the contract of cells, on moto in this process."""

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from data_plane.dynamodb.opening import connect
from tests.conformance.cell_suite import Opened
from tests.conformance.dynamodb_suite import DynamoCellOnTheBlockingDriver, DynamoCellSuite


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with mock_aws():
        yield connect("", "us-east-1", connections_max=1)


class TestDynamoCell(DynamoCellSuite):
    def test_values_of_different_types_have_no_order(self, opened: Opened) -> None:
        del opened
        pytest.skip("moto fails to compare values of different types; other engines are asked")


class TestDynamoCellOnTheBlockingDriver(DynamoCellOnTheBlockingDriver):
    takes_one_call_at_a_time = True

    def test_values_of_different_types_have_no_order(self, opened: Opened) -> None:
        del opened
        pytest.skip("moto fails to compare values of different types; other engines are asked")
