"""Tells of budgets that are reached: a call of a webhook, or a message in the account's queue."""

from typing import Final

import msgspec

from control_plane.budgets import UndeliveredError
from control_plane.core.budgets import Budget
from control_plane.registry import Registry
from control_plane.webhooks import Webhooks
from data_plane.core.errors import RefusedError
from data_plane.operations.message_engine import MessageEngine
from data_plane.operations.send_message import send_message
from data_plane.ports import Clock
from data_plane.protocol.operation import Call

SCHEMA: Final = "tidegate.budget/1"


class Telling:
    """Tells the webhook of a budget, or its queue, or both."""

    def __init__(
        self, webhooks: Webhooks, registry: Registry, engine: MessageEngine, clock: Clock
    ) -> None:
        self._webhooks = webhooks
        self._registry = registry
        self._send = send_message(engine)
        self._clock = clock

    async def tell(self, account: str, budget: Budget, period: str) -> None:
        """Tell. Raises UndeliveredError, CellUnavailableError."""
        body = body_of(account, budget, period)
        if budget.queue:
            await self._to_queue(account, budget, period, body.decode())
        if budget.webhook:
            await self._webhooks.post(budget.webhook, body)

    async def _to_queue(self, account: str, budget: Budget, period: str, body: str) -> None:
        queue = await self._registry.find(account, budget.region, budget.queue)
        if queue is None:
            raise UndeliveredError(f"there is no queue {budget.queue}")
        call = Call(
            request_id=f"budget-{budget.of}-{budget.limit}-{period}",
            account=account,
            region=budget.region,
            base_url="",
            now_us=self._clock.now_us(),
            params={"MessageBody": body},
            queue=queue,
        )
        try:
            await self._send.perform(call)
        except RefusedError as error:
            raise UndeliveredError(f"queue {budget.queue}: {error.message}") from error


def body_of(account: str, budget: Budget, period: str) -> bytes:
    """What is told: the threshold, and when it was reached; nothing of what was sent."""
    return msgspec.json.encode(
        {
            "schema": SCHEMA,
            "account": account,
            "period": period,
            "of": budget.of,
            "limit": budget.limit,
            "reached": budget.reached_s,
        }
    )
