"""Connections on which nothing goes on: told from others by what the kernel knows."""

import asyncio
import os
import socket
import sys
from collections.abc import Iterator

import pytest

from data_plane.http import idle as idle_module
from data_plane.http.idle import IdleConnections

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


_ADDRESSES = {"127.0.0.1": socket.AF_INET, "::1": socket.AF_INET6}


@pytest.fixture(
    params=[host for host in _ADDRESSES if host != "::1" or socket.has_dualstack_ipv6()]
)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """What a server has accepted, and the client's end."""
    with socket.create_server((request.param, 0), family=_ADDRESSES[request.param]) as listener:
        client = socket.create_connection(listener.getsockname()[:2], timeout=20)
        accepted, _ = listener.accept()
        with client, accepted:
            yield accepted, client


def looked_at(accepted: socket.socket, idle_s: float, *, in_use: bool = False) -> int:
    """How many were ended when it was looked at this one."""
    idle = IdleConnections(accepted.getsockname()[1], idle_s, lambda _port: in_use)
    idle._look_at(accepted.fileno())
    return idle.ended


def test_one_without_traffic_ends(pair: tuple[socket.socket, socket.socket]) -> None:
    accepted, client = pair
    assert looked_at(accepted, 3_600) == 0
    assert looked_at(accepted, 0, in_use=True) == 0
    client.sendall(b"x")
    assert accepted.recv(1) == b"x"
    assert looked_at(accepted, 0) == 1
    assert client.recv(1) == b""
    assert accepted.fileno() >= 0  # whose it is closes it


def test_others_are_let_alone(pair: tuple[socket.socket, socket.socket]) -> None:
    accepted, client = pair
    port = accepted.getsockname()[1]
    idle = IdleConnections(port, 0, lambda _port: False)
    reading, writing = os.pipe()
    left, right = socket.socketpair()
    with socket.socket() as unconnected, left, right:
        for file in (reading, client.fileno(), left.fileno(), unconnected.fileno(), 1 << 20):
            idle._look_at(file)
    assert idle.ended == 0
    os.write(writing, b"x")
    assert os.read(reading, 1) == b"x"
    os.close(reading)
    os.close(writing)


def test_all_of_them_end_when_the_server_stops(pair: tuple[socket.socket, socket.socket]) -> None:
    accepted, client = pair
    idle = IdleConnections(accepted.getsockname()[1], 3_600, lambda _port: True)
    idle.end_all()
    assert idle.ended == 1
    assert client.recv(1) == b""


class _Noted(IdleConnections):
    """Notes how many files it looks at between two pauses."""

    def __init__(self) -> None:
        super().__init__(1, 0, lambda _port: False)
        self.between: list[int] = [0]
        self.files: set[int] = set()

    def _look_at(self, file: int) -> None:
        self.between[-1] += 1
        self.files.add(file)


def test_others_have_their_turn_while_thousands_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted = _Noted()
    pause = asyncio.sleep

    async def sleep(_time_s: float) -> None:
        noted.between.append(0)
        await pause(0)
        if len(noted.between) > len(files) / idle_module._LOOKED_AT + 4:
            raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(300)]
    try:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(noted.run())
    finally:
        for file in files:
            os.close(file)
    assert noted.files >= set(files)
    assert max(noted.between) <= 32
