"""What an account and its queues may store: sends beyond it are refused, and nothing else is."""

import json
from dataclasses import dataclass, field

from data_plane.core.owned import Owned
from data_plane.core.quotas import parse_quotas
from tests.unit.data_plane.frontend.tenants import NOISY, QUIET, Tenants, code

OVER = "OverLimit"


@dataclass
class Amounts:
    """What is stored, as a test says it."""

    capacity_bytes: int = 0
    accounts: dict[str, int] = field(default_factory=dict)
    queue: int = 0

    def met(self, queue: Owned) -> None:
        pass

    async def of_one(self, queue: Owned) -> int:
        return self.queue if queue.account == NOISY else 0

    async def of_account(self, queue: Owned) -> int:
        return self.accounts.get(queue.account, 0)

    async def measure(self) -> None:
        pass


def tenants(stored: Amounts, **numbers: int) -> Tenants:
    quotas = parse_quotas(numbers)
    return Tenants({NOISY: quotas, QUIET: quotas}, stored=stored)


def test_an_account_is_held_to_its_bytes_and_others_are_not() -> None:
    stored = Amounts(accounts={NOISY: 10_000})
    both = tenants(stored, account_stored_bytes=10_500)
    assert code(both.send(NOISY)) == ""
    assert code(both.send(NOISY, "m" * 600)) == OVER  # what comes counts, too
    stored.accounts[NOISY] = 10_500
    refused = both.send(NOISY)
    assert (refused.status, code(refused)) == (403, OVER)
    assert json.loads(refused.body)["message"] == (
        f"Account {NOISY} has 10500 bytes stored, and its quota is 10500."
    )
    entries = [{"Id": "a", "MessageBody": "m"}]
    assert code(both.call(NOISY, "SendMessageBatch", Entries=entries)) == OVER
    asked = both.query(NOISY, Action="SendMessage", QueueUrl="orders", MessageBody="m")
    assert (asked.status, b"<Code>OverLimit</Code>" in asked.body) == (403, True)
    assert code(both.send(QUIET)) == ""
    assert len(both.bag.messages) == 2
    for action, params in (
        ("ReceiveMessage", {}),
        ("DeleteMessage", {"ReceiptHandle": "none"}),
    ):
        assert code(both.call(NOISY, action, **params)) != OVER


def test_a_queue_is_held_to_its_bytes() -> None:
    stored = Amounts(queue=2_000)
    both = tenants(stored, queue_stored_bytes=2_000)
    assert code(both.send(NOISY)) == OVER
    assert code(both.send(QUIET)) == ""
    stored.queue = 0
    assert code(both.send(NOISY)) == ""


def test_an_account_is_held_to_its_share_of_the_disk() -> None:
    stored = Amounts(capacity_bytes=100_000, accounts={NOISY: 50_000, QUIET: 49_000})
    both = tenants(stored, account_stored_percent=50)
    assert (code(both.send(NOISY)), code(both.send(QUIET))) == (OVER, "")
    stored.capacity_bytes = 0  # nobody knows
    assert code(both.send(NOISY)) == ""


def test_without_a_quota_nobody_is_held_to_any() -> None:
    assert code(tenants(Amounts(1, {NOISY: 10**12}, 10**12)).send(NOISY)) == ""
