"""The stage that refuses requests without their required parameters."""

from data_plane.frontend.exchange import Exchange


def check_required(exchange: Exchange) -> None:
    """Raise RefusedError where the service misses a parameter.

    What else holds of parameters is each operation's own to check.
    """
    exchange.served_by.check(exchange.chosen, exchange.params)
