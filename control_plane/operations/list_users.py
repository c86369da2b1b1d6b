"""TidegateListUsers: the users of an account in order of their names, a page at a time."""

from typing import Final

from control_plane.account_shapes import LIST_USERS_INPUT, LIST_USERS_OUTPUT
from control_plane.operations.account_rendering import rendered_user
from control_plane.operations.administration import Administration, last_listed, page_size
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateListUsers"


def list_users(administration: Administration) -> Operation:
    """For the account's root and the operator."""

    async def perform(call: Call) -> Params:
        account = administration.account_of(call, NAME)
        size = page_size(call)
        found = await administration.accounts.users(
            account, after=last_listed(call), limit=size + 1
        )
        output: dict[str, object] = {}
        if found:
            output["Users"] = [rendered_user(user) for user in found[:size]]
        if len(found) > size:
            output["NextToken"] = found[size - 1].name
        return output

    return Operation(NAME, LIST_USERS_INPUT, LIST_USERS_OUTPUT, perform, on_queue=False)
