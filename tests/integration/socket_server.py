"""The server of the conformance tests behind real HTTP, for clients that find it by its socket."""

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

from data_plane.core.limits import REQUEST_BODY_BYTES_MAX
from data_plane.frontend.settings import FrontEndSettings
from data_plane.http.overload import Overload, OverloadSettings
from data_plane.http.server import HttpServer, HttpSettings, Page
from data_plane.system import SystemEntropy
from tests.conformance.in_process import InProcessServer

_HOST = "127.0.0.1"


class SocketServer(InProcessServer):
    """The same server behind HTTP, on a port of its own; `limits` are of its HttpSettings."""

    def __init__(self, pages: Mapping[str, Page] | None = None, **limits: Any) -> None:
        super().__init__()
        with socket.socket() as probe:
            probe.bind((_HOST, 0))
            port = probe.getsockname()[1]
        self.port: int = port
        self.endpoint = f"http://{_HOST}:{port}"
        settings = HttpSettings(_HOST, port, REQUEST_BODY_BYTES_MAX, **limits)
        self.overload = Overload(
            OverloadSettings(), lambda: 0, SystemEntropy(), self.front_end.refuse_unread
        )
        self.http = HttpServer(self.front_end.answer, pages or {}, settings, self.overload)
        self._stop: asyncio.Event
        self._serving: asyncio.Task[bool]
        self.run(self._start(port))

    def anonymous(self) -> Any:
        """A client in the account of callers who do not say who they are."""
        settings = FrontEndSettings()
        return self.client("json", settings.default_account, settings.default_region)

    def close(self) -> None:
        self.run(self._end())
        super().close()

    def _connect(self, client: Any) -> None:
        """Clients find the socket by themselves."""

    async def _start(self, port: int) -> None:
        self._stop = asyncio.Event()
        self._serving = asyncio.create_task(self.http.serve(self._stop))
        while not self._serving.done():
            try:
                _, writer = await asyncio.open_connection(_HOST, port)
            except ConnectionRefusedError:
                await asyncio.sleep(0.01)  # between two looks at a listener that starts
            else:
                writer.close()
                return
        await self._serving

    async def _end(self) -> None:
        self._stop.set()
        await self._serving
