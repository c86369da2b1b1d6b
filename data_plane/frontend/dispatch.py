"""The stages that perform the operation, meter what it did, and encode its answer."""

from collections.abc import Awaitable, Callable, Generator

from data_plane.core import trace_header
from data_plane.core.identifiers import is_host
from data_plane.core.limits import SMALL_BODY_BYTES_MAX
from data_plane.core.turns import InTurns
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.frontend.served import Unobserved
from data_plane.frontend.settings import FrontEndSettings
from data_plane.ports import Clock
from data_plane.protocol.http import HttpResponse
from data_plane.protocol.operation import Call


def perform(settings: FrontEndSettings, clock: Clock) -> Callable[[Exchange], Awaitable[None]]:
    """Hand the call to its operation."""

    async def stage(exchange: Exchange) -> None:
        trace = exchange.request.headers.get(trace_header.HTTP_HEADER)
        exchange.output = await exchange.chosen.perform(
            Call(
                request_id=exchange.request_id,
                account=exchange.account,
                region=exchange.region,
                base_url=settings.base_url or _base_url(exchange),
                now_us=clock.now_us(),
                params=exchange.params,
                queue=exchange.queue,
                invocation_id=exchange.invocation_id,
                attempt=exchange.attempt,
                caller=exchange.caller,
                authorised=exchange.authorised,
                stored=exchange.stored,
                trace_header=trace_header.from_http_header(trace) if trace else "",
            )
        )

    return stage


def measure(unobserved: Unobserved) -> Stage:
    """Note what the operation did, which has taken effect: to fail here is no failure of it."""

    def stage(exchange: Exchange) -> None:
        try:
            exchange.work = exchange.chosen.measure(exchange.params, exchange.output)
        except Exception as error:  # noqa: BLE001 - told, and answered as if it had not happened
            unobserved("measure", error)

    return stage


def encode_output(in_turns: InTurns) -> Stage:
    """Encode the answer in the protocol of the request; long ones one after the other."""

    def stage(exchange: Exchange) -> Awaitable[None] | None:
        if exchange.work.sent or exchange.work.size <= SMALL_BODY_BYTES_MAX:
            exchange.response = _encoded(exchange)
            return None
        return _keep_response(exchange, in_turns(_encode_long(exchange)))

    return stage


async def _keep_response(exchange: Exchange, encoding: Awaitable[HttpResponse]) -> None:
    exchange.response = await encoding


def _encode_long(exchange: Exchange) -> Generator[None, None, HttpResponse]:
    yield
    return _encoded(exchange)


def _encoded(exchange: Exchange) -> HttpResponse:
    return exchange.protocol.encode(
        exchange.request_id, exchange.served_by, exchange.chosen, exchange.output
    )


def _base_url(exchange: Exchange) -> str:
    """Scheme, host and what leads to the service as the caller used them, also by a proxy."""
    headers = exchange.request.headers
    host = headers.get("host", "")
    scheme = headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    if scheme not in ("http", "https"):
        scheme = "https" if exchange.request.secure else "http"
    prefix = exchange.request.prefix
    return f"{scheme}://{host if is_host(host) else 'localhost'}{prefix}"
