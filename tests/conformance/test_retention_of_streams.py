"""Retention of streams in a cell in memory, an embedded one, and one on DynamoDB (moto)."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from moto import mock_aws

from data_plane.dynamodb.opening import connect
from data_plane.embedded.cell import EmbeddedCell
from data_plane.ports import Clock
from tests.conformance.dynamodb_server import serving_on_dynamodb
from tests.conformance.embedded_cell import SMALL
from tests.conformance.in_process import InProcessServer
from tests.conformance.retention_of_streams import RaisedRetention
from tests.conformance.runners import OneAfterTheOther


def _embedded(directory: Path, clock: Clock, _offload: object) -> EmbeddedCell:
    return EmbeddedCell(directory, clock, SMALL)


class TestInMemory(RaisedRetention):
    """As most tests have it; `server` is that of all of them."""


class TestEmbedded(RaisedRetention):
    """A cell that removes by itself."""

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[InProcessServer]:
        started = InProcessServer(new_cell=partial(_embedded, tmp_path))
        yield started
        assert isinstance(started.cell, EmbeddedCell)
        started.run(started.cell.close())
        started.close()
        assert not [served for served in started.served if served.exception]


class TestOnDynamoDB(RaisedRetention):
    """A table keeps items until their time to live is over, or longer."""

    @pytest.fixture
    def server(self) -> Iterator[InProcessServer]:
        with (
            mock_aws(),
            serving_on_dynamodb(
                connect("", "us-east-1", connections_max=1), OneAfterTheOther
            ) as started,
        ):
            yield started
        assert not [served for served in started.served if served.exception]
