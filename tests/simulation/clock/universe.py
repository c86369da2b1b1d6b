"""One seed's universe: two queues, a clock that is set to and fro, and real time."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from tests.simulation.clients import ALL_NAMES, Client, delete
from tests.simulation.clock.world import ClockWorld
from tests.simulation.history import Attempt
from tests.simulation.oracle import Violation
from tests.simulation.plan import Surroundings
from tests.simulation.universe import Outcome, all_of, live
from tests.simulation.weather import Climate, Weather

SECOND_US: Final = 1_000_000
HOUR_US: Final = 3_600 * SECOND_US
WINDOW_US: Final = 300 * SECOND_US
NEVER_US: Final = 1 << 62
VISIBILITY_S: Final = 8
DELAY_S_MAX: Final = 7
STANDARD, FIFO = "jobs", "jobs.fifo"

SETTLED_US: Final = (VISIBILITY_S + DELAY_S_MAX + 15) * SECOND_US
"""By then all that was acknowledged is delivered, whatever the clock was before."""

SHOWN_US_MAX: Final = 60 * SECOND_US
"""Nobody knows for how long a service was closed while its clock was set."""

LENIENCE_US: Final = 5 * SECOND_US
"""Clocks may run ahead of each other by seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockPlan(Surroundings):
    """By how much the clock is set, and the queues with their retention."""

    steps_us: tuple[int, ...]
    retention_s: int
    sends_each: int
    starts_wrong: bool
    queues: tuple[str, ...] = (STANDARD, FIFO)

    @property
    def name(self) -> str:
        """Other randomness than in the other universes of this seed."""
        return f"{self.seed}/clock"


def make_plan(seed: int) -> ClockPlan:
    """The plan of a seed."""
    random = Random(f"{seed}/clock/plan")
    weather = replace(Weather(), crash=random.choice((0.0, 0.0, 0.002, 0.01)))
    return ClockPlan(
        seed=seed,
        front_ends=1,
        cells=1,
        climate=Climate(weather, (), 20 * SECOND_US, 1),
        skew_us_max=0,
        live_present=True,
        stamps=True,
        blob_threshold_bytes=None,
        bounds=random.choice(({}, {"LOW_WATER_MESSAGES": 3, "QUERY_PAGE": 3})),
        sequential=False,
        steps_us=random.choice(
            (
                (HOUR_US,),
                (24 * HOUR_US,),
                (-HOUR_US,),
                (-24 * HOUR_US,),
                (3 * SECOND_US, HOUR_US, 24 * HOUR_US),
                (-3 * SECOND_US, -HOUR_US, -24 * HOUR_US),
            )
        ),
        retention_s=random.choice((1_800, 7_200, 345_600)),
        sends_each=random.choice((6, 12, 24)),
        starts_wrong=random.random() < 0.4,
    )


def run(seed: int, make: type[ClockWorld] = ClockWorld) -> Outcome:
    """Let the universe of a seed be, and judge it."""
    return live(make_plan(seed), story, check, make)


async def story(plan: ClockPlan, world: ClockWorld) -> None:
    scheduler = world.scheduler
    await _create_queues(plan, Client(world, "founder"))
    world.weather.change_to(plan.climate.weather)
    if plan.starts_wrong:
        await _send(plan, Client(world, "early"))
        world.slots[0].process.crash()
        world.set_clock(world.random.choice(plan.steps_us))
        await scheduler.pause(10 * SECOND_US)
    setting = scheduler.start(_set_clock(plan, world), world)
    calls = [_send(plan, Client(world, f"producer{i}")) for i in range(2)]
    calls += [_consume(plan, Client(world, f"consumer{i}")) for i in range(2)]
    await all_of(world, calls)
    setting.drop()
    world.weather.calm_down()
    how = world.random.choice(("serving", "stopped"))
    if how == "stopped":
        world.slots[0].process.crash()
    world.set_clock(0)
    await scheduler.pause(10 * SECOND_US)
    world.collect()
    world.note("the clock is right")
    await _drain(plan, world)
    world.note("drained")
    # The window ends by real time, too, and what is sent by then comes at once.
    await scheduler.pause(WINDOW_US + 20 * SECOND_US)
    await _send_again(Client(world, "again"), world)
    await _drain(plan, world)


