import asyncio
from dataclasses import replace
from typing import Any

import pytest

from control_plane.core.definition import Definition
from control_plane.registry import Registry
from data_plane.core.deadline import left_us
from data_plane.core.errors import RefusedError
from data_plane.core.queue import Generation
from data_plane.ports import CellUnavailableError, DeadlinePassedError, Key, Written

ACCOUNT = "111122223333"
REGION = "eu-west-1"
KEY = Key(f"Q|{ACCOUNT}|{REGION}", b"orders")


def test_a_new_queue_has_a_uid_of_16_digits_and_one_of_the_cells(control: Any) -> None:
    for number in range(20):
        control.call("CreateQueue", QueueName=f"q{number}")
    queues = [control.find(f"q{number}") for number in range(20)]
    assert len({queue.uid for queue in queues}) == 20
    assert all(len(bytes.fromhex(queue.uid)) == 8 for queue in queues)
    assert {queue.cell for queue in queues} == {"a", "b"}


def test_a_hit_reads_nothing(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    before = control.cell.requests.total()
    first = control.find("orders")
    control.clock.advance(3.9)
    assert control.find("orders") is first
    assert control.registry.peek(ACCOUNT, REGION, "orders", control.clock.now_us()) is first
    assert control.cell.requests.total() == before


def test_a_change_by_another_server_shows_within_5_seconds(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    other = control.server()

    async def change_elsewhere() -> None:
        queue = await other.find(ACCOUNT, REGION, "orders")
        assert queue is not None
        await other.change(queue, lambda held: replace(held, attributes={"DelaySeconds": "9"}))

    asyncio.run(change_elsewhere())
    assert control.find("orders").delay_s == 0
    control.clock.advance(5)
    assert control.find("orders").delay_s == 9


def test_a_queue_of_another_server_is_found_at_once(control: Any) -> None:
    assert control.find("orders") is None
    other = control.server()
    wanted = other.define(
        account=ACCOUNT, region=REGION, name="orders", attributes={}, tags={}, now_us=0
    )
    asyncio.run(other.create(wanted, {}, 0))
    assert control.find("orders").uid == wanted.uid


def test_own_changes_show_at_once(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    control.call("SetQueueAttributes", QueueUrl="orders", Attributes={"DelaySeconds": "9"})
    assert control.find("orders").delay_s == 9
    control.call("DeleteQueue", QueueUrl="orders")
    assert control.find("orders") is None


@pytest.mark.parametrize("late", ["put", "get"])
def test_an_answer_that_comes_late_does_not_undo_a_later_change(control: Any, late: str) -> None:
    control.call("CreateQueue", QueueName="orders")
    queue, registry = control.find("orders"), control.registry
    call = getattr(control.cell, late)

    async def delayed(seconds: str) -> Any:
        return await registry.change(
            queue, lambda held: replace(held, attributes={"DelaySeconds": seconds})
        )

    async def comes_late(*args: Any, **kwargs: Any) -> Any:
        setattr(control.cell, late, call)
        answer = await call(*args, **kwargs)
        await delayed("9")
        return answer

    setattr(control.cell, late, comes_late)
    wanted = registry.define(
        account=ACCOUNT, region=REGION, name="orders", attributes={}, tags={}, now_us=0
    )
    asyncio.run(delayed("5") if late == "put" else registry.create(wanted, {}, 0))
    assert control.find("orders").delay_s == 9


@pytest.mark.parametrize("late", ["put", "get"])
@pytest.mark.parametrize("is_seen", [True, False])
def test_an_answer_that_comes_late_does_not_undo_what_another_server_did(
    control: Any, late: str, *, is_seen: bool
) -> None:
    """Also where the process stood still before it took the answer."""
    control.call("CreateQueue", QueueName="orders")
    queue, other = control.find("orders"), control.server()
    call = getattr(control.cell, late)

    async def delayed(registry: Any, seconds: str) -> Any:
        return await registry.change(
            queue, lambda held: replace(held, attributes={"DelaySeconds": seconds})
        )

    async def comes_late(*args: Any, **kwargs: Any) -> Any:
        setattr(control.cell, late, call)
        answer = await call(*args, **kwargs)
        await delayed(other, "9")
        control.clock.advance(5)
        if is_seen:
            found = await control.registry.find(ACCOUNT, REGION, "orders")
            assert found.delay_s == 9
        return answer

    setattr(control.cell, late, comes_late)
    if late == "put":
        asyncio.run(delayed(control.registry, "5"))
    else:
        asyncio.run(control.registry.change(queue, lambda held: held))
    assert control.find("orders").delay_s == 9


def test_of_a_queue_that_is_deleted_a_generation_goes_that_another_server_has_just_begun(
    control: Any,
) -> None:
    control.call("CreateQueue", QueueName="orders.fifo", Attributes={"FifoQueue": "true"})
    queue, other = control.find("orders.fifo"), control.server()
    begun = (*queue.generations, Generation(1, 8, queue.generations[0].since_s + 1))
    asyncio.run(other.change(queue, lambda held: replace(held, generations=begun)))
    assert control.find("orders.fifo").generations == queue.generations
    control.call("DeleteQueue", QueueUrl="orders.fifo")
    (dropped,) = asyncio.run(other.dropped(9))
    assert dropped.generations == begun


def test_a_reload_that_began_before_an_own_change_does_not_undo_it(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    control.clock.advance(4.5)

    async def reload_across_a_change() -> None:
        queue = await control.registry.find(ACCOUNT, REGION, "orders")
        control.clock.advance(4.5)
        control.cell.before_answer = lambda: control.registry.change(
            queue, lambda held: replace(held, attributes={"DelaySeconds": "9"})
        )
        await control.registry.find(ACCOUNT, REGION, "orders")

    asyncio.run(reload_across_a_change())
    assert control.find("orders").delay_s == 9


def test_the_last_known_definition_serves_for_10_minutes(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    control.cell.down = True
    control.clock.advance(599)
    assert control.find("orders").name == "orders"
    control.clock.advance(1)
    with pytest.raises(CellUnavailableError):
        control.find("orders")
    with pytest.raises(CellUnavailableError):
        control.find("unknown")


def test_a_registry_that_hangs_keeps_one_request_waiting_for_a_second(control: Any) -> None:
    for name in ("orders", "invoices"):
        control.call("CreateQueue", QueueName=name)
    control.clock.advance(60)

    async def hang() -> None:
        left = left_us(control.clock.now_us())
        assert left is not None
        control.clock.advance(left / 1_000_000)
        raise DeadlinePassedError

    control.cell.before_answer = hang
    started_us = control.clock.now_us()
    for _ in range(100):
        assert control.find("orders").name == "orders"
        assert control.find("invoices").name == "invoices"
    assert control.clock.now_us() == started_us + 1_000_000
    control.clock.advance(1)
    reads = control.cell.requests["get"]
    control.find("orders")
    assert control.cell.requests["get"] == reads + 1, "it looks whether it is back"


def test_a_clock_that_jumps_back_does_not_freeze_an_entry(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    control.clock.advance(-3_600)
    before = control.cell.requests["get"]
    assert control.find("orders").name == "orders"
    assert control.cell.requests["get"] == before + 1


def test_one_of_many_requests_refreshes(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    control.clock.advance(4.5)
    before = control.cell.requests["get"]

    async def two_at_once() -> None:
        control.cell.before_answer = lambda: control.registry.find(ACCOUNT, REGION, "orders")
        await control.registry.find(ACCOUNT, REGION, "orders")

    asyncio.run(two_at_once())
    assert control.cell.requests["get"] == before + 1


def test_the_cache_is_bounded_and_keeps_what_is_used(
    control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control.registry._queues, "_names_max", 3)
    for name in ("a", "b", "c"):
        control.call("CreateQueue", QueueName=name)
    control.clock.advance(4.5)
    control.find("a")
    control.call("CreateQueue", QueueName="d")
    now_us = control.clock.now_us()
    cached = [n for n in "abcd" if control.registry.peek(ACCOUNT, REGION, n, now_us)]
    assert cached == ["a", "d"]
    assert len(control.registry._queues._known) == 3


def test_concurrent_changes_lose_nothing(control: Any) -> None:
    control.call("CreateQueue", QueueName="orders")
    servers = [control.server() for _ in range(4)]

    async def tag(server: Registry, key: str) -> None:
        queue = await server.find(ACCOUNT, REGION, "orders")
        assert queue is not None
        await server.change(queue, lambda held: replace(held, tags={**held.tags, key: "x"}))

    async def interleaved() -> None:
        control.cell.before_answer = lambda: tag(servers[1], "b")
        await tag(servers[0], "a")

    asyncio.run(interleaved())
    definition = asyncio.run(control.registry.read(ACCOUNT, REGION, "orders"))
    assert definition.tags == {"a": "x", "b": "x"}
    assert definition.version == 3


def test_a_write_whose_reply_was_lost_recognises_itself(
    control: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an SDK does that repeats a conditional write on its own."""
    control.call("CreateQueue", QueueName="orders")
    put = control.cell.put

    async def put_twice(*args: Any, **kwargs: Any) -> Written:
        await put(*args, **kwargs)
        return await put(*args, **kwargs)  # type: ignore[no-any-return]

    monkeypatch.setattr(control.cell, "put", put_twice)
    control.call("TagQueue", QueueUrl="orders", Tags={"a": "1"})
    definition = asyncio.run(control.registry.read(ACCOUNT, REGION, "orders"))
    assert (definition.tags, definition.version) == ({"a": "1"}, 2)
    control.call("DeleteQueue", QueueUrl="orders")
    assert control.find("orders") is None


def test_a_race_that_is_never_won_ends(control: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    control.call("CreateQueue", QueueName="orders")
    queue = control.find("orders")

    async def lost(*_: Any, **__: Any) -> Written:
        return Written(applied=False, before=await control.cell.get(KEY), time_ms=0)

    monkeypatch.setattr(control.cell, "put", lost)
    with pytest.raises(RefusedError) as refused:
        asyncio.run(control.registry.change(queue, lambda held: replace(held, tags={"a": "1"})))
    assert refused.value.fault.status == 503


def test_a_change_of_a_queue_that_was_created_again_is_refused(lenient: Any) -> None:
    lenient.call("CreateQueue", QueueName="orders")
    old = lenient.find("orders")
    lenient.call("DeleteQueue", QueueUrl="orders")
    lenient.call("CreateQueue", QueueName="orders")

    def edit(held: Definition) -> Definition:
        return replace(held, tags={"a": "1"})

    for attempt in (lenient.registry.change(old, edit), lenient.registry.delete(old, 0)):
        with pytest.raises(RefusedError, match="The specified queue does not exist"):
            asyncio.run(attempt)
    assert asyncio.run(lenient.registry.read(ACCOUNT, REGION, "orders")).version == 3


@pytest.mark.parametrize("prefix", ["\ud800", "\x00", "\U0010ffff", "z"])
def test_odd_prefixes_match_nothing(control: Any, prefix: str) -> None:
    control.call("CreateQueue", QueueName="orders")
    assert control.call("ListQueues", QueueNamePrefix=prefix) == {}
