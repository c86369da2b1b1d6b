"""Who may see and bound what an account uses, and what knows it."""

from dataclasses import dataclass

from control_plane.budgets import Budgets
from control_plane.core.budgets import PENDING, SENT, Budget
from control_plane.core.month_usage import TenantUsage
from control_plane.operations.administration import Administration, check_account_id
from data_plane.core.errors import UNSUPPORTED_OPERATION, RefusedError
from data_plane.core.utc import utc_time
from data_plane.protocol.operation import Call, Params


@dataclass(frozen=True, slots=True)
class UsageAccess:
    """`usage` knows what accounts use (None: nothing here does), `budgets` what they may."""

    administration: Administration
    usage: TenantUsage | None
    budgets: Budgets

    def account_of(self, call: Call, act: str) -> str:
        """The account that the call is about: the caller's own, or another one for the operator.

        Policies have decided about the caller's own. Raises RefusedError (AccessDenied,
        InvalidParameterValue).
        """
        account: str = call.params.get("AccountId") or call.account
        if account != call.account:
            self.administration.check_operator(call, act)
        check_account_id(account)
        return account

    def counted(self) -> TenantUsage:
        """What knows usage. Raises RefusedError (UnsupportedOperation)."""
        if self.usage is None:
            raise RefusedError(UNSUPPORTED_OPERATION, "Usage cannot be asked for here.")
        return self.usage


def present_period(call: Call) -> str:
    """The month of the call, UTC."""
    at = utc_time(call.now_us // 1_000_000)
    return f"{at.year:04}-{at.month:02}"


def rendered_budget(budget: Budget, period: str) -> Params:
    """A budget, and what became of it in a month; what is empty is left out."""
    shown: dict[str, object] = {"Of": budget.of, "Limit": budget.limit}
    if budget.webhook:
        shown["WebhookUrl"] = budget.webhook
    if budget.queue:
        shown["QueueName"] = budget.queue
    if budget.period == period:
        shown["ReachedTimestamp"] = budget.reached_s
        if budget.told in {PENDING, SENT} or budget.webhook or budget.queue:
            shown["Notification"] = budget.told
    return shown
