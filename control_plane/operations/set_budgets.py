"""TidegateSetBudgets: thresholds of a month, in the place of those that were set before."""

from typing import Final

from control_plane.core.budgets import COST, REQUESTS, Budget
from control_plane.operations.usage_access import UsageAccess, present_period, rendered_budget
from control_plane.usage_shapes import SET_BUDGETS_INPUT, SET_BUDGETS_OUTPUT
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError, missing_parameter
from data_plane.protocol.operation import Call, Operation, Params

NAME: Final = "TidegateSetBudgets"


def set_budgets(access: UsageAccess) -> Operation:
    """For each account its own; for the operator any."""

    async def perform(call: Call) -> Params:
        account = access.account_of(call, NAME)
        access.counted()
        budgets: list[Params] = call.params["Budgets"]
        wanted = [_read(call, number, its) for number, its in enumerate(budgets, start=1)]
        held = await access.budgets.set(account, wanted)
        access.administration.note(call, NAME, account, budgets=str(len(wanted)))
        period = present_period(call)
        if not held.budgets:
            return {}
        return {"Budgets": [rendered_budget(one, period) for one in held.budgets]}

    return Operation(NAME, SET_BUDGETS_INPUT, SET_BUDGETS_OUTPUT, perform, on_queue=False)


def _read(call: Call, number: int, said: Params) -> Budget:
    for name in ("Of", "Limit"):
        if name not in said:
            raise missing_parameter(f"Budget.{number}.{name}")
    if said["Of"] not in {COST, REQUESTS}:
        raise RefusedError(INVALID_PARAMETER_VALUE, f"Of is {COST} or {REQUESTS}.")
    queue = said.get("QueueName", "")
    return Budget(
        said["Of"],
        said["Limit"],
        said.get("WebhookUrl", ""),
        queue,
        call.region if queue else "",
    )
