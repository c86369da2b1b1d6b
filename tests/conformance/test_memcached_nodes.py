"""The port CacheNode over memcached, and over a server of its protocol that also misbehaves."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from control_plane.metadata_cache.memcached import RULES, MemcachedNode
from control_plane.metadata_cache.nodes import Held
from data_plane.core.circuit_breaker import CircuitState
from data_plane.ports import CellFullError, CellUnavailableError
from tests.conformance.memcached_server import (
    MEMCACHED,
    NAME,
    Memcached,
    ProtocolServer,
    drip,
    flood,
)
from tests.conformance.node_drivers import PATIENT_S, RUNS, on_event_loop
from tests.unit.repeatable import HandClock

OTHER = "1" * 32
LOOKS_MAX = 6000
"""Each takes as long as an answer may at most: a minute in all."""


@pytest.fixture(params=["memcached", "protocol"])
def server(request: pytest.FixtureRequest) -> Iterator[Memcached | ProtocolServer]:
    if request.param == "memcached" and MEMCACHED is None:
        pytest.skip("memcached is not installed")
    started = Memcached() if request.param == "memcached" else ProtocolServer()
    yield started
    started.stop()


@pytest.fixture
def odd() -> Iterator[ProtocolServer]:
    started = ProtocolServer()
    yield started
    started.stop()


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control_plane.metadata_cache.memcached.ANSWER_S", PATIENT_S)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("run", RUNS)
def test_a_value_is_found_as_it_was_put(server: Memcached, run: Callable[..., Any]) -> None:
    value = bytes(range(256)) * 40 + b"\r\nEND\r\n"

    async def call(node: MemcachedNode) -> None:
        assert await node.find([NAME, OTHER]) == {}
        await node.put(NAME, value, 10)
        found = await node.find([OTHER, NAME])
        assert {name: held.value for name, held in found.items()} == {NAME: value}
        await node.put(NAME, b"", 10)
        assert (await node.find([NAME]))[NAME].value == b""

    run(server.address, call)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("run", RUNS)
def test_a_value_replaces_only_what_was_seen(server: Memcached, run: Callable[..., Any]) -> None:
    async def call(node: MemcachedNode) -> None:
        assert await node.replace(NAME, b"1", None, 10)
        assert not await node.replace(NAME, b"2", None, 10)
        seen = (await node.find([NAME]))[NAME]
        assert seen.value == b"1"
        assert await node.replace(NAME, b"2", seen, 10)
        assert not await node.replace(NAME, b"3", seen, 10)
        assert (await node.find([NAME]))[NAME].value == b"2"
        assert not await node.replace(OTHER, b"4", Held(b"", b"1"), 10), "it is gone meanwhile"

    run(server.address, call)


@pytest.mark.usefixtures("patient")
def test_a_node_that_starts_again_is_empty_and_serves(server: Memcached) -> None:
    async def call(node: MemcachedNode) -> None:
        await node.put(NAME, b"1", 10)
        server.stop()
        with pytest.raises(CellUnavailableError):
            await node.find([NAME])
        server.start()
        assert await node.find([NAME]) == {}
        assert await node.replace(NAME, b"2", None, 10)

    on_event_loop(server.address, call)


@pytest.mark.usefixtures("patient")
def test_many_calls_at_a_time_share_two_connections(server: Memcached) -> None:
    async def call(node: MemcachedNode) -> None:
        names = [f"{number:032x}" for number in range(100)]
        await asyncio.gather(*(node.put(name, name.encode(), 10) for name in names))
        found = await asyncio.gather(*(node.find([name]) for name in names))
        assert [each[name].value for each, name in zip(found, names, strict=True)] == [
            name.encode() for name in names
        ]

    on_event_loop(server.address, call)


def test_a_node_that_nobody_listens_at_fails_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = unused.getsockname()

        async def call(node: MemcachedNode) -> None:
            for _ in range(RULES.weight_min):
                with pytest.raises(CellUnavailableError, match="does not answer"):
                    await node.find([NAME])
            assert node.is_left_alone

        on_event_loop(address, call)


def test_a_node_that_hangs_costs_three_requests_and_then_one_a_minute(odd: ProtocolServer) -> None:
    """The waits are counted, not timed: each is bounded by the socket's own time-out."""
    clock = HandClock()

    def hang(_command: bytes, _answer: bytes, _send: Callable[[bytes], None]) -> bytes:
        odd.stopping.wait()
        return b""

    odd.misbehave = hang

    async def call(node: MemcachedNode) -> None:
        minutes = []
        for _ in range(3):
            before = node.guard.counters.failed
            for _ in range(1000):
                with pytest.raises(CellUnavailableError):
                    await node.find([NAME])
            minutes.append(node.guard.counters.failed - before)
            clock.advance(60)
        assert minutes == [RULES.weight_min, 1, 1]
        odd.misbehave = None
        await until_it_answers(node, clock)
        assert node.guard.state is CircuitState.CLOSED

    on_event_loop(odd.address, call, clock)


