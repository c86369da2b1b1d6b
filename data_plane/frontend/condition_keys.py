"""What conditions of policies may ask of a request. Source: IAM's global condition keys.

What decides comes from the connection, from the caller's credentials, or from what was signed: no
header that a client or a proxy may add says where a request comes from. (User agent and referer are
what the client says, as in AWS.) On whose behalf a service calls (`x-amz-source-arn`,
`x-amz-source-account`, signed like all such headers) is believed of services alone.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from data_plane.core.caller import Caller
from data_plane.core.queue import Queue
from data_plane.frontend.exchange import Exchange
from data_plane.policy.dates import date_text
from data_plane.policy.patterns import Keys, Values

_US_PER_S: Final = 1_000_000

_with_port: Final = re.compile(r"\[([^\]]*)\](?::\d+)?|([^:]*):\d+").fullmatch


def condition_keys(exchange: Exchange, owner: str, queue: Queue | None) -> Keys:
    """The keys of a request about a queue of the account `owner`, in lower case."""
    request = exchange.request
    keys: dict[str, Values] = {
        "aws:currenttime": (date_text(exchange.started_us),),
        "aws:epochtime": (str(exchange.started_us // _US_PER_S),),
        "aws:requestedregion": (exchange.region,),
        "aws:resourceaccount": (owner,),
        "aws:securetransport": ("true" if request.secure else "false",),
        "aws:sourceip": _texts(_address(request.client)),
        "aws:referer": _texts(request.headers.get("referer", "")),
        "aws:useragent": _texts(request.headers.get("user-agent", "")),
    }
    if exchange.caller is not None:
        keys |= _of_caller(exchange.caller, request.headers)
    if queue is not None:
        _add_tags(keys, "aws:resourcetag/", queue.tags)
    return keys | _of_tags(exchange.params)


def _of_caller(caller: Caller, headers: Mapping[str, str]) -> dict[str, Values]:
    service = bool(caller.service)
    keys: dict[str, Values] = {
        "aws:principalisawsservice": ("true" if service else "false",),
        "aws:viaawsservice": ("false",),
    }
    if service:
        keys["aws:principalservicename"] = (caller.service,)
        keys["aws:sourcearn"] = _texts(headers.get("x-amz-source-arn", ""))
        keys["aws:sourceaccount"] = _texts(headers.get("x-amz-source-account", ""))
        return keys
    keys["aws:principalaccount"] = (caller.account,)
    keys["aws:principalarn"] = (caller.arn,)
    keys["aws:principaltype"] = ("Account" if caller.is_root else "User",)
    keys["aws:userid"] = _texts(caller.account if caller.is_root else caller.user_id)
    keys["aws:username"] = _texts(caller.user)
    return keys


def _of_tags(params: Mapping[str, Any]) -> dict[str, Values]:
    """The tags that a call gives or takes away."""
    given = params.get("tags") or params.get("Tags") or {}
    if not given:
        return {"aws:tagkeys": tuple(params.get("TagKeys") or ())}
    keys: dict[str, Values] = {"aws:tagkeys": tuple(given)}
    _add_tags(keys, "aws:requesttag/", given)
    return keys


def _add_tags(keys: dict[str, Values], prefix: str, tags: Mapping[str, Any]) -> None:
    """Tags whose names differ in case alone are values of one key."""
    for name, value in tags.items():
        if isinstance(value, str):
            key = prefix + name.lower()
            keys[key] = (*keys.get(key, ()), value)


def _texts(text: str) -> Values:
    return (text,) if text else ()


def _address(client: str) -> str:
    """The address of a connection that may be named with its port."""
    found = _with_port(client)
    return (found[1] or found[2] or "") if found else client
