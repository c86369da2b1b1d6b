"""A bad network between a client and a DynamoDB engine: an HTTP proxy that fails by a seeded plan.

Ready-made proxies do not deliver a request twice or late, which is what a client's own retries
bring about, and do not fail by a seed.
"""

import asyncio
import socket
import struct
import threading
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Final, NoReturn
from urllib.parse import urlsplit

from tests.rehearsal.faults import LENGTH, REFUSALS, SPOILING, Fault, Packet, Storm, refusal, spoilt
from tests.rehearsal.processes import HOST

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class FaultProxy:
    """Serves on `url`. Calm until `storm` is set; `seen` counts the faults that took place."""

    def __init__(self, engine_url: str) -> None:
        self.url = ""
        self.storm: Storm | None = None
        self.requests = 0
        """Requests of storms so far."""
        self.seen: Counter[tuple[Fault, str]] = Counter()
        """By fault and operation."""
        engine = urlsplit(engine_url)
        self._engine = (engine.hostname, engine.port)
        self._late: set[asyncio.Task[Packet]] = set()
        self._serving: set[asyncio.Task[None] | None] = set()
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event

    def count(self, fault: Fault) -> int:
        return sum(number for (kind, _), number in self.seen.items() if kind is fault)

    def settle(self, timeout_s: float = 60) -> None:
        """Return when everything that is late has arrived."""

        async def settled() -> None:
            while self._late:
                await asyncio.wait(set(self._late))

        asyncio.run_coroutine_threadsafe(settled(), self._loop).result(timeout_s)

    async def serve(self, ready: threading.Event) -> None:
        """Until `stop`."""
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.url = "http://{}:{}".format(*server.sockets[0].getsockname())
        ready.set()
        await self._stop.wait()
        server.close()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        # Nobody else remembers one that waits for an engine whose client has hung up.
        task = asyncio.current_task()
        self._serving.add(task)
        try:
            while request := await _read(reader):
                storm = self.storm
                fault = None
                if storm is not None:
                    fault = storm.fault_of(self.requests)
                    self.requests += 1
                if storm is None or fault is None:
                    await _write(writer, await self._deliver(request))
                    continue
                if answer := await self._fail(request, fault, storm, writer):
                    await _write(writer, answer)
                else:
                    await reader.read()  # until the client hangs up
        except (ConnectionError, asyncio.CancelledError):
            return  # as planned, by a client that has lost its patience, or because this stops
        finally:
            self._serving.discard(task)
            writer.close()

    async def _fail(
        self, request: Packet, fault: Fault, storm: Storm, writer: StreamWriter
    ) -> Packet | None:
        """What the client is answered, or None for silence; where this resets, it raises."""
        self.seen[fault, request.operation] += 1
        if fault is Fault.REFUSED:
            _reset(writer)
        if fault in REFUSALS and fault is not Fault.FAILED_AFTERWARDS:
            return refusal(fault)
        if fault is Fault.REPEATED:
            self._deliver_later(request, Random(request.body).random() * storm.late_s)
        if fault is Fault.LATE:
            self._deliver_later(request, storm.late_s)
        if fault in {Fault.LATE, Fault.SWALLOWED}:
            return None
        answer = await self._deliver(request)
        if fault is Fault.LOST:
            _reset(writer)
        if fault is Fault.CUT:
            await _write(writer, Packet(answer.head, answer.body[: len(answer.body) // 2]))
            _reset(writer)
        if fault is Fault.SLOW:
            await asyncio.sleep(storm.late_s)  # the fault itself: it comes late
        if fault is Fault.FAILED_AFTERWARDS:
            return refusal(fault)
        if fault in SPOILING:
            bad = spoilt(answer, fault)
            self.seen[fault, request.operation] -= bad.body == answer.body
            return bad
        return answer

    async def _deliver(self, request: Packet) -> Packet:
        reader, writer = await asyncio.open_connection(*self._engine)
        try:
            await _write(writer, request)
            answer = await _read(reader)
        finally:
            writer.close()
        if answer is None:
            raise ConnectionResetError("the engine has ended, or closed without an answer")
        return answer

    def _deliver_later(self, request: Packet, after_s: float) -> None:
        async def deliver() -> Packet:
            await asyncio.sleep(after_s)  # the fault itself: it comes again, later
            return await self._deliver(request)

        task = asyncio.create_task(deliver())
        self._late.add(task)
        task.add_done_callback(self._late.discard)


@contextmanager
def fault_proxy(engine_url: str) -> Iterator[FaultProxy]:
    """A proxy before the engine, in a thread of its own."""
    proxy, ready = FaultProxy(engine_url), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(proxy.serve(ready)), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(10)


async def _read(reader: StreamReader) -> Packet | None:
    """The next packet, or None where the other side has closed the connection before it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise ConnectionResetError("closed within a head") from end
        return None
    length = LENGTH.search(head)
    if length is None:
        raise AssertionError(f"a packet that does not tell its length: {head!r}")
    try:
        return Packet(head, await reader.readexactly(int(length[1])))
    except asyncio.IncompleteReadError as end:
        raise ConnectionResetError("closed within a body") from end


async def _write(writer: StreamWriter, packet: Packet) -> None:
    writer.write(packet.head + packet.body)
    await writer.drain()


def _reset(writer: StreamWriter) -> NoReturn:
    """Break the connection, so that the other side sees an error and not an end. Raises."""
    link: socket.socket = writer.get_extra_info("socket")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
    raise ConnectionResetError("as planned")
