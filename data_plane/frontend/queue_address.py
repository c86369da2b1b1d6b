"""Which queue a request means: the stage that resolves its address.

Of a queue URL only account and name count, so that it works through every host, port and proxy;
before them may be what leads to the service, as it is in queue URLs that were handed out. A bare
name means the caller's own queue; a request on a queue's path need not repeat it. A request that
names none, or whose queue URL is none, asks for a queue that does not exist; an address with an
account that is none, and an ARN, is not valid (all recorded from AWS). ElasticMQ's addresses of
before 1.0 have the word `queue` there: they mean the caller's own queue, if there is one of that
name.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from data_plane.core.errors import (
    INVALID_ADDRESS,
    RefusedError,
    queue_does_not_exist,
)
from data_plane.core.identifiers import is_account, is_host, is_queue_name
from data_plane.core.queue import Queue
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.ports import Queues

ExpectedQueue = Callable[[str, str, str], Queue]
"""The queue that a first message would create, by account, region and name.

Raises RefusedError where none can have this name."""

_url_parts: Final = re.compile(
    r"(?i:https?)://(?P<authority>[^/?#]+)/(?P<account>[^/?#]*)/(?P<name>[^/?#]+)/?([?#][ -~]*)?"
).fullmatch

_URL_CHARS_KEPT: Final = 300
"""Longer URLs are read anew each time: strangers do not choose how much is kept."""

_OF_ELASTICMQ: Final = "queue"
"""In the place of the account."""

_FIRST_MESSAGES: Final = frozenset({"SendMessage", "SendMessageBatch"})


def find_queue(queues: Queues, expected: ExpectedQueue | None = None, base_url: str = "") -> Stage:
    """Look up the queue that the request names. Raises RefusedError for what can name none.

    A send to a queue of the caller's that is missing goes to the `expected` one, if there are such.
    That there is none is for `require_queue` to say, once it is known who may hear it. Queue URLs
    are handed out under `base_url`, if there is one.
    """
    base_path = urlsplit(base_url).path

    async def stage(exchange: Exchange) -> None:
        if exchange.path_queue is not None and not exchange.protocol.at_any_path:
            _check_account(exchange.path_queue[0], exchange.request.path)
        if not exchange.chosen.on_queue:
            return
        address, account, name = _address(exchange, base_path)
        _check_account(account, address)
        if not is_queue_name(name):
            raise queue_does_not_exist()
        if account == _OF_ELASTICMQ:
            account, exchange.odd_address = exchange.account, address
        exchange.queue_account, exchange.queue_name = account, name
        queue = await queues.find(account, exchange.region, name)
        if queue is None and expected is not None and _may_create(exchange, account):
            queue = expected(account, exchange.region, name)
        exchange.queue = queue

    return stage


def require_queue(exchange: Exchange) -> None:
    """Raise RefusedError where the queue that the request names does not exist."""
    if exchange.queue is None and exchange.chosen.on_queue:
        raise _invalid(exchange.odd_address) if exchange.odd_address else queue_does_not_exist()


def _may_create(exchange: Exchange, account: str) -> bool:
    return exchange.chosen.name in _FIRST_MESSAGES and account == exchange.account


def _address(exchange: Exchange, base_path: str) -> tuple[str, str, str]:
    """What was sent, and what it says in the places of the account and the queue's name."""
    url = exchange.params.get("QueueUrl", "")
    if not url:
        if exchange.path_queue is None:
            raise queue_does_not_exist()
        return exchange.request.path, *exchange.path_queue
    if url.startswith("arn:"):
        raise _invalid(url)
    if "/" not in url:
        return url, exchange.account, url
    read = _read_url if len(url) <= _URL_CHARS_KEPT else _read_url.__wrapped__
    return url, *read(url, exchange.request.prefix, base_path)


def _check_account(account: str, address: str) -> None:
    if not is_account(account) and account != _OF_ELASTICMQ:
        raise _invalid(address)


def _invalid(address: str) -> RefusedError:
    return RefusedError(INVALID_ADDRESS, f"The address {address} is not valid for this endpoint.")


def _without(url: str, prefix: str) -> str:
    """The URL without a path before those of queues."""
    path_at = url.find("/", url.find("://") + 3)
    if not prefix or not url.startswith(prefix + "/", path_at):
        return url
    return url[:path_at] + url[path_at + len(prefix) :]


@lru_cache(maxsize=1024)
def _read_url(url: str, prefix: str, base_path: str) -> tuple[str, str]:
    """Account and name of a URL as it stands: nothing is decoded, dropped or put in its place."""
    parts = _url_parts(_without(_without(url, prefix), base_path))
    if parts is None or not is_host(parts["authority"].rpartition("@")[2]):
        raise queue_does_not_exist()
    return parts["account"], parts["name"]
