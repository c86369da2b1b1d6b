"""The DynamoDB cell against the contract of cells, on every engine that can be had."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from data_plane.dynamodb.opening import connect
from tests.conformance.cell_suite import Opened
from tests.conformance.dynamodb_suite import DynamoCellOnTheBlockingDriver, DynamoCellSuite
from tests.conformance.on_driver import THREADS_MAX
from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.emulators import REGION

ClientOf = Callable[[str], Any]

READ_TIMEOUT_S = 30.0
"""An engine on a busy machine is slow; how long a front end would wait is no matter here."""


@pytest.fixture(scope="module")
def client_of(engine_url: EngineUrl) -> ClientOf:
    """The cell's client of an engine: one for all tests, for it is dear to make."""

    def client(engine: str) -> Any:
        return connect(
            engine_url(engine),
            REGION,
            connections_max=THREADS_MAX,
            read_timeout_s=READ_TIMEOUT_S,
        )

    return cache(client)


@pytest.mark.xdist_group("ministack")
class TestOnMiniStack(DynamoCellSuite):
    @pytest.fixture
    def client(self, client_of: ClientOf) -> Any:
        return client_of("ministack")


@pytest.mark.xdist_group("ministack")
class TestOnMiniStackByTheBlockingDriver(DynamoCellOnTheBlockingDriver):
    @pytest.fixture
    def client(self, client_of: ClientOf) -> Any:
        return client_of("ministack")


@pytest.mark.xdist_group("moto")
class TestOnMoto(DynamoCellSuite):
    @pytest.fixture
    def client(self, client_of: ClientOf) -> Any:
        return client_of("moto")

    def test_values_of_different_types_have_no_order(self, opened: Opened) -> None:
        del opened
        pytest.skip("moto answers 500 where values of different types are compared")


@pytest.mark.xdist_group("dynamodb-local")
class TestOnDynamoDbLocal(DynamoCellSuite):
    @pytest.fixture
    def client(self, client_of: ClientOf) -> Any:
        return client_of("dynamodb-local")


@pytest.mark.xdist_group("dynamodb-local")
class TestOnDynamoDbLocalByTheBlockingDriver(DynamoCellOnTheBlockingDriver):
    @pytest.fixture
    def client(self, client_of: ClientOf) -> Any:
        return client_of("dynamodb-local")
