"""Who calls, and in which region: the checks of signatures are off."""

from data_plane.core.caller import Caller
from data_plane.core.identifiers import is_account, is_region
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.frontend.settings import FrontEndSettings

_SCOPE_REGION = 2  # access key id / date / region / service / aws4_request


def identify(settings: FrontEndSettings) -> Stage:
    """Take account and region from the signature's credential, without checking it.

    The access key id is the account if it is one; otherwise the default account calls.
    """

    async def stage(exchange: Exchange) -> None:
        scope = _credential(exchange).split("/")
        account = scope[0]
        region = scope[_SCOPE_REGION] if len(scope) > _SCOPE_REGION else ""
        exchange.caller = Caller(account if is_account(account) else settings.default_account)
        exchange.region = region if is_region(region) else settings.default_region

    return stage


def _credential(exchange: Exchange) -> str:
    authorization = exchange.request.headers.get("authorization")
    if authorization is None:
        return exchange.fields.get("X-Amz-Credential", "")
    _, _, rest = authorization.partition("Credential=")
    return rest.partition(",")[0]
