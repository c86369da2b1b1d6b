"""TidegateCreateAccessKey: a new access key; this answer alone has its secret."""

from typing import Final

from control_plane.account_shapes import CREATE_ACCESS_KEY_INPUT, CREATE_ACCESS_KEY_OUTPUT
from control_plane.core.account import ListedKey
from control_plane.operations.account_rendering import rendered_key
from control_plane.operations.administration import Administration
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateCreateAccessKey"


def create_access_key(administration: Administration) -> Operation:
    """For the account's root and the operator; keys of services are for the operator alone.

    Without UserName and Service it is one of the account's root.
    """

    async def perform(call: Call) -> Params:
        account = administration.account_of(call, NAME)
        user, service = call.params.get("UserName") or "", call.params.get("Service") or ""
        if service:
            administration.check_operator(call, NAME)
        if user and service:
            raise RefusedError(
                INVALID_PARAMETER_VALUE, "An access key is a user's or a service's, not both."
            )
        new = await administration.accounts.create_key(account, user=user, service=service)
        listed = ListedKey(new.id, user, service, new.created_s)
        administration.note(call, NAME, account, user=user, service=service, key=new.id)
        return {**rendered_key(listed), "AccountId": account, "SecretAccessKey": new.secret}

    return Operation(
        NAME, CREATE_ACCESS_KEY_INPUT, CREATE_ACCESS_KEY_OUTPUT, perform, on_queue=False
    )
