"""The port CacheNode over a node that speaks TLS, as it should and as it should not."""

import logging
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from control_plane.metadata_cache.memcached import RULES, MemcachedNode, tls_context
from data_plane.ports import CellUnavailableError
from tests.conformance.memcached_server import NAME, ProtocolServer, drip, flood
from tests.conformance.node_drivers import PATIENT_S, RUNS, on_event_loop
from tests.integration.certificates import Certificates, make_certificates


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return make_certificates(tmp_path)


@pytest.fixture
def server(certificates: Certificates) -> Iterator[ProtocolServer]:
    started = ProtocolServer(tls=certificates.served())
    yield started
    started.stop()


@pytest.fixture
def in_clear() -> Iterator[ProtocolServer]:
    started = ProtocolServer()
    yield started
    started.stop()


@pytest.fixture
def trusting(certificates: Certificates) -> ssl.SSLContext | None:
    return tls_context(str(certificates.authority))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control_plane.metadata_cache.memcached.ANSWER_S", PATIENT_S)


async def fails(node: MemcachedNode) -> None:
    with pytest.raises(CellUnavailableError):
        await node.find([NAME])


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_value_is_found_as_it_was_put(
    server: ProtocolServer,
    trusting: ssl.SSLContext,
    run: Callable[..., None],
    host: str,
) -> None:
    value = bytes(range(256)) * 40 + b"\r\nEND\r\n"

    async def call(node: MemcachedNode) -> None:
        assert await node.replace(NAME, b"1", None, 10)
        await node.put(NAME, value, 10)
        found = await node.find([NAME])
        assert found[NAME].value == value
        assert await node.replace(NAME, b"2", found[NAME], 10)

    run((host, server.port), call, tls=trusting)
    assert server.commands == [b"add", b"set", b"gets", b"cas"]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("host", "authority", "reason"),
    [
        ("127.0.0.1", "of this machine", "certificate verify failed"),
        ("127.0.0.1", "of somebody else", "certificate verify failed"),
        ("127.1", "its own", "not valid for '127.1'"),
    ],
)
def test_nothing_is_said_to_a_node_that_cannot_prove_who_it_is(  # noqa: PLR0913, PLR0917 - cases
    server: ProtocolServer,
    certificates: Certificates,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    host: str,
    authority: str,
    reason: str,
) -> None:
    settings = {
        "of this machine": "on",
        "of somebody else": str(make_certificates(tmp_path / "others").authority),
        "its own": str(certificates.authority),
    }
    with caplog.at_level(logging.WARNING, "control_plane.metadata_cache.memcached"):
        on_event_loop((host, server.port), fails, tls=tls_context(settings[authority]))
    assert server.commands == []
    assert reason in caplog.text


@pytest.mark.usefixtures("patient")
def test_who_speaks_in_clear_and_who_does_not(
    server: ProtocolServer, in_clear: ProtocolServer, trusting: ssl.SSLContext
) -> None:
    on_event_loop(in_clear.address, fails, tls=trusting)
    on_event_loop(server.address, fails)
    assert in_clear.values == server.values == {}


def test_a_node_that_shakes_no_hands_fails(trusting: ssl.SSLContext) -> None:
    """It takes connections, and says nothing: the time-out is the socket's own."""
    with socket.create_server(("127.0.0.1", 0)) as silent:

        async def call(node: MemcachedNode) -> None:
            for _ in range(RULES.weight_min):
                await fails(node)
            assert node.is_left_alone

        on_event_loop(silent.getsockname(), call, tls=trusting)


def test_an_answer_that_comes_byte_by_byte_is_not_waited_for(
    server: ProtocolServer, trusting: ssl.SSLContext
) -> None:
    server.misbehave = drip
    on_event_loop(server.address, fails, tls=trusting)


@pytest.mark.usefixtures("patient")
def test_an_answer_is_not_read_for_ever(server: ProtocolServer, trusting: ssl.SSLContext) -> None:
    server.misbehave = flood

    async def call(node: MemcachedNode) -> None:
        with pytest.raises(CellUnavailableError, match="too big"):
            await node.find([NAME])

    on_event_loop(server.address, call, tls=trusting)


@pytest.mark.usefixtures("patient")
def test_a_node_that_starts_again_serves(server: ProtocolServer, trusting: ssl.SSLContext) -> None:
    async def call(node: MemcachedNode) -> None:
        await node.put(NAME, b"1", 10)
        server.stop()
        await fails(node)
        server.start()
        assert await node.find([NAME]) == {}

    on_event_loop(server.address, call, tls=trusting)
