"""What bills add up: each expectation is arithmetic on a bill's own terms, done once more here."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from control_plane.core import cost
from control_plane.core.cost import DOORS, Bill, Door, Load, Timing, bill, call_ms, sqs_bill
from control_plane.core.price_list import PRICES, SECONDS_A_MONTH
from control_plane.core.request_units import Spent

MONTH = Decimal(SECONDS_A_MONTH) / 1_000_000
"""Millions of a month, of what comes once a second."""
STATE_MACHINE = Path(cost.__file__).parents[1] / "cluster" / "state_machine.asl.json"


def amount(its: Bill, name: str) -> Decimal:
    return sum((line.amount for line in its.lines if line.name == name), Decimal(0))


def usd(its: Bill, name: str) -> Decimal:
    return sum((line.usd for line in its.lines if line.name == name), Decimal(0))


def test_sqs_bills_each_call_and_each_64_kb() -> None:
    assert sqs_bill(Load(1)).usd_per_million == Decimal("1.20")
    assert sqs_bill(Load(1, fifo=True)).usd_per_million == Decimal("1.50")
    assert sqs_bill(Load(1, batch=10)).usd_per_million == Decimal("0.12")
    ten = sqs_bill(Load(1, size_bytes=65_536, batch=10))
    assert ten.usd_per_million == Decimal("0.84"), "10 units a send and a receive, 1 a delete"
    idle = sqs_bill(Load(1, empty_receives_per_s=2))
    assert idle.lines[0].amount == 5 * MONTH


def test_every_call_is_a_request_of_gateway_and_function() -> None:
    its = bill(Load(1, empty_receives_per_s=2))
    assert amount(its, "API Gateway requests") == 5 * MONTH
    assert amount(its, "Lambda requests") >= 5 * MONTH
    assert usd(its, "API Gateway requests") == 5 * MONTH * Decimal("3.50")
    ten = amount(bill(Load(1, batch=10)), "API Gateway requests")
    assert ten == pytest.approx(Decimal("0.3") * MONTH)


def test_function_urls_differ_from_the_gateway_by_its_price_and_its_log() -> None:
    rest, url = bill(Load(1)), bill(Load(1, door="url"))
    names = {line.name for line in rest.lines} - {line.name for line in url.lines}
    assert names == {"API Gateway requests"}
    assert amount(rest, "logs") > amount(url, "logs")
    assert amount(rest, "DynamoDB writes") == amount(url, "DynamoDB writes")


def test_functions_are_paid_for_their_time_and_memory() -> None:
    timing = Timing(dynamodb_ms=10, s3_ms=100, own_ms=5)
    assert call_ms(Spent(steps=2, puts=1), timing) == 125
    small, big = (bill(Load(1, door="url", memory_mb=mb)) for mb in (1_024, 2_048))
    follower = Decimal("0.2") * Decimal("0.05") * SECONDS_A_MONTH
    assert amount(big, "Lambda arm64") - follower == pytest.approx(
        2 * (amount(small, "Lambda arm64") - follower)
    )
    waiting = replace(small.load, empty_receives_per_s=1, wait_s=20)
    waited = amount(bill(waiting), "Lambda arm64") - amount(small, "Lambda arm64")
    assert waited == pytest.approx(20 * SECONDS_A_MONTH, rel=Decimal("0.001")), "a GB each"


def test_functions_write_counters_before_they_answer_and_servers_now_and_then() -> None:
    url = bill(Load(1, door="url", front_ends=1))
    server = bill(Load(1, door="server", front_ends=1))
    assert amount(url, "DynamoDB writes") - amount(server, "DynamoDB writes") == pytest.approx(
        2 * MONTH
    )
    others = amount(server, "counters")
    assert others == MONTH, "half of what is received, and of what is deleted, was the other's"


def test_more_front_ends_spend_more() -> None:
    bills = [bill(Load(10, door="url", front_ends=number)) for number in (1, 2, 8, 32)]
    usds = [its.usd_per_million for its in bills]
    assert usds == sorted(usds)
    assert usds[-1] > 2 * usds[0]
    assert [its.front_ends for its in bills] == [1, 2, 8, 32]
    assert bill(Load(1_000, door="url")).front_ends > bill(Load(10, door="url")).front_ends


def test_servers_share_writes_of_what_arrives_meanwhile() -> None:
    quick = Timing(server_cpu_ms=0.01)
    few, many = (
        bill(Load(rate, size_bytes=100, door="server", timing=quick)) for rate in (10, 2_000)
    )
    few_each, many_each = (
        amount(its, "DynamoDB writes") / Decimal(its.load.messages_per_s) / MONTH
        for its in (few, many)
    )
    assert few_each - many_each == pytest.approx(Decimal("0.75"), rel=Decimal("0.01")), (
        "eight messages are two units"
    )


def test_servers_are_as_many_as_their_processors_ask_for() -> None:
    numbers = [bill(Load(rate, door="server")).front_ends for rate in (1, 100, 1_000)]
    assert numbers == sorted(numbers)
    assert numbers[0] == 2
    assert bill(Load(1, door="server", servers=1)).front_ends == 1
    calls_per_s = 3 * 1_000
    assert numbers[-1] * cost.SERVER_BUSY_MAX >= calls_per_s * Timing().server_cpu_ms / 1_000


def test_big_bodies_are_objects() -> None:
    its = bill(Load(1, size_bytes=65_536, door="url"))
    assert amount(its, "S3 puts") == amount(its, "S3 gets") == MONTH
    assert not amount(bill(Load(1, door="url")), "S3 puts")


@pytest.mark.parametrize("door", DOORS)
def test_what_is_fixed_is_there_without_load(door: Door) -> None:
    idle, busy = bill(Load(0.000_001, door=door)), bill(Load(10, door=door))
    assert idle.usd_fixed == busy.usd_fixed > 0
    assert idle.usd == pytest.approx(idle.usd_fixed, rel=Decimal("0.001"))


def test_a_machine_of_ones_own_has_an_end() -> None:
    assert bill(Load(600, door="embedded")).usd_per_million == 0
    with pytest.raises(ValueError, match="more than the 2,000 of one embedded server"):
        bill(Load(700, door="embedded"))


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"messages_per_s": 0}, "messages a second: 0 is not within"),
        ({"messages_per_s": float("nan")}, "messages a second: nan is not within"),
        ({"messages_per_s": float("inf")}, "messages a second: inf is not within"),
        ({"size_bytes": 0}, "size: 0 is not within"),
        ({"batch": 11}, "batch: 11 is not within 1 and 10"),
        ({"size_bytes": 200_000, "batch": 10}, "size: 10 messages of 200,000 bytes are more than"),
        ({"empty_receives_per_s": -1}, "empty receives a second: -1 is not within"),
        ({"wait_s": 21}, "wait: 21 is not within 0 and 20"),
        ({"memory_mb": 64}, "memory: 64 is not within 128 and 10,240"),
        ({"front_ends": -1}, "front ends: -1 is not within"),
        ({"servers": -1}, "servers: -1 is not within"),
        ({"text_share": 2}, "text share: 2 is not within"),
        ({"retention_s": 1}, "retention in seconds: 1 is not within"),
    ],
)
def test_loads_that_there_are_not(wrong: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        Load(**{"messages_per_s": 1, **wrong})


def test_times_that_there_are_not() -> None:
    with pytest.raises(ValueError, match="own_ms: -1 is not within"):
        Timing(own_ms=-1)


def test_a_sweep_of_the_cluster_manager_has_so_many_transitions() -> None:
    """Walked through the state machine itself: one task, which has no more to do."""
    machine = json.loads(STATE_MACHINE.read_text())

    def walk(states: dict[str, Any], start: str) -> int:
        entered, name = 0, start
        while name:
            state = states[name]
            entered += 1
            if state["Type"] == "Map":
                inner = state["ItemProcessor"]
                entered += walk(inner["States"], inner["StartAt"])
            # Without cells in the input nothing is planned, which ends it after its tasks.
            chosen = "Succeeded" if name == "Outcome" else ""
            name = chosen or state.get("Next") or state.get("Default") or ""
        return entered

    assert walk(machine["States"], machine["StartAt"]) == cost.SWEEP_TRANSITIONS


def test_a_deployment_that_does_nothing_costs_less_than_two_dollars() -> None:
    """But for its key: the manager looks each minute, and that is to stay cheap."""
    for door in ("rest", "url"):
        lines = bill(Load(1, door=door)).lines
        manager = sum(line.usd for line in lines if line.fixed and line.price != "kms key")
        assert 0.05 < manager < 2


def test_all_prices_of_bills_are_in_the_list() -> None:
    for door in DOORS:
        for line in bill(Load(1, size_bytes=65_536, door=door, architecture="x86_64")).lines:
            assert line.price in PRICES
