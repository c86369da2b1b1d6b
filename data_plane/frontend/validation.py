"""The stage that refuses requests without their required parameters, or with a wrong trace."""

from data_plane.core import trace_header
from data_plane.frontend.exchange import Exchange


def check_required(exchange: Exchange) -> None:
    """Raise RefusedError where the service misses a parameter, or messages could have no trace.

    What else holds of parameters is each operation's own to check.
    """
    if exchange.served_by.has_queues:
        trace_header.check_http_header(exchange.request.headers.get(trace_header.HTTP_HEADER, ""))
    exchange.served_by.check(exchange.chosen, exchange.params)
