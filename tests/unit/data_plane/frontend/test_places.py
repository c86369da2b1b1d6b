"""Places: what waits at a time, of one account and of all, and that each is given back."""

import gc
from collections.abc import Coroutine, Iterator
from types import coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_plane.core.deadline import set_deadline
from data_plane.core.errors import RefusedError
from data_plane.core.quotas import parse_quotas
from data_plane.frontend.places import Places
from data_plane.frontend.settings import FrontEndSettings
from data_plane.protocol.http import HttpResponse
from tests.unit.data_plane.frontend.tenants import NOISY, QUIET, Tenants, code
from tests.unit.data_plane.wire import FakeBag

_Answer = Coroutine[Any, Any, HttpResponse]


@pytest.fixture(autouse=True)
def _no_deadline_stays() -> Iterator[None]:
    """Calls that are stepped here in turns leave theirs in the context that they share."""
    yield
    gc.collect()  # ends those that are still under way
    set_deadline(None)


@coroutine
def _stay() -> Any:
    yield


class WaitingBag(FakeBag):
    """Holds every call until it is stepped on."""

    async def send(self, *args: Any, **kwargs: Any) -> Any:
        await _stay()
        return await super().send(*args, **kwargs)

    async def receive(self, *args: Any, **kwargs: Any) -> Any:
        await _stay()
        return await super().receive(*args, **kwargs)


def holding(tenants: Tenants, account: str, action: str, **params: Any) -> _Answer | str:
    """A call that holds its place now, or the code of the error it got."""
    call = tenants.begin(account, action, **params)
    try:
        call.send(None)
    except StopIteration as stop:
        return code(stop.value)
    return call


def finish(call: _Answer | str) -> str:
    assert not isinstance(call, str)
    try:
        call.send(None)
    except StopIteration as stop:
        return code(stop.value)
    raise AssertionError("it waits again")


def sends(tenants: Tenants, account: str, count: int) -> list[_Answer | str]:
    return [holding(tenants, account, "SendMessage", MessageBody="m") for _ in range(count)]


def polls(tenants: Tenants, account: str, count: int) -> list[_Answer | str]:
    return [holding(tenants, account, "ReceiveMessage", WaitTimeSeconds=20) for _ in range(count)]


def refused(calls: list[_Answer | str]) -> list[_Answer | str]:
    return [call for call in calls if isinstance(call, str)]


def test_an_account_alone_holds_half_and_another_gets_in_then() -> None:
    tenants = Tenants({}, FrontEndSettings(calls_max=12), WaitingBag())
    noisy = sends(tenants, NOISY, 12)
    assert refused(noisy) == ["ServiceUnavailable"] * 6
    quiet = sends(tenants, QUIET, 12)
    assert refused(quiet) == ["ServiceUnavailable"] * 9
    held = [call for call in (*noisy, *quiet) if not isinstance(call, str)]
    assert [finish(call) for call in held] == [""] * 9
    again = sends(tenants, QUIET, 6)
    assert refused(again) == []
    for call in again:
        finish(call)


def test_a_call_that_breaks_or_is_cut_off_gives_its_place_back() -> None:
    tenants = Tenants({}, FrontEndSettings(calls_max=2), WaitingBag())
    for _ in range(3):
        (call,) = sends(tenants, NOISY, 1)
        assert not isinstance(call, str)
        call.close()
        tenants.bag.broken = RuntimeError("boom")
        assert finish(*sends(tenants, NOISY, 1)) == "InternalFailure"
        tenants.bag.broken = None


def test_long_polls_are_bounded_by_the_accounts_quota() -> None:
    quotas = {NOISY: parse_quotas({"long_polls": 3})}
    tenants = Tenants(quotas, FrontEndSettings(calls_max=2), WaitingBag())
    noisy = polls(tenants, NOISY, 5)
    assert refused(noisy) == ["RequestThrottled"] * 2
    quiet = polls(tenants, QUIET, 10)
    assert refused(quiet) == []
    # They hold no places of calls, and those none of theirs.
    others = sends(tenants, NOISY, 1)
    assert refused(others) == []
    for call in (*noisy, *quiet, *others):
        if not isinstance(call, str):
            assert finish(call) == ""
    again = polls(tenants, NOISY, 3)
    assert refused(again) == []
    for call in again:
        finish(call)


def test_a_queue_that_waits_by_itself_makes_long_polls() -> None:
    tenants = Tenants({NOISY: parse_quotas({"long_polls": 1})}, bag=WaitingBag())
    first = holding(tenants, NOISY, "ReceiveMessage")
    assert holding(tenants, NOISY, "ReceiveMessage") == "RequestThrottled"
    short = holding(tenants, NOISY, "ReceiveMessage", WaitTimeSeconds=0)
    assert (finish(first), finish(short)) == ("", "")


def test_long_polls_of_all_are_bounded() -> None:
    tenants = Tenants({}, FrontEndSettings(long_polls_max=4), WaitingBag())
    calls = [*polls(tenants, NOISY, 3), *polls(tenants, QUIET, 3)]
    assert refused(calls) == ["RequestThrottled"] * 2
    for call in calls:
        if not isinstance(call, str):
            finish(call)


def test_without_accounts_there_are_no_shares() -> None:
    places = Places(4, 1, None)
    for _ in range(4):
        places._check_call(NOISY)
        places._calls.take(NOISY)
    places._check_call(NOISY)


@given(st.integers(1, 200), st.integers(1, 12))
def test_whoever_comes_last_finds_as_much_room_as_the_others_took(
    calls_max: int, accounts: int
) -> None:
    tenants = Tenants({})
    places = Places(calls_max, 1, tenants)
    for _ in range(calls_max):
        for account in range(accounts):
            try:
                places._check_call(str(account))
            except RefusedError:
                continue
            places._calls.take(str(account))
    most = max(places._calls.of(str(account)) for account in range(accounts))
    assert calls_max - places._calls.total in {most, most - 1} or calls_max <= accounts
    if calls_max > accounts:
        places._check_call("newcomer")
