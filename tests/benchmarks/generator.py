"""The load generator: one process, one epoll loop, sockets that never block.

It knows just enough HTTP to keep up: requests are prepared bytes, responses are measured and handed
on. `run` starts it in a process of its own, so that its work and the server's do not share a GIL.
"""

import gc
import multiprocessing
import select
import socket
import time
from collections import deque
from multiprocessing.connection import Connection as Pipe
from typing import Final

from tests.benchmarks.conversations import Conversation, conversations
from tests.benchmarks.load import Group, Load, Outcome, Tally
from tests.benchmarks.process import cpu_s, machine_cpu_s
from tests.benchmarks.wire import (
    Request,
    ResponseError,
    response_body,
    response_size,
    says_close,
)

READ_BYTES: Final = 262_144
ERROR_BYTES: Final = 300
"""How much of an error is kept: its code and message."""

DRY_ROUNDS: Final = 3
"""A queue is empty when each connection got nothing so many times in a row."""


CUT_OFF: Final = "a connection ended without an answer"


def connect(port: int) -> socket.socket:
    """A connection that never blocks."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(0)
    return connection


class Peer:
    """One connection and what it is doing."""

    __slots__ = (
        "conversation",
        "crew",
        "operation",
        "received",
        "size",
        "socket",
        "started_s",
        "unsent",
        "upcoming",
    )

    def __init__(self, port: int, crew: "Crew", conversation: Conversation) -> None:
        self.socket = connect(port)
        self.crew = crew
        self.conversation = conversation
        self.upcoming: tuple[str, Request] | None = None
        self.operation = ""
        self.started_s = 0.0
        self.received = b""
        self.size = 0
        self.unsent = b""


class Crew:
    """The connections of a group, its tally, and for open loops what is due and who is free."""

    def __init__(self, port: int, group: Group, index: int) -> None:
        self.group = group
        self.tally = Tally()
        self.free: deque[Peer] = deque()
        self.late: deque[float] = deque()
        self.due_s = 0.0
        self.dry_after = DRY_ROUNDS * group.connections
        self.stamped = group.rate_hz > 0 and group.key is None
        self.start = conversations(port, group, self.tally)
        self.peers = [Peer(port, self, self.start()) for _ in range(group.connections)]
        self.index = index


class Generator:
    """Runs a load. Used once."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._poll = select.epoll()
        self._crews = [Crew(load.port, group, at) for at, group in enumerate(load.groups)]
        self._peers = {peer.socket.fileno(): peer for crew in self._crews for peer in crew.peers}
        self._busy = 0
        self._calls = time.perf_counter_ns() % (1 << 40)
        self._stopping = False

    def run(self) -> Outcome:
        """Warm up, measure, wait for the last answers."""
        load = self._load
        for fd in self._peers:
            self._poll.register(fd, select.EPOLLIN)
        self._begin()
        self._loop(time.perf_counter() + load.warm_up_s)
        for crew in self._crews:
            crew.tally.forget()
        machine_before_s = machine_cpu_s()
        server_cpu_s = cpu_s(load.server_pid)
        own_cpu_s = time.process_time()
        began_s = time.perf_counter()
        self._loop(began_s + load.seconds)
        elapsed_s = self._useful_until_s() - began_s
        outcome = Outcome(
            tallies=tuple(crew.tally for crew in self._crews),
            elapsed_s=elapsed_s,
            generator_cpu_s=time.process_time() - own_cpu_s,
            server_cpu_s=cpu_s(load.server_pid) - server_cpu_s,
            machine_cpu_s=machine_cpu_s() - machine_before_s,
        )
        frozen = [(tally.messages, tally.empty) for tally in outcome.tallies]
        self._drain()
        for tally, (messages, empty) in zip(outcome.tallies, frozen, strict=True):
            tally.messages, tally.empty = messages, empty
        return outcome

    def _useful_until_s(self) -> float:
        """Now; for a queue that ran dry, the time of its last message."""
        if self._crews and all(self._is_dry(crew) for crew in self._crews):
            return max(crew.tally.useful_at_s for crew in self._crews)
        return time.perf_counter()

    @staticmethod
    def _is_dry(crew: Crew) -> bool:
        return crew.tally.empty_in_a_row >= crew.dry_after

    def _begin(self) -> None:
        now_s = time.perf_counter()
        for crew in self._crews:
            crew.due_s = now_s
            for peer in crew.peers:
                peer.upcoming = next(peer.conversation)
                if crew.group.rate_hz:
                    crew.free.append(peer)
                else:
                    self._start(peer, now_s)

    def _loop(self, until_s: float) -> None:
        open_crews = [crew for crew in self._crews if crew.group.rate_hz]
        epoll = [self._poll.fileno()]
        while True:
            now_s = time.perf_counter()
            if now_s >= until_s or all(self._is_dry(crew) for crew in self._crews):
                return
            if not self._busy and not open_crews:
                return
            wake_s = until_s
            for crew in open_crews:
                self._start_due(crew, now_s)
                wake_s = min(wake_s, crew.due_s)
            if open_crews:
                # epoll counts in milliseconds, which is as long as a request takes.
                select.select(epoll, [], [], max(0.0, wake_s - time.perf_counter()))
                events = self._poll.poll(0)
            else:
                events = self._poll.poll(max(0.001, wake_s - now_s))
            for fd, event in events:
                self._serve(self._peers[fd], event)

    def _drain(self) -> None:
        self._stopping = True
        until_s = time.perf_counter() + self._load.drain_s
        while self._busy and time.perf_counter() < until_s:
            for fd, event in self._poll.poll(0.05):
                self._serve(self._peers[fd], event)
            if all(peer.operation in ("", "long_poll") for peer in self._peers.values()):
                break
        for peer in self._peers.values():
            peer.socket.close()
        self._poll.close()

    def _start_due(self, crew: Crew, now_s: float) -> None:
        step_s = 1 / crew.group.rate_hz
        while crew.due_s <= now_s:
            crew.late.append(crew.due_s)
            crew.due_s += step_s
        while crew.late and crew.free:
            self._start(crew.free.popleft(), crew.late.popleft())

    def _start(self, peer: Peer, started_s: float) -> None:
        upcoming = peer.upcoming
        if upcoming is None:
            return
        peer.operation, request = upcoming
        peer.upcoming = None
        self._calls += 1
        request.name_call(self._calls)
        if peer.crew.stamped:
            request.stamp(int(started_s * 1e9))
        peer.started_s = started_s
        self._busy += 1
        raw = request.raw
        try:
            sent = peer.socket.send(raw)
        except BlockingIOError:
            sent = 0
        if sent < len(raw):
            peer.unsent = bytes(raw[sent:])
            self._poll.modify(peer.socket.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def _serve(self, peer: Peer, event: int) -> None:
        if event & select.EPOLLOUT:
            self._send_rest(peer)
        if not event & ~select.EPOLLOUT:
            return
        try:
            received = peer.socket.recv(READ_BYTES)
        except ConnectionResetError:
            received = b""
        if not received:
            self._cut_off(peer)
            return
        if peer.received:
            received = peer.received + received
        if not peer.size:
            peer.size = response_size(received)
        if not peer.size or len(received) < peer.size:
            peer.received = received
            return
        if len(received) > peer.size:
            raise ResponseError(f"more than one response: {received[peer.size :][:80]!r}")
        peer.received = b""
        peer.size = 0
        self._answered(peer, received)

    def _cut_off(self, peer: Peer) -> None:
        self._reconnect(peer)
        if peer.operation:
            self._failed(peer, CUT_OFF)

    def _reconnect(self, peer: Peer) -> None:
        """A new connection for the next request. Raises OSError: the server is gone."""
        del self._peers[peer.socket.fileno()]
        peer.socket.close()
        peer.socket = connect(self._load.port)
        self._peers[peer.socket.fileno()] = peer
        self._poll.register(peer.socket.fileno(), select.EPOLLIN)
        peer.received = peer.unsent = b""
        peer.size = 0

    def _send_rest(self, peer: Peer) -> None:
        peer.unsent = peer.unsent[peer.socket.send(peer.unsent) :]
        if not peer.unsent:
            self._poll.modify(peer.socket.fileno(), select.EPOLLIN)

    def _answered(self, peer: Peer, response: bytes) -> None:
        now_s = time.perf_counter()
        if says_close(response):
            self._reconnect(peer)
        if response[9:12] != b"200":
            self._failed(peer, response_body(response)[:ERROR_BYTES].decode(errors="replace"))
            return
        self._busy -= 1
        peer.crew.tally.record(peer.operation, now_s - peer.started_s)
        peer.operation = ""
        try:
            peer.upcoming = peer.conversation.send(response)
        except StopIteration:
            peer.upcoming = None
            return
        self._go_on(peer, now_s)

    def _failed(self, peer: Peer, error: str) -> None:
        """Count it, and begin the conversation again: this one was to hear of success."""
        self._busy -= 1
        crew = peer.crew
        if crew.group.tolerated and crew.group.tolerated in error:
            crew.tally.refused += 1
        else:
            crew.tally.errors[error] += 1
        peer.operation = ""
        peer.conversation = peer.crew.start()
        peer.upcoming = next(peer.conversation, None)
        self._go_on(peer, time.perf_counter())

    def _go_on(self, peer: Peer, now_s: float) -> None:
        if self._stopping:
            return
        crew = peer.crew
        if not crew.group.rate_hz:
            self._start(peer, now_s)
        elif crew.late:
            self._start(peer, crew.late.popleft())
        else:
            crew.free.append(peer)


def _serve_pipe(load: Load, pipe: Pipe) -> None:
    gc.disable()
    try:
        pipe.send(Generator(load).run())
    except Exception as failure:
        pipe.send(failure)
        raise
    finally:
        pipe.close()


def run(load: Load) -> Outcome:
    """Run a load in a process of its own.

    Raises:
        ResponseError: the server answered with what is no response.
        OSError: it is not there.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve_pipe, args=(load, theirs))
    process.start()
    theirs.close()
    try:
        result = ours.recv()
    finally:
        process.join()
        ours.close()
    if isinstance(result, Exception):
        raise result
    assert isinstance(result, Outcome)
    return result