async def _set_clock(plan: ClockPlan, world: ClockWorld) -> None:
    """Without end: the clock is set, right again or not; the process ends now and then."""
    random = world.random
    while True:
        await world.scheduler.pause(random.randrange(1, 30 * SECOND_US))
        match random.choice(("set", "set", "right", "restart", "collect")):
            case "set":
                world.set_clock(random.choice(plan.steps_us))
            case "right":
                world.set_clock(0)
            case "restart":
                world.slots[0].process.crash()
            case "collect":
                world.collect()


async def _create_queues(plan: ClockPlan, client: Client) -> None:
    for name in plan.queues:
        attributes = {
            "VisibilityTimeout": str(VISIBILITY_S),
            "MessageRetentionPeriod": str(plan.retention_s),
        }
        if name == FIFO:
            attributes["FifoQueue"] = "true"
        params = {"QueueName": name, "Attributes": attributes}
        assert await client.call("CreateQueue", name, params) is not None


async def _send(plan: ClockPlan, client: Client) -> None:
    for number in range(plan.sends_each):
        await client.pause(1_000, client.random.choice((20_000, 3_000_000, 9_000_000)))
        is_standard = client.random.random() < 0.5
        if plan.queues == (STANDARD,) or (is_standard and STANDARD in plan.queues):
            params: dict[str, Any] = {
                "QueueUrl": STANDARD,
                "MessageBody": f"{client.name}.{number}",
            }
            if client.random.random() < 0.2:
                params["DelaySeconds"] = client.random.choice((1, DELAY_S_MAX))
            await client.call("SendMessage", STANDARD, params)
        else:
            # Some of them twice: the second is a duplicate by real time.
            for _ in range(client.random.choice((1, 1, 2))):
                await _send_in_order(client, f"{client.name}.{number}")


async def _send_in_order(client: Client, body: str) -> None:
    params = {
        "QueueUrl": FIFO,
        "MessageBody": body,
        "MessageGroupId": client.name,
        "MessageDeduplicationId": body,
    }
    await client.call("SendMessage", FIFO, params)


async def _send_again(client: Client, world: ClockWorld) -> None:
    sent = {one.call.params["MessageBody"] for one in _sends(world) if one.call.queue == FIFO}
    for body in sorted(sent)[:3]:
        await _send_in_order(client, body)


async def _consume(plan: ClockPlan, client: Client) -> None:
    for _ in range(40):
        queue = client.random.choice(plan.queues)
        params = {
            "QueueUrl": queue,
            "MaxNumberOfMessages": client.random.choice((1, 3)),
            **ALL_NAMES,
        }
        output = await client.call("ReceiveMessage", queue, params)
        handles = [message["ReceiptHandle"] for message in (output or {}).get("Messages", ())]
        await client.pause(1_000, client.random.choice((50_000, 2_000_000)))
        await delete(client, queue, [one for one in handles if client.random.random() < 0.6])


async def _drain(plan: ClockPlan, world: ClockWorld) -> None:
    """Receive and delete what is there; it is to come within SETTLED_US."""
    client, until_us = Client(world, "drain"), world.scheduler.now_us + SETTLED_US
    while world.scheduler.now_us < until_us:
        for queue in plan.queues:
            params = {"QueueUrl": queue, "MaxNumberOfMessages": 10, **ALL_NAMES}
            output = await client.call("ReceiveMessage", queue, params)
            messages = (output or {}).get("Messages", ())
            await delete(client, queue, [message["ReceiptHandle"] for message in messages])
        await client.pause(100_000, 300_000)


# The oracle


def _sends(world: ClockWorld) -> Iterator[Attempt]:
    """Sends that were acknowledged."""
    for attempt in world.history.attempts:
        if attempt.call.operation == "SendMessage" and attempt.ok:
            yield attempt


def _deliveries(world: ClockWorld) -> Iterator[tuple[Attempt, dict[str, Any]]]:
    for attempt in world.history.attempts:
        if attempt.call.operation == "ReceiveMessage" and attempt.ok:
            for message in attempt.output.get("Messages", ()):
                yield attempt, message


def check(plan: ClockPlan, world: ClockWorld) -> list[Violation]:
    """What did not hold."""
    broken = [Violation("nothing breaks", text, []) for text in world.history.broken]
    return [
        *broken,
        *_acknowledged_is_delivered(world),
        *_groups_stay_in_order(plan, world),
        *_duplicates_go_by_real_time(plan, world),
        *_times_are_the_worlds(world),
    ]


