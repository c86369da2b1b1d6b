"""Quiet tenants wait no longer beside a loud one than if that had a queue of its own."""

from dataclasses import replace
from functools import cache

import pytest

from tests.benchmarks.fair_dwell import CASES, NOISY_HELD, Case, Measure, dwell_of
from tests.benchmarks.latency import Latency

BURST, _, SLOW, EQUALS = CASES
SHORT = {
    case.name: replace(case, seconds=8.0, loud=(replace(case.loud[0], burst=1_000),))
    for case in (BURST, EQUALS)
} | {SLOW.name: replace(SLOW, seconds=25.0)}
dwell = cache(dwell_of)


def p99_ms(case: Case, mode: str) -> float:
    return Latency.of(dwell(case, mode).others_s).p99_ms


@pytest.mark.parametrize("name", SHORT)
def test_a_loud_tenant_does_not_delay_the_others(name: str) -> None:
    best_ms = p99_ms(SHORT[name], "own queue")
    assert p99_ms(SHORT[name], "groups") <= 2 * best_ms


def test_without_groups_it_would() -> None:
    case = SHORT[BURST.name]
    assert p99_ms(case, "no groups") > 20 * p99_ms(case, "own queue")


def test_no_consumer_is_idle_while_a_noisy_message_waits() -> None:
    case = SHORT[BURST.name]
    fair, best = dwell(case, "groups"), dwell(case, "own queue")
    assert fair.received["loud"] >= 0.99 * best.received["loud"]
    assert "loud" in fair.noisy


def test_noisy_is_measured_as_sqs_does() -> None:
    measure = Measure()
    measure.held.update(loud=NOISY_HELD - 1, others=100)
    assert not measure.is_noisy("loud")
    measure.held["loud"] += 1
    assert measure.is_noisy("loud")
    measure.held["others"] += 10 * NOISY_HELD
    assert not measure.is_noisy("loud")
    measure.worked("loud", 1.0, 0.2)
    assert measure.is_noisy("loud")
    measure.worked("others", 2.0, 2.0)
    assert not measure.is_noisy("loud")
