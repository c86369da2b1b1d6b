"""Who calls, and in which region: the checks of signatures are off."""

from functools import lru_cache

from data_plane.core.caller import Caller
from data_plane.core.identifiers import is_account, is_region
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.frontend.settings import FrontEndSettings
from data_plane.protocol import aws_query

_SCOPE_CHARS_MAX = 1024
"""Longer ones name neither an account nor a region."""

_SCOPE_REGION = 2  # access key id / date / region / service / aws4_request


def identify(settings: FrontEndSettings) -> Stage:
    """Take account and region from the signature's credential, without checking it.

    The access key id is the account if it is one; otherwise the default account calls.
    """

    @lru_cache(maxsize=256)
    def read(access_key_id: str, region: str) -> tuple[Caller, str]:
        account = access_key_id if is_account(access_key_id) else settings.default_account
        return Caller(account), region if is_region(region) else settings.default_region

    def stage(exchange: Exchange) -> None:
        scope = _credential(exchange)[:_SCOPE_CHARS_MAX].split("/")
        region = scope[_SCOPE_REGION] if len(scope) > _SCOPE_REGION else ""
        exchange.caller, exchange.region = read(scope[0], region)

    return stage


def _credential(exchange: Exchange) -> str:
    authorization = exchange.request.headers.get("authorization")
    if authorization is None:
        if not exchange.protocol.is_form:
            return ""
        form = aws_query.form_of(exchange.request)
        return aws_query.find_field("X-Amz-Credential", exchange.request.query, form) or ""
    _, _, rest = authorization.partition("Credential=")
    return rest.partition(",")[0]