def _acknowledged_is_delivered(world: ClockWorld) -> Iterator[Violation]:
    """Within seconds of real time, wherever the clock was; no universe is as long as retention."""
    delivered = {message["MessageId"] for _, message in _deliveries(world)}
    for send in _sends(world):
        message_id = send.output["MessageId"]
        if message_id not in delivered:
            text = f"{send.call.params['MessageBody']} was sent and is not delivered"
            yield Violation("acknowledged is delivered", text, [message_id])


def _groups_stay_in_order(plan: ClockPlan, world: ClockWorld) -> Iterator[Violation]:
    """First deliveries of a group come in the order in which its one client has sent.

    What was sent before a start that finds the clock ahead by the retention seems to have expired
    then, as after a long stop: it comes when the clock is right, behind what was delivered
    meanwhile. That may happen again with what was sent since.

    Deliveries count in the order of their answers: of two receives at once, the one that was asked
    for first may get what follows, once the other's message is deleted.
    """
    ahead_us = plan.retention_s * SECOND_US - 60 * SECOND_US
    misled_us = [start_us for start_us, found_us in world.starts if found_us > ahead_us]
    sent_us = {send.output["MessageId"]: send.invoked_us for send in reversed([*_sends(world)])}
    order: dict[str, list[str]] = defaultdict(list)
    seen: dict[str, list[str]] = defaultdict(list)
    for send in _sends(world):
        if send.call.queue == FIFO and send.output["MessageId"] not in order[send.call.client]:
            order[send.call.client].append(send.output["MessageId"])
    for attempt, message in sorted(_deliveries(world), key=lambda one: one[0].answered_us or 0):
        if attempt.call.queue == FIFO:
            group = message["Attributes"]["MessageGroupId"]
            if message["MessageId"] not in seen[group]:
                seen[group].append(message["MessageId"])
    for group, ids in order.items():
        for starts in range(len(misled_us) + 1):
            part = [one for one in ids if bisect(misled_us, sent_us[one]) == starts]
            first = [one for one in seen[group] if one in part]
            if first != [one for one in part if one in first]:
                yield Violation("groups stay in order", f"those of {group} came as {first}", first)


def _duplicates_go_by_real_time(plan: ClockPlan, world: ClockWorld) -> Iterator[Violation]:
    """The same id within the window is one message, and beyond it two.

    A process that starts while its clock is ahead takes the time for longer than it was, until the
    clock is right; only there an id may be taken for a new one.
    """
    first: dict[str, Attempt] = {}
    misled = plan.starts_wrong or any("-> restart" in text for _, text in world.history.events)
    misled = misled or any("crashes" in text for _, text in world.history.events)
    for send in _sends(world):
        if send.call.queue != FIFO:
            continue
        body = send.call.params["MessageBody"]
        known = first.get(body)
        if known is None:
            first[body] = send
            continue
        same = known.output["MessageId"] == send.output["MessageId"]
        apart_us = (send.answered_us or 0) - known.invoked_us
        at_least_us = send.invoked_us - (known.answered_us or NEVER_US)
        if same and at_least_us > WINDOW_US + LENIENCE_US:
            text = f"{body} was sent again {at_least_us // SECOND_US} s later and is not stored"
            yield Violation("duplicates go by real time", text, [body])
        if not same and apart_us < WINDOW_US - LENIENCE_US and not misled:
            text = f"{body} was stored twice within {apart_us // SECOND_US} s"
            yield Violation("duplicates go by real time", text, [body])
        if not same:
            first[body] = send


def _times_are_the_worlds(world: ClockWorld) -> Iterator[Violation]:
    """Once the clock is right, messages are shown as sent when they were."""
    right_us = next(
        (t for t, text in world.history.events if text == "the clock is right"), NEVER_US
    )
    sent = {send.output["MessageId"]: send for send in reversed([*_sends(world)])}
    for attempt, message in _deliveries(world):
        send = sent.get(message["MessageId"])
        if send is None or attempt.invoked_us < right_us:
            continue
        shown_us = int(message["Attributes"]["SentTimestamp"]) * 1_000
        early_us = min(one.invoked_us for one in send.call.attempts) - shown_us
        late_us = shown_us - (send.answered_us or NEVER_US)
        if max(early_us, late_us) > SHOWN_US_MAX:
            text = f"{message['Body']} is shown as sent {max(early_us, late_us)} us off"
            yield Violation("times are the world's", text, [message["MessageId"]])
