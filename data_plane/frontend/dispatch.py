"""The stages that perform the operation, meter what it did, and encode its answer."""

from data_plane.core.identifiers import is_host
from data_plane.frontend.exchange import JSON, LEGACY_JSON, Exchange, Stage
from data_plane.frontend.settings import FrontEndSettings
from data_plane.ports import Clock
from data_plane.protocol import aws_json, legacy_json, query_xml
from data_plane.protocol.operation import Call


def perform(settings: FrontEndSettings, clock: Clock) -> Stage:
    """Hand the call to its operation."""

    async def stage(exchange: Exchange) -> None:
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
            )
        )

    return stage


async def measure(exchange: Exchange) -> None:
    """Note what the operation did."""
    exchange.work = exchange.chosen.measure(exchange.params, exchange.output)


async def encode_output(exchange: Exchange) -> None:
    """Encode the answer in the protocol of the request."""
    if exchange.protocol == JSON:
        exchange.response = aws_json.encode(exchange.request_id, exchange.output)
    elif exchange.protocol == LEGACY_JSON:
        exchange.response = legacy_json.encode(
            exchange.request_id, exchange.chosen, exchange.output
        )
    else:
        exchange.response = query_xml.encode(exchange.request_id, exchange.chosen, exchange.output)


def _base_url(exchange: Exchange) -> str:
    """Scheme, host and what leads to the service as the caller used them, also by a proxy."""
    headers = exchange.request.headers
    host = headers.get("host", "")
    scheme = headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    if scheme not in ("http", "https"):
        scheme = "https" if exchange.request.secure else "http"
    prefix = exchange.request.prefix
    return f"{scheme}://{host if is_host(host) else 'localhost'}{prefix}"
