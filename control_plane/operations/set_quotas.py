"""TidegateSetQuotas: what an account may ask of a server, in the place of what was set before."""

from typing import Final

from control_plane.account_shapes import ACCOUNT, SET_QUOTAS_INPUT
from control_plane.operations.account_rendering import rendered_account
from control_plane.operations.administration import Administration, check_account_id
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateSetQuotas"


def set_quotas(administration: Administration) -> Operation:
    """For the operator. What is not named has no limit."""

    async def perform(call: Call) -> Params:
        administration.check_operator(call, NAME)
        account_id = call.params["AccountId"]
        check_account_id(account_id)
        changed = await administration.accounts.set_quotas(account_id, call.params["Quotas"])
        administration.note(call, NAME, account_id)
        return rendered_account(changed)

    return Operation(NAME, SET_QUOTAS_INPUT, ACCOUNT, perform, on_queue=False)
