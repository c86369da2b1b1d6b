"""A way to a dependency that can be shut: then nothing is refused, and nothing ever arrives."""

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.rehearsal.processes import HOST

_CHUNK_BYTES = 65536


class Gate:
    """Passes bytes on to the engine, both ways, while it is open; serves on `url`."""

    def __init__(self, engine_url: str) -> None:
        self.url = ""
        engine = urlsplit(engine_url)
        self._engine = (engine.hostname, engine.port)
        self._loop: asyncio.AbstractEventLoop
        self._open: asyncio.Event
        self._stop: asyncio.Event

    def shut(self) -> None:
        """From now on every connection hangs, those that are there and new ones."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def open(self) -> None:
        """Everything goes on, what was held up first."""
        self._loop.call_soon_threadsafe(self._open.set)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)

    async def serve(self, ready: threading.Event) -> None:
        """Until `stop`."""
        self._loop, self._stop, self._open = (
            asyncio.get_running_loop(),
            asyncio.Event(),
            asyncio.Event(),
        )
        self._open.set()
        server = await asyncio.start_server(self._accept, HOST, 0)
        self.url = "http://{}:{}".format(*server.sockets[0].getsockname())
        ready.set()
        await self._stop.wait()
        server.close()

    async def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await self._open.wait()
            there, back = await asyncio.open_connection(*self._engine)
            await asyncio.gather(self._pass(reader, back), self._pass(there, writer))
        except (ConnectionError, asyncio.CancelledError):
            return  # who asked has hung up, or this stops
        finally:
            writer.close()

    async def _pass(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            while chunk := await reader.read(_CHUNK_BYTES):
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
        finally:
            writer.close()


@contextmanager
def gate_before(engine_url: str) -> Iterator[Gate]:
    """An open gate before the engine, in a thread of its own."""
    gate, ready = Gate(engine_url), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(gate.serve(ready)), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield gate
    finally:
        gate.open()
        gate.stop()
        thread.join(10)
