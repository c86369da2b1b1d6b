"""TidegateCreateAccount: a new account, which has no access key yet."""

from typing import Final

from control_plane.account_shapes import ACCOUNT, CREATE_ACCOUNT_INPUT
from control_plane.operations.account_rendering import rendered_account
from control_plane.operations.administration import Administration, check_account_id
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateCreateAccount"


def create_account(administration: Administration) -> Operation:
    """For the operator. Without Quotas the account has the usual ones."""

    async def perform(call: Call) -> Params:
        administration.check_operator(call, NAME)
        account_id = call.params.get("AccountId") or ""
        if account_id:
            check_account_id(account_id)
        created = await administration.accounts.create_account(
            call.params["Name"], account_id, call.params.get("Quotas")
        )
        administration.note(call, NAME, created.id)
        return rendered_account(created)

    return Operation(NAME, CREATE_ACCOUNT_INPUT, ACCOUNT, perform, on_queue=False)
