"""Budgets: what an account may come to in a month before somebody is told (docs/storage.md)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, Self

import msgspec

from control_plane.core.item_field import check_format
from control_plane.core.month_usage import COST_PLACES, Amounts
from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.identifiers import is_queue_name
from data_plane.core.limits import BUDGETS_MAX, WEBHOOK_URL_CHARS_MAX
from data_plane.ports import Attributes

COST: Final = "cost"
REQUESTS: Final = "requests"
PENDING: Final = "pending"
SENT: Final = "sent"
FAILED: Final = "failed"
NOBODY: Final = "none"

_FORMAT: Final = 1
_is_amount: Final = re.compile(r"(0|[1-9][0-9]{0,14})(\.[0-9]{1,10})?").fullmatch
_is_count: Final = re.compile(r"[1-9][0-9]{0,17}").fullmatch
_is_url: Final = re.compile(
    r"https?://[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?/[A-Za-z0-9._~!$&'()*+,;=:@/-]*"
).fullmatch


class Budget(msgspec.Struct, frozen=True):
    """A threshold of a month: `limit` of the cost or of requests, and who is told of it.

    `region` is that of the queue. The state is of `period` ("": never reached): `reached_s`, when
    it was; `told` says whether somebody has been told; `attempts` were made, the last one at
    `tried_s`.
    """

    of: Literal["cost", "requests"]
    limit: str
    webhook: str = ""
    queue: str = ""
    region: str = ""
    period: str = ""
    reached_s: int = 0
    told: str = ""
    attempts: int = 0
    tried_s: int = 0

    def is_reached_by(self, used: Amounts) -> bool:
        """Whether a month with this usage has come to it."""
        if self.of == REQUESTS:
            return used.requests >= int(self.limit)
        whole, _, places = self.limit.partition(".")
        return used.cost >= int(whole + places.ljust(COST_PLACES, "0"))

    def is_settled(self, period: str) -> bool:
        """Whether nothing is left to be done in this month."""
        return self.period == period and self.told != PENDING

    def is_same(self, other: "Budget") -> bool:
        """Whether the two ask for the same, whatever became of them."""
        own = (self.of, self.limit, self.webhook, self.queue, self.region)
        return own == (other.of, other.limit, other.webhook, other.queue, other.region)


@dataclass(frozen=True, slots=True)
class AccountBudgets:
    """The budgets of an account. `nonce` (8 bytes) names the write that stored them."""

    account: str
    budgets: tuple[Budget, ...] = ()
    nonce: bytes = field(default=b"")

    def stored(self, nonce: bytes) -> Self:
        """As the write with this nonce stores it."""
        return replace(self, nonce=nonce)

    def encode(self) -> Attributes:
        """The attributes of its item; the account is in the key."""
        told = msgspec.json.encode(self.budgets).decode()
        return {"v": _FORMAT, "w": self.nonce, "b": told}

    def with_wanted(self, wanted: Sequence[Budget]) -> Self:
        """With these instead; those that were there before keep what became of them."""
        kept = [next((one for one in self.budgets if one.is_same(new)), new) for new in wanted]
        return replace(self, budgets=tuple(kept))

    def with_state(self, changed: Budget) -> Self:
        """With what became of one of them."""
        budgets = [changed if one.is_same(changed) else one for one in self.budgets]
        return replace(self, budgets=tuple(budgets))


def read_budgets(account: str, item: Attributes) -> AccountBudgets:
    """Budgets from their item. Raises UnknownItemFormatError."""
    check_format(f"budgets of {account}", item, _FORMAT)
    nonce = item["w"]
    assert isinstance(nonce, bytes)  # noqa: S101 - as it was written
    budgets = msgspec.json.decode(str(item["b"]), type=tuple[Budget, ...])
    return AccountBudgets(account, budgets, nonce)


def check_budgets(budgets: Sequence[Budget], webhooks: Sequence[str]) -> None:
    """Raise RefusedError (InvalidParameterValue) unless an account may have these.

    `webhooks` are the beginnings of URLs that the operator allows.
    """
    if len(budgets) > BUDGETS_MAX:
        raise _invalid(f"There are at most {BUDGETS_MAX} Budgets.")
    for at, one in enumerate(budgets):
        if any(one.is_same(other) for other in budgets[:at]):
            raise _invalid("Two Budgets are the same.")
        is_right = _is_amount(one.limit) if one.of == COST else _is_count(one.limit)
        if not is_right or not one.limit.strip("0."):
            raise _invalid(f"{one.limit} is no Limit of {one.of}.")
        if one.webhook and not is_allowed(one.webhook, webhooks):
            raise _invalid("WebhookUrl is none that the operator of this service allows.")
        if one.queue and (not is_queue_name(one.queue) or one.queue.endswith(".fifo")):
            raise _invalid("QueueName is not the name of a standard queue.")


def is_allowed(url: str, webhooks: Sequence[str]) -> bool:
    """Whether the operator allows this URL: it begins with one that is allowed, and goes on there.

    No user, no query, no fragment, no escape, and no way up in its path.
    """
    if len(url) > WEBHOOK_URL_CHARS_MAX or not _is_url(url) or "/." in url:
        return False
    return any(url == one or (one.endswith("/") and url.startswith(one)) for one in webhooks)


def is_webhook_prefix(url: str) -> bool:
    """Whether an operator may allow URLs that begin so: scheme, host and a path at least."""
    return _is_url(url) is not None and "/." not in url


def _invalid(message: str) -> RefusedError:
    return RefusedError(INVALID_PARAMETER_VALUE, message)
