"""What conditions of policies may ask of a request. Source: IAM's global condition keys.

What decides comes from the connection, from the caller's credentials, or from what was signed: no
header that a client or a proxy may add says where a request comes from. (User agent and referer are
what the client says, as in AWS.) On whose behalf a service calls (`x-amz-source-arn`,
`x-amz-source-account`, signed like all such headers) is believed of services alone.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from data_plane.core.caller import Caller
from data_plane.core.partitions import partition_of
from data_plane.core.queue import Queue
from data_plane.frontend.exchange import Exchange
from data_plane.policy.dates import date_text
from data_plane.policy.patterns import Values

_US_PER_S: Final = 1_000_000
_OF_QUEUE: Final = "aws:resourcetag/"
_OF_CALL: Final = "aws:requesttag/"

_with_port: Final = re.compile(r"\[([^\]]*)\](?::\d+)?|([^:]*):\d+").fullmatch


class ConditionKeys:
    """The keys of a request about a queue of the account `owner`, each made when it is asked for.

    `queue` is None where the request is about none, or about one that does not exist.
    """

    __slots__ = ("caller", "exchange", "owner", "queue")

    def __init__(self, exchange: Exchange, caller: Caller, owner: str, queue: Queue | None) -> None:
        self.exchange = exchange
        self.caller = caller
        self.owner = owner
        self.queue = queue

    def get(self, key: str, default: Values, /) -> Values:
        """The request's values of a key in lower case, or the default for one it has not."""
        make = _KEYS.get(key)
        if make is not None:
            text = make(self)
            return (text,) if text else default
        if key == "aws:tagkeys":
            params = self.exchange.params
            return tuple(_given_tags(params) or params.get("TagKeys") or default)
        if key.startswith(_OF_CALL):
            return _tag(_given_tags(self.exchange.params), key.removeprefix(_OF_CALL)) or default
        if key.startswith(_OF_QUEUE) and self.queue is not None:
            return _tag(self.queue.tags, key.removeprefix(_OF_QUEUE)) or default
        return default

    def header(self, name: str) -> str:
        """A header of the request, "" where it has none."""
        return self.exchange.request.headers.get(name, "")


def _truth(value: object) -> str:
    return "true" if value else "false"


def _moment_us(keys: ConditionKeys) -> int:
    return keys.exchange.machine_us or keys.exchange.started_us


def _principal_type(keys: ConditionKeys) -> str:
    if keys.caller.service:
        return ""
    return "Account" if keys.caller.is_root else "User"


def _principal_arn(keys: ConditionKeys) -> str:
    return keys.caller.arn_in(partition_of(keys.exchange.region))


def _user_id(keys: ConditionKeys) -> str:
    caller = keys.caller
    return caller.account if caller.is_root else caller.user_id


_KEYS: Final[Mapping[str, Callable[[ConditionKeys], str]]] = {
    "aws:currenttime": lambda keys: date_text(_moment_us(keys)),
    "aws:epochtime": lambda keys: str(_moment_us(keys) // _US_PER_S),
    "aws:principalaccount": lambda keys: "" if keys.caller.service else keys.caller.account,
    "aws:principalarn": lambda keys: "" if keys.caller.service else _principal_arn(keys),
    "aws:principalisawsservice": lambda keys: _truth(keys.caller.service),
    "aws:principalservicename": lambda keys: keys.caller.service,
    "aws:principaltype": _principal_type,
    "aws:referer": lambda keys: keys.header("referer"),
    "aws:requestedregion": lambda keys: keys.exchange.region,
    "aws:resourceaccount": lambda keys: keys.owner,
    "aws:securetransport": lambda keys: _truth(keys.exchange.request.secure),
    "aws:sourceaccount": lambda keys: _of_service(keys, "x-amz-source-account"),
    "aws:sourcearn": lambda keys: _of_service(keys, "x-amz-source-arn"),
    "aws:sourceip": lambda keys: _address(keys.exchange.request.client),
    "aws:useragent": lambda keys: keys.header("user-agent"),
    "aws:userid": _user_id,
    "aws:username": lambda keys: keys.caller.user,
    "aws:viaawsservice": lambda _keys: "false",
}
"""By key: its value, "" where the request has none."""


def _of_service(keys: ConditionKeys, header: str) -> str:
    return keys.header(header) if keys.caller.service else ""


def _given_tags(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return params.get("tags") or params.get("Tags") or {}


def _tag(tags: Mapping[str, Any], name: str) -> Values:
    """The values of a tag; those whose names differ in case alone are values of one key."""
    return tuple(
        value for key, value in tags.items() if key.lower() == name and isinstance(value, str)
    )


def _address(client: str) -> str:
    """The address of a connection that may be named with its port."""
    found = _with_port(client)
    return (found[1] or found[2] or "") if found else client
