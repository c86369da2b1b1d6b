from data_plane.core.retry_budget import BURST, RETRY_SHARE, TIMEOUT_COST, RetryBudget


def retries_of(calls: int, *, attempts_max: int = 3, timed_out: bool = False) -> int:
    """How many retries so many calls send that fail whenever they are tried."""
    budget, retries = RetryBudget(), 0
    for _ in range(calls):
        budget.called()
        for _ in range(attempts_max - 1):
            if not budget.may_retry(timed_out=timed_out):
                break
            retries += 1
    return retries


def test_an_outage_is_not_multiplied() -> None:
    assert retries_of(10_000) <= RETRY_SHARE * 10_000 + BURST
    assert retries_of(10_000) >= RETRY_SHARE * 10_000, "and it is not wasted"


def test_timeouts_are_repeated_less() -> None:
    assert retries_of(10_000, timed_out=True) <= (RETRY_SHARE * 10_000 + BURST) / TIMEOUT_COST


def test_a_few_failures_are_repeated_as_often_as_they_need() -> None:
    budget = RetryBudget()
    for _ in range(10):
        for _ in range(100):
            budget.called()
        assert all(budget.may_retry() for _ in range(10))
    assert budget.refused == 0


def test_what_was_refused_is_counted() -> None:
    budget = RetryBudget()
    assert [budget.may_retry() for _ in range(BURST + 2)] == [True] * BURST + [False] * 2
    assert budget.refused == 2


def test_refusals_that_a_repetition_overcomes_cost_nothing() -> None:
    budget = RetryBudget()
    for _ in range(10_000):
        budget.called()
        assert budget.may_retry()
        assert budget.may_retry()
        budget.succeeded(2)
    assert budget.refused == 0


def test_refusals_that_nothing_overcomes_end_the_budget() -> None:
    budget, retries = RetryBudget(), 0
    for _ in range(10_000):
        budget.called()
        retries += budget.may_retry()
        budget.succeeded(0)
    assert RETRY_SHARE * 10_000 <= retries <= RETRY_SHARE * 10_000 + BURST
