"""TidegateListAccounts: accounts in order of their ids, a page at a time."""

from typing import Final

from control_plane.account_shapes import LIST_ACCOUNTS_INPUT, LIST_ACCOUNTS_OUTPUT
from control_plane.operations.account_rendering import rendered_account
from control_plane.operations.administration import Administration, last_listed, page_size
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateListAccounts"


def list_accounts(administration: Administration) -> Operation:
    """For the operator."""

    async def perform(call: Call) -> Params:
        administration.check_operator(call, NAME)
        size = page_size(call)
        found = await administration.accounts.accounts(after=last_listed(call), limit=size + 1)
        output: dict[str, object] = {}
        if found:
            output["Accounts"] = [rendered_account(account) for account in found[:size]]
        if len(found) > size:
            output["NextToken"] = found[size - 1].id
        return output

    return Operation(NAME, LIST_ACCOUNTS_INPUT, LIST_ACCOUNTS_OUTPUT, perform, on_queue=False)
