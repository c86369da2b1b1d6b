"""The stages that perform the operation, meter what it did, and encode its answer."""

import re
from typing import Final

from data_plane.frontend.exchange import JSON, LEGACY_JSON, Exchange, Stage
from data_plane.frontend.settings import FrontEndSettings
from data_plane.ports import Clock
from data_plane.protocol import aws_json, legacy_json, query_xml
from data_plane.protocol.operation import Call

_is_host: Final = re.compile(
    r"[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?"
).fullmatch


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
    """Scheme and host as the caller used them, also through a proxy."""
    headers = exchange.request.headers
    host = headers.get("host", "")
    scheme = headers.get("x-forwarded-proto", "").partition(",")[0].strip()
    if scheme not in ("http", "https"):
        scheme = "https" if exchange.request.secure else "http"
    return f"{scheme}://{host if _is_host(host) else 'localhost'}"
