"""The fault proxy before plain SDK clients: each fault is what it says, and takes place by plan."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ChecksumError,
    ClientError,
    ConnectionClosedError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from tests.rehearsal.conftest import EngineUrl
from tests.rehearsal.emulators import client
from tests.rehearsal.fault_proxy import FaultProxy, fault_proxy
from tests.rehearsal.faults import Fault, Storm

PATIENCE_S = 0.5
_names = itertools.count()


@pytest.fixture(scope="module")
def engine(engine_url: EngineUrl) -> Any:
    return client("dynamodb", engine_url("ministack"))


@pytest.fixture
def proxy(engine_url: EngineUrl) -> Iterator[FaultProxy]:
    with fault_proxy(engine_url("ministack")) as started:
        yield started


@pytest.fixture
def table(engine: Any) -> str:
    name = f"faults-{next(_names)}"
    engine.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    return name


KEY = {"pk": {"S": "one"}}
ITEM = {**KEY, "text": {"S": "before"}}
ADD_ONE = {
    "Key": KEY,
    "UpdateExpression": "ADD n :one",
    "ExpressionAttributeValues": {":one": {"N": "1"}},
    "ReturnValues": "ALL_NEW",
}


def additions(engine: Any, table: str) -> int:
    """How often the engine has added one."""
    item = engine.get_item(TableName=table, Key=KEY, ConsistentRead=True).get("Item", {})
    return int(item["n"]["N"]) if item else 0


def code_of(error: Exception) -> object:
    """The error code of an answer, or what the SDK makes of having none."""
    return error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error)


@pytest.mark.parametrize(
    "case",
    [
        (Fault.THROTTLED, "ProvisionedThroughputExceededException", 0),
        (Fault.LIMITED, "ThrottlingException", 0),
        (Fault.FAILED, "InternalServerError", 0),
        (Fault.UNAVAILABLE, "ServiceUnavailable", 0),
        (Fault.REFUSED, ConnectionClosedError, 0),
        (Fault.SWALLOWED, ReadTimeoutError, 0),
        (Fault.FAILED_AFTERWARDS, "InternalServerError", 1),
        (Fault.LOST, ConnectionClosedError, 1),
        (Fault.CUT, ConnectionClosedError, 1),
        (Fault.SLOW, ReadTimeoutError, 1),
        (Fault.LATE, ReadTimeoutError, 1),
        (Fault.REPEATED, None, 2),
    ],
    ids=lambda case: str(case[0]),
)
def test_a_fault_is_what_it_says(
    engine: Any, proxy: FaultProxy, table: str, case: tuple[Fault, object, int]
) -> None:
    fault, expected, applied = case
    # Only who waits in vain is to wait no longer: on a busy machine answers come late.
    is_in_vain = expected is ReadTimeoutError
    through = client("dynamodb", proxy.url, timeout_s=PATIENCE_S if is_in_vain else 60)
    proxy.storm = Storm(1, (fault,), 1.0)
    happened: object = None
    try:
        through.update_item(TableName=table, **ADD_ONE)
    except (ClientError, BotoCoreError) as error:
        happened = code_of(error)
    if fault is Fault.LATE:
        assert additions(engine, table) == 0
    proxy.settle()
    assert additions(engine, table) == applied
    assert happened in {expected, ResponseStreamingError if fault is Fault.CUT else expected}
    assert proxy.seen == {(fault, "UpdateItem"): 1}


@pytest.mark.parametrize("fault", [Fault.SHORTENED, Fault.DAMAGED, Fault.EMPTIED])
def test_a_spoilt_answer_does_not_fit_its_checksum(
    engine: Any, proxy: FaultProxy, table: str, fault: Fault
) -> None:
    engine.put_item(TableName=table, Item=ITEM)
    proxy.storm = Storm(1, (fault,), 1.0)
    # In this mode the SDK compares checksums itself; damaged text may fail before that.
    checking = client("dynamodb", proxy.url, mode="legacy")
    with pytest.raises((ChecksumError, UnicodeDecodeError)):
        checking.get_item(TableName=table, Key=KEY)
    assert proxy.seen == {(fault, "GetItem"): 1}


def test_an_answer_that_tells_nothing_cannot_be_emptied(proxy: FaultProxy, table: str) -> None:
    proxy.storm = Storm(1, (Fault.EMPTIED,), 1.0)
    client("dynamodb", proxy.url).put_item(TableName=table, Item=ITEM)
    assert proxy.count(Fault.EMPTIED) == 0


def test_in_calm_everything_passes(engine: Any, proxy: FaultProxy, table: str) -> None:
    through = client("dynamodb", proxy.url)
    for _ in range(20):
        through.update_item(TableName=table, **ADD_ONE)
    assert additions(engine, table) == 20
    assert (proxy.requests, proxy.seen) == (0, {})


def test_the_same_seed_gives_the_same_storm() -> None:
    def plan(seed: int) -> list[Fault | None]:
        storm = Storm(seed, tuple(Fault), 0.3)
        return [storm.fault_of(number) for number in range(1000)]

    assert plan(7) == plan(7)
    assert plan(7) != plan(8)
    assert set(plan(7)) == {None, *Fault}
    assert 200 < sum(fault is not None for fault in plan(7)) < 400
