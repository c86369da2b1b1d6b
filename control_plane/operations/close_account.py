"""TidegateCloseAccount: no access key of the account is valid any more; its queues stay."""

from typing import Final

from control_plane.account_shapes import CLOSE_ACCOUNT_INPUT, NOTHING
from control_plane.operations.administration import Administration, check_account_id
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateCloseAccount"


def close_account(administration: Administration) -> Operation:
    """For the operator, whose own account stays open."""

    async def perform(call: Call) -> Params:
        administration.check_operator(call, NAME)
        account_id = call.params["AccountId"]
        check_account_id(account_id)
        if account_id == administration.operator:
            raise RefusedError(INVALID_PARAMETER_VALUE, "The operator's account stays open.")
        await administration.accounts.close_account(account_id)
        administration.note(call, NAME, account_id)
        return {}

    return Operation(NAME, CLOSE_ACCOUNT_INPUT, NOTHING, perform, on_queue=False)
