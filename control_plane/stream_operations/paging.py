"""Tokens that continue a list: sealed, of one list, and expired after five minutes (Kinesis)."""

import json
from typing import Any, Final

from data_plane.core.errors import EXPIRED_NEXT_TOKEN, INVALID_ARGUMENT, RefusedError
from data_plane.core.sealing import NotSealedHereError, TokenSeal
from data_plane.core.tokens import from_text
from data_plane.core.tokens import to_text as token_text
from data_plane.protocol.operation import Call

PURPOSE: Final = "lists of streams"
EXPIRES_US: Final = 300_000_000
_VERSION: Final = 1


def to_text(seal: TokenSeal, call: Call, scope: str, last: str) -> str:
    """A token that continues the caller's list `scope` behind `last`."""
    text = json.dumps([call.account, call.region, scope, last, call.now_us])
    return token_text(_VERSION, seal.seal(text.encode()))


def read(seal: TokenSeal, call: Call, scope: str, token: str) -> str:
    """Behind what the token continues the list `scope`.

    Raises RefusedError: InvalidArgument, ExpiredNextToken.
    """
    return _opened(seal, call, token, scope)[1]


def read_list(seal: TokenSeal, call: Call, token: str, kind: str) -> tuple[Any, str]:
    """What the list that a token continues is of, and behind what. Raises as `read`.

    The scope of such a list is its kind, and what it is of as JSON.
    """
    scope, last = _opened(seal, call, token)
    return _what(scope, kind), last


def list_of(seal: TokenSeal, account: str, region: str, token: str, kind: str) -> Any:
    """What the list of the caller's is of that a token continued or continues.

    Raises RefusedError (InvalidArgument).
    """
    return _what(_unsealed(seal, account, region, token)[0], kind)


def _what(scope: str, kind: str) -> Any:
    if not scope.startswith(kind):
        raise RefusedError(INVALID_ARGUMENT, "Invalid NextToken.")
    return json.loads(scope.removeprefix(kind))


def _opened(seal: TokenSeal, call: Call, token: str, scope: str = "") -> tuple[str, str]:
    listed, last, made_us = _unsealed(seal, call.account, call.region, token)
    if scope not in ("", listed):
        raise RefusedError(INVALID_ARGUMENT, "Invalid NextToken.")
    if call.now_us - made_us > EXPIRES_US:
        raise RefusedError(EXPIRED_NEXT_TOKEN, "The NextToken has expired.")
    return listed, last


def _unsealed(seal: TokenSeal, account: str, region: str, token: str) -> tuple[str, str, int]:
    """The list that a token of this caller's continues, behind what, and when it was made."""
    try:
        plain = seal.unseal(from_text(_VERSION, token))
    except NotSealedHereError:
        raise RefusedError(INVALID_ARGUMENT, "Invalid NextToken.") from None
    *caller, listed, last, made_us = json.loads(plain)
    if caller != [account, region]:
        raise RefusedError(INVALID_ARGUMENT, "Invalid NextToken.")
    return listed, last, made_us
