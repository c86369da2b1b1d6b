"""A whole front end behind unmodified botocore clients, without a socket.

botocore signs and serialises a request as ever; where it would send it, the front end gets it.
"""

import io
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import cache
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlsplit

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict
from botocore.config import Config

import tidegate_sdk
from control_plane import stored_on_tables
from control_plane.core.month_usage import TenantUsage
from control_plane.serverless.opening import ANSWER_BYTES_MAX
from control_plane.service import OPERATOR, RunningService, ServicePorts, ServiceSettings
from data_plane.core.limits import RECEIVE_BYTES_MAX
from data_plane.frontend.served import Served
from data_plane.frontend.storing import StorageUse
from data_plane.memory.cell import MemoryCell
from data_plane.ports import Cell, Offload
from data_plane.protocol.http import HttpRequest, HttpResponse
from data_plane.stored.bodies import BodyStore
from data_plane.streams.bounds import READ_BYTES_MAX
from data_plane.system import SystemEntropy
from tests.conformance.on_driver import OffloadedCell
from tests.conformance.query_model import query_loader
from tests.conformance.runners import Chosen, NewRunner
from tests.conformance.several_in_process import over_several
from tests.conformance.waited_clock import WaitedClock
from tests.unit.data_plane.master_keys import HeldKeys

T = TypeVar("T")

ACCOUNT = "111122223333"
REGION = "eu-west-1"
ENDPOINT = "http://queues.example:9324"
_REGISTRY_SECRET = bytes(range(32))


NewCell = Callable[[WaitedClock, Offload], Cell]
NewBodies = Callable[[], BodyStore]


