"""TidegateCreateUser: a user with identity policies, who has no access key yet."""

from typing import Final

from control_plane.account_shapes import CREATE_USER_INPUT, USER
from control_plane.operations.account_rendering import rendered_user
from control_plane.operations.administration import Administration
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateCreateUser"


def create_user(administration: Administration) -> Operation:
    """For the account's root and the operator. Without policies the user may do nothing."""

    async def perform(call: Call) -> Params:
        account = administration.account_of(call, NAME)
        user = await administration.accounts.create_user(
            account, call.params["UserName"], call.params.get("Policies") or ()
        )
        administration.note(call, NAME, account, user=user.name, user_id=user.id)
        return rendered_user(user)

    return Operation(NAME, CREATE_USER_INPUT, USER, perform, on_queue=False)