async def until_it_answers(node: MemcachedNode, clock: HandClock) -> None:
    """An answer may take longer than it may here, on a busy machine."""
    for _ in range(LOOKS_MAX):
        clock.advance(60)
        try:
            await node.find([NAME])
        except CellUnavailableError:
            continue
        return
    raise AssertionError(f"{node.name} does not answer")


def saying(answer: bytes) -> Callable[[bytes, bytes, Callable[[bytes], None]], bytes]:
    return lambda _command, _answer, _send: answer


ODDITIES = {
    "drips": drip,
    "floods": flood,
    "error": saying(b"ERROR\r\n"),
    "client error": saying(b"CLIENT_ERROR bad\r\n"),
    "nonsense": saying(b"\x00\xff nonsense\r\n"),
    "no cas": saying(b"VALUE %s 0 1\r\nx\r\nEND\r\n" % NAME.encode()),
    "no size": saying(b"VALUE %s 0 x 1\r\nx\r\nEND\r\n" % NAME.encode()),
    "another key": saying(b"VALUE %s 0 1 1\r\nx\r\nEND\r\n" % OTHER.encode()),
    "stored": saying(b"STORED\r\n"),
}


@pytest.mark.parametrize("oddity", ODDITIES)
def test_an_answer_that_is_none_is_a_failure(odd: ProtocolServer, oddity: str) -> None:
    odd.misbehave = ODDITIES[oddity]

    async def call(node: MemcachedNode) -> None:
        with pytest.raises(CellUnavailableError):
            await node.find([NAME])
        assert node.guard.counters.failed == 1
        odd.misbehave = None
        await until_it_answers(node, clock)

    clock = HandClock()
    on_event_loop(odd.address, call, clock)


@pytest.mark.usefixtures("patient")
def test_an_answer_is_not_read_for_ever(odd: ProtocolServer) -> None:
    odd.misbehave = flood

    async def call(node: MemcachedNode) -> None:
        with pytest.raises(CellUnavailableError, match="too big"):
            await node.find([NAME])

    on_event_loop(odd.address, call)


@pytest.mark.usefixtures("patient")
def test_a_node_that_is_full_is_well(odd: ProtocolServer) -> None:
    odd.misbehave = saying(b"SERVER_ERROR out of memory storing object\r\n")

    async def call(node: MemcachedNode) -> None:
        for _ in range(10):
            with pytest.raises(CellFullError):
                await node.put(NAME, b"1", 10)
        assert not node.is_left_alone

    on_event_loop(odd.address, call)


@pytest.mark.usefixtures("patient")
def test_a_late_answer_is_not_taken_for_that_of_the_next_question(odd: ProtocolServer) -> None:
    late = [True]

    def answer_late(_command: bytes, answer: bytes, send: Callable[[bytes], None]) -> bytes:
        if late.pop() if late else False:
            send(b"VALUE %s 0 5" % NAME.encode())
            raise ConnectionError
        return answer

    odd.misbehave = answer_late

    async def call(node: MemcachedNode) -> None:
        with pytest.raises(CellUnavailableError):
            await node.find([NAME])
        assert await node.find([OTHER]) == {}

    on_event_loop(odd.address, call)


def test_addresses_are_what_placement_rests_on(odd: ProtocolServer) -> None:
    async def call(node: MemcachedNode) -> str:
        return node.name

    assert on_event_loop(odd.address, call) == f"127.0.0.1:{odd.port}"
