"""TidegateRevokeAccessKey: the access key is not valid any more, and its secret is removed."""

from typing import Final

from control_plane.account_shapes import NOTHING, REVOKE_ACCESS_KEY_INPUT
from control_plane.operations.administration import Administration
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateRevokeAccessKey"


def revoke_access_key(administration: Administration) -> Operation:
    """For the account's root and the operator. An access key may revoke itself."""

    async def perform(call: Call) -> Params:
        account = administration.account_of(call, NAME)
        revoked = await administration.accounts.revoke_key(account, call.params["AccessKeyId"])
        administration.note(
            call, NAME, account, user=revoked.user, service=revoked.service, key=revoked.id
        )
        return {}

    return Operation(NAME, REVOKE_ACCESS_KEY_INPUT, NOTHING, perform, on_queue=False)