class InProcessServer:
    """Front end, engines and registry over one memory cell, run by one of the drivers.

    Several threads may call it at the same time; `runner` says whether they take turns. `new_cell`
    opens another cell than one in memory, and `new_bodies` the place for what is too big for it,
    for each front end anew. With `verifies` signatures count, and `OPERATOR` is the account whose
    root administers the others; `held_on_tables` are its accounts as those of tables are. Of
    several `cells` that in memory has the registry alone, and no other front end stands beside it.
    What is `stored` may be said, too, and how strict streams are. As a context it has an `end`.
    """

    def __init__(  # noqa: PLR0913 - what tests want of a server
        self,
        new_runner: NewRunner | None = None,
        *,
        new_cell: NewCell | None = None,
        new_bodies: NewBodies | None = None,
        sixty_second_rules: bool = True,
        auto_create_queues: bool = False,
        verifies: bool = False,
        held_on_tables: bool = False,
        neighbour: "InProcessServer | None" = None,
        tenant_usage: TenantUsage | None = None,
        webhooks: Sequence[str] = (),
        cells: int = 1,
        stored: StorageUse | None = None,
        strict_streams_s: float | None = None,
    ) -> None:
        self.endpoint = ENDPOINT
        self.clock: WaitedClock = neighbour.clock if neighbour else WaitedClock()
        self.served: list[Served] = neighbour.served if neighbour else []
        self._lock: threading.Lock = neighbour._lock if neighbour else threading.Lock()
        self._beside: list[InProcessServer] = []
        self.acts: list[dict[str, object]] = neighbour.acts if neighbour else []
        self._verifies = verifies
        self._new_runner = new_runner or Chosen.runner
        self._new_cell, self._new_bodies = new_cell, new_bodies
        self._runner = self._new_runner(self.clock)
        self.cell, cell = self._open_cell(neighbour)
        self.master_keys: HeldKeys = neighbour.master_keys if neighbour else HeldKeys()
        self.ground = ServicePorts(
            cells={"a": cell},
            control=cell,
            bodies={"a": new_bodies()} if new_bodies is not None else {},
            clock=self.clock,
            entropy=SystemEntropy(),
            waits=self._runner.waits,
            registry_secret=_REGISTRY_SECRET,
            master_keys=self.master_keys,
            tenant_usage=tenant_usage,
            webhooks=webhooks,
            stored=stored,
        )
        if cells > 1:
            self.members = {f"cell-{n}": MemoryCell(self.clock) for n in range(1, cells + 1)}
            offload = self._runner.offload
            named = {
                name: OffloadedCell(one, offload, self._lock) for name, one in self.members.items()
            }
            self.ground = over_several(self.ground, named, self._runner.run)
        self._knows = tenant_usage, webhooks
        self._held_on_tables = held_on_tables
        if held_on_tables:
            self.ground = stored_on_tables.held_on_tables(self.ground, lambda: self.service)
        settings = ServiceSettings(
            verifies,
            OPERATOR,
            sixty_second_rules=sixty_second_rules,
            auto_create_queues=auto_create_queues,
            strict_streams_s=strict_streams_s,
            answer_bytes_max=ANSWER_BYTES_MAX if self._runner.new_door else RECEIVE_BYTES_MAX,
            read_bytes_max=ANSWER_BYTES_MAX if self._runner.new_door else READ_BYTES_MAX,
        )
        self.service = service = RunningService(
            self.ground, settings, self.served.append, self._record
        )
        self.registry, self.accounts = service.registry, service.accounts
        self.engine, self.move_runner = service.engine, service.move_runner
        self.operations, self.front_end = service.operations, service.front_end
        new_door = self._runner.new_door
        self._door = new_door(self) if new_door else None

    def _open_cell(self, neighbour: "InProcessServer | None") -> tuple[Cell, Cell]:
        """The cell, and as the engines see it."""
        if self._new_cell is not None:
            cell = self._new_cell(self.clock, self._runner.offload)
            return cell, cell
        memory = neighbour.cell if neighbour else MemoryCell(self.clock)
        assert isinstance(memory, MemoryCell)
        return memory, OffloadedCell(memory, self._runner.offload, self._lock)

    def _record(self, event: str, **fields: object) -> None:
        self.acts.append({"event": event, **fields})

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Answer from any thread."""
        if self._door is not None:
            return self._door(request)
        return self.run(self.front_end.answer(request))

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine as the front end's are run."""
        return self._runner.run(call)

    def another(self) -> "InProcessServer":
        """One more front end on the same cell, with the same clock; closed together with this."""
        self._beside.append(
            InProcessServer(
                self._new_runner,
                new_cell=self._new_cell,
                new_bodies=self._new_bodies,
                verifies=self._verifies,
                held_on_tables=self._held_on_tables,
                neighbour=self,
                tenant_usage=self._knows[0],
                webhooks=self._knows[1],
            )
        )
        return self._beside[-1]

    def free(self) -> "InProcessServer":
        """A front end that answers while this one serves a call: this one, if it can."""
        return self.another() if self._runner.serves_one_at_a_time else self

    def client(
        self,
        protocol: str = "json",
        account: str = ACCOUNT,
        region: str = REGION,
        *,
        secret: str = "unused",  # noqa: S107 - nobody checks it
        extended: bool = False,
    ) -> Any:
        """A client of one of the two protocols; its access key id (`account`) names the account.

        An `extended` one knows what is beyond SQS.
        """
        client = _session(protocol, extended=extended).client(
            "sqs",
            aws_access_key_id=account,
            aws_secret_access_key=secret,
            region_name=region,
            endpoint_url=self.endpoint,
            config=Config(retries={"total_max_attempts": 1}),
        )
        self._connect(client)
        return client

    def kinesis(
        self,
        account: str = ACCOUNT,
        secret: str = "unused",  # noqa: S107 - as above
        region: str = REGION,
        *,
        extended: bool = False,
    ) -> Any:
        """A client of streams; an `extended` one knows what is beyond Kinesis."""
        client = _session("json", extended=extended).client(
            "kinesis",
            aws_access_key_id=account,
            aws_secret_access_key=secret,
            region_name=region,
            endpoint_url=self.endpoint,
            config=Config(retries={"total_max_attempts": 1}),
        )
        client.meta.events.register("before-send.kinesis", self._send)
        return client

    def resource(self, account: str, region: str) -> Any:
        """Queues and messages as objects, in place of a client."""
        resource = _session("json", extended=False).resource(
            "sqs",
            aws_access_key_id=account,
            aws_secret_access_key="unused",
            region_name=region,
            endpoint_url=self.endpoint,
            config=Config(retries={"total_max_attempts": 1}),
        )
        self._connect(resource.meta.client)
        return resource

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Close it. Nothing may have been answered with an internal error."""
        self.close()
        failures = [served.exception for served in self.served if served.exception]
        assert failures == [], "the server answered with an internal error"

    def close(self) -> None:
        """Stop what still runs."""
        for server in self._beside:
            server.close()
        self._runner.close()

    def _connect(self, client: Any) -> None:
        """Let the client's requests come here instead of to a socket."""
        client.meta.events.register("before-send.sqs", self._send)

    def _send(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        response = self.answer(to_http_request(request))
        return AWSResponse(
            request.url,
            response.status,
            cast("Any", HeadersDict(response.headers)),
            _RawBody(response.body),
        )


@cache
def _session(protocol: str, *, extended: bool) -> boto3.session.Session:
    """Reading the service model is what a client costs; a session keeps it."""
    session = boto3.session.Session()
    if protocol == "query":
        session._session.register_component("data_loader", query_loader())
    if extended:
        tidegate_sdk.extend(session._session)
    return session


class _RawBody(io.BytesIO):
    """What botocore reads a response's body from."""

    def stream(self, **_: object) -> Iterator[bytes]:
        yield self.read()


def to_http_request(request: AWSPreparedRequest) -> HttpRequest:
    """The request as a server would have received it."""
    parts = urlsplit(request.url)
    headers = {name.lower(): _text(value) for name, value in request.headers.items()}
    headers.setdefault("host", parts.netloc)
    body: Any = request.body or b""
    return HttpRequest(
        method=request.method,
        path=parts.path or "/",
        query=parts.query,
        headers=headers,
        body=body.encode() if isinstance(body, str) else body,
        client="127.0.0.1",
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
