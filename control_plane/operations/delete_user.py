"""TidegateDeleteUser: the user is gone, and none of its access keys is valid any more."""

from typing import Final

from control_plane.account_shapes import DELETE_USER_INPUT, NOTHING
from control_plane.operations.administration import Administration
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateDeleteUser"


def delete_user(administration: Administration) -> Operation:
    """For the account's root and the operator."""

    async def perform(call: Call) -> Params:
        account = administration.account_of(call, NAME)
        user = await administration.accounts.delete_user(account, call.params["UserName"])
        administration.note(call, NAME, account, user=user.name, user_id=user.id)
        return {}

    return Operation(NAME, DELETE_USER_INPUT, NOTHING, perform, on_queue=False)
