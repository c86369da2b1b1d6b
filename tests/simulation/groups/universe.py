"""One seed's universe of a consumer group: a main phase, calm, and the death of a member."""

from typing import cast

from tests.simulation.faults import settle, strike
from tests.simulation.groups.members import GROUP, Ledger, Reader
from tests.simulation.groups.oracle import INVARIANTS
from tests.simulation.groups.plan import GroupPlan, make_group_plan
from tests.simulation.groups.world import GroupWorld
from tests.simulation.oracle import Violation
from tests.simulation.scheduler import Task
from tests.simulation.universe import Outcome, live

SECOND_US = 1_000_000
CALM_US = 120 * SECOND_US
"""By then all is read, whatever happened before."""


def run(seed: int) -> Outcome:
    """Let the universe of a seed be, and judge it."""
    ledger = Ledger()

    async def story(plan: GroupPlan, world: GroupWorld) -> None:
        await _story(plan, world, ledger)

    def judge(_plan: GroupPlan, world: GroupWorld) -> list[Violation]:
        return [violation for invariant in INVARIANTS for violation in invariant(world, ledger)]

    return live(make_group_plan(seed), story, judge, GroupWorld)


async def _story(plan: GroupPlan, world: GroupWorld, ledger: Ledger) -> None:
    scheduler = world.scheduler
    founder = Reader(world, ledger, "founder")
    await founder.call(
        "TidegateCreateGroup",
        {
            "StreamARNs": [world.shards.now.arn],
            "StartingPosition": {"Type": "TRIM_HORIZON"},
            "SessionTimeoutSeconds": plan.session_s,
            "RebalanceTimeoutSeconds": plan.rebalance_s,
            "Assignor": plan.assignor,
        },
    )
    world.weather.change_to(plan.climate.weather)
    weather = scheduler.start(strike(world), world)
    ends_us = scheduler.now_us + plan.lasts_s * SECOND_US
    forever_us = ends_us + 10_000 * SECOND_US
    members = [
        Reader(world, ledger, f"member{number}", f"host{number}" if number % 3 == 2 else "")
        for number in range(plan.members)
    ]
    lives = [scheduler.start(member.live(forever_us), world) for member in members]
    await _produce(plan, world, ends_us)
    await scheduler.pause(max(0, ends_us - scheduler.now_us))
    weather.drop()
    ledger.calm = True
    await settle(world)
    await scheduler.pause(CALM_US)
    await _kill(plan, world, ledger, members, lives)
    for task in lives:
        task.drop()
    await _describe(world, founder)


async def _produce(plan: GroupPlan, world: GroupWorld, ends_us: int) -> None:
    """Put records, and change the shards in between."""
    scheduler, random = world.scheduler, world.random
    changes = {random.randrange(plan.records) for _ in range(plan.reshardings)}
    pause_us = max(2, (ends_us - scheduler.now_us) // plan.records)
    for number in range(plan.records):
        world.shards.put(f"record {number}")
        if number in changes:
            world.note(world.shards.change())
        await scheduler.pause(random.randrange(1, pause_us))


async def _kill(
    plan: GroupPlan, world: GroupWorld, ledger: Ledger, members: list[Reader], lives: list[Task]
) -> None:
    """A member dies, and others get its shards in time."""
    if len(members) < 2:
        return
    dead = members[0]
    lives[0].drop()
    world.note(f"{dead.name} ({dead.id}) dies")
    died_us = world.scheduler.now_us
    lost = set(dead.owned)
    in_time_us = died_us + (plan.session_s + 1) * SECOND_US
    await world.scheduler.pause((plan.session_s + 60) * SECOND_US)
    if plan.skew_us_max or not plan.stamps or plan.climate.events:
        in_time_us = world.scheduler.now_us  # By clocks that were wrong it is later.
    found = {
        told.shard
        for told in ledger.told
        if died_us < told.time_us <= in_time_us and told.member != dead.id
    }
    if lost - found:
        world.probed.append(f"shards {sorted(lost - found)} of {dead.id} were not taken over")


async def _describe(world: GroupWorld, founder: Reader) -> None:
    """Where nothing happens any more, the shares are equal."""
    answer = await founder.call("TidegateDescribeGroup", {"MaxResults": 100})
    if answer is None:
        world.history.broken.append("the group cannot be described")
        return
    shards = cast("list[dict[str, str]]", answer["Shards"])
    members = {one["MemberId"]: 0 for one in answer["Members"]}
    for shard in shards:
        if "OwnerMemberId" in shard:
            members[shard["OwnerMemberId"]] += 1
    if members and max(members.values()) - min(members.values()) > 1:
        world.history.broken.append(f"shares are {members} of group {GROUP}")
