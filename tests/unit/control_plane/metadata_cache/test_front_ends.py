"""What callers see of queues and access keys through several front ends that share nodes."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from control_plane.accounts import Accounts
from control_plane.last_known import FRESH_US_MAX
from control_plane.registry import Registry
from data_plane.core.queue import Queue
from tests.unit.control_plane.metadata_cache.cache_in_memory import Ground
from tests.unit.repeatable import SECRET, SeededEntropy

T = TypeVar("T")
ACCOUNT = "111122223333"
REGION = "eu-west-1"
STEP_S = 0.1


def run(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


class FrontEnd:
    def __init__(self, ground: Ground) -> None:
        cached, self.clock = ground.front_end(), ground.clock
        entropy = SeededEntropy(ground.opened)
        self.registry = Registry(cached, ["a"], ground.clock, entropy, secret=SECRET, recent=cached)
        self.accounts = Accounts(cached, ground.clock, entropy, SECRET, cached)

    def create(self, name: str) -> None:
        wanted = self.registry.define(
            account=ACCOUNT,
            region=REGION,
            name=name,
            attributes={},
            tags={},
            now_us=self.clock.now_us(),
        )
        run(self.registry.create(wanted, {}, self.clock.now_us()))

    def find(self, name: str) -> Queue | None:
        return run(self.registry.find(ACCOUNT, REGION, name))

    def delete(self, name: str) -> None:
        queue = self.find(name)
        assert queue is not None
        run(self.registry.delete(queue, self.clock.now_us()))


@pytest.fixture(params=["sharded", "whole-copy"])
def ground(request: pytest.FixtureRequest) -> Ground:
    return Ground(whole_copy=request.param == "whole-copy")


def test_many_front_ends_read_a_queue_as_often_as_one(ground: Ground) -> None:
    FrontEnd(ground).create("jobs")
    front_ends = [FrontEnd(ground) for _ in range(16)]
    ground.cell.reads = 0

    async def find_for_a_minute() -> None:
        for _ in range(600):
            ground.clock.advance(STEP_S)
            for front_end in front_ends:
                assert await front_end.registry.find(ACCOUNT, REGION, "jobs") is not None

    run(find_for_a_minute())
    assert 60 / 5 <= ground.cell.reads <= 60 / 3 + 1


@pytest.mark.parametrize("is_lost", [False, True], ids=["marked", "mark lost"])
@pytest.mark.parametrize("offset_s", [0.0, 1.3, 2.9, 3.5])
def test_a_revoked_key_counts_nowhere_after_five_seconds(
    ground: Ground, offset_s: float, *, is_lost: bool
) -> None:
    """Whatever front ends had from each other before, and whether the change was marked or not."""
    made = FrontEnd(ground)
    account = run(made.accounts.create_account("some"))
    user = run(made.accounts.create_user(account.id, "someone"))
    key = run(made.accounts.create_key(account.id, user=user.name))
    front_ends = [FrontEnd(ground) for _ in range(4)]
    for front_end in front_ends:
        assert run(front_end.accounts.find_key(key.id)) is not None
        ground.clock.advance(offset_s)
    for node in ground.nodes:
        node.is_away = is_lost
    run(made.accounts.revoke_key(account.id, key.id))
    for node in ground.nodes:
        node.is_away = False
    assert run(made.accounts.find_key(key.id)) is None
    for _ in range(round(FRESH_US_MAX / 1_000_000 / STEP_S)):
        for front_end in (*front_ends, FrontEnd(ground)):
            run(front_end.accounts.find_key(key.id))
        ground.clock.advance(STEP_S)
    assert [run(front_end.accounts.find_key(key.id)) for front_end in front_ends] == [None] * 4
    assert run(FrontEnd(ground).accounts.find_key(key.id)) is None


def test_a_key_is_as_old_as_the_oldest_item_it_was_read_from(ground: Ground) -> None:
    made = FrontEnd(ground)
    account = run(made.accounts.create_account("some"))
    key = run(made.accounts.create_key(account.id))
    ground.clock.advance(STEP_S)
    run(FrontEnd(ground).accounts.find_key(key.id))
    asked_us = ground.clock.now_us()
    ground.clock.advance(2)
    run(made.accounts.set_quotas(account.id, {}))
    assert run(FrontEnd(ground).accounts._read_access_key(key.id)).asked_us == asked_us


def test_quotas_change_within_five_seconds(ground: Ground) -> None:
    made, other = FrontEnd(ground), FrontEnd(ground)
    account = run(made.accounts.create_account("some", quotas={}))
    before = run(other.accounts.find_quotas(account.id))
    run(made.accounts.set_quotas(account.id, {"queue_send_per_s": 7}))
    ground.clock.advance(5)
    assert run(other.accounts.find_quotas(account.id)) != before


def test_a_queue_that_another_has_just_made_is_found(ground: Ground) -> None:
    one, other = FrontEnd(ground), FrontEnd(ground)
    assert other.find("jobs") is None
    one.create("jobs")
    assert other.find("jobs") is not None


def test_a_queue_that_was_deleted_and_made_again_is_the_new_one(ground: Ground) -> None:
    one, other = FrontEnd(ground), FrontEnd(ground)
    one.create("jobs")
    before = other.find("jobs")
    assert before is not None
    one.delete("jobs")
    ground.clock.advance(61)
    assert other.find("jobs") is None
    one.create("jobs")
    after = other.find("jobs")
    assert after is not None
    assert after.uid != before.uid
