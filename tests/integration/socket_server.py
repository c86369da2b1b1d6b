"""The server of the conformance tests behind real HTTP, for clients that find it by its socket."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from data_plane.core.limits import REQUEST_BODY_BYTES_MAX
from data_plane.frontend.settings import FrontEndSettings
from data_plane.http.connections import bind
from data_plane.http.overload import Overload, OverloadSettings
from data_plane.http.server import HttpServer, HttpSettings, Page
from data_plane.system import SystemEntropy
from tests.conformance.in_process import InProcessServer
from tests.integration.server_process import LAG_S_MAX

_HOST = "127.0.0.1"


class SocketServer(InProcessServer):
    """The same server behind HTTP, on a port of its own; `limits` are of its HttpSettings."""

    def __init__(
        self, pages: Mapping[str, Page] | None = None, *, verifies: bool = False, **limits: Any
    ) -> None:
        super().__init__(verifies=verifies)
        self._listener = bind(_HOST, 0)
        self.port: int = self._listener.getsockname()[1]
        self.endpoint = f"http://{_HOST}:{self.port}"
        settings = HttpSettings(REQUEST_BODY_BYTES_MAX, **limits)
        self.overload = Overload(
            OverloadSettings(lag_s_max=LAG_S_MAX),
            lambda: 0,
            SystemEntropy(),
            self.front_end.refuse_unread,
        )
        front_end = self.front_end
        self.http = HttpServer(
            front_end.answer, pages or {}, settings, self.overload, front_end.admission
        )
        self._stop: asyncio.Event
        self._started: asyncio.Event
        self._serving: asyncio.Task[bool]
        self.run(self._start())

    def anonymous(self) -> Any:
        """A client in the account of callers who do not say who they are."""
        settings = FrontEndSettings()
        return self.client("json", settings.default_account, settings.default_region)

    def started(self) -> Callable[[], None]:
        """What is called when it listens."""
        return self._started.set

    def close(self) -> None:
        self.run(self._end())
        super().close()

    def _connect(self, client: Any) -> None:
        """Clients find the socket by themselves."""

    async def _start(self) -> None:
        self._stop = asyncio.Event()
        self._started = asyncio.Event()
        self._serving = asyncio.create_task(
            self.http.serve(self._stop, self._listener, self.started())
        )
        await self._started.wait()

    async def _end(self) -> None:
        self._stop.set()
        await self._serving
