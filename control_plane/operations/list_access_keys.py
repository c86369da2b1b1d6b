"""TidegateListAccessKeys: the access keys of an account, without their secrets."""

from typing import Final

from control_plane.account_shapes import LIST_ACCESS_KEYS_INPUT, LIST_ACCESS_KEYS_OUTPUT
from control_plane.operations.account_rendering import rendered_key
from control_plane.operations.administration import Administration, last_listed, page_size
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateListAccessKeys"


def list_access_keys(administration: Administration) -> Operation:
    """For the account's root and the operator. A page has those of MaxResults users at most."""

    async def perform(call: Call) -> Params:
        account = administration.account_of(call, NAME)
        page = await administration.accounts.keys(
            account, after=last_listed(call), limit=page_size(call)
        )
        output: dict[str, object] = {}
        if page.keys:
            output["AccessKeys"] = [rendered_key(key) for key in page.keys]
        if page.more_after:
            output["NextToken"] = page.more_after
        return output

    return Operation(NAME, LIST_ACCESS_KEYS_INPUT, LIST_ACCESS_KEYS_OUTPUT, perform, on_queue=False)
