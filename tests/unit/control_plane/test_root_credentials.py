"""The root key that the operator chose, beside those that were made."""

import asyncio

from control_plane.accounts import Accounts
from control_plane.root_credentials import RootCredentials
from data_plane.core.root_key import RootKey
from data_plane.memory.cell import MemoryCell
from tests.unit.repeatable import HandClock, SeededEntropy

OPERATOR = "000000000000"


class Site:
    def __init__(self) -> None:
        self.clock = HandClock()
        cell = MemoryCell(self.clock)
        self.accounts = Accounts(cell, self.clock, SeededEntropy(), bytes(32))
        given = RootKey("ci-root", "a-secret")
        self.credentials = RootCredentials(self.accounts, self.clock, OPERATOR, given)


def test_it_is_the_root_of_the_operator() -> None:
    async def story() -> None:
        site = Site()
        await site.accounts.create_account("root", OPERATOR, {})
        key = await site.credentials.find_key("ci-root")
        assert key is not None
        assert (key.secret, key.caller.account, key.caller.is_root) == ("a-secret", OPERATOR, True)
        assert key.caller.access_key_id == "ci-root"

    asyncio.run(story())


def test_keys_that_were_made_still_serve_and_others_do_not() -> None:
    async def story() -> None:
        site = Site()
        await site.accounts.create_account("root", OPERATOR, {})
        made = await site.accounts.create_key(OPERATOR)
        found = await site.credentials.find_key(made.id)
        assert found is not None
        assert found.secret == made.secret
        assert await site.credentials.find_key("ci-root2") is None

    asyncio.run(story())


def test_it_ends_with_its_account() -> None:
    async def story() -> None:
        site = Site()
        assert await site.credentials.find_key("ci-root") is None, "there is no account yet"
        await site.accounts.create_account("root", OPERATOR, {})
        site.clock.advance(2)
        assert await site.credentials.find_key("ci-root") is not None
        await site.accounts.close_account(OPERATOR)
        site.clock.advance(6)
        assert await site.credentials.find_key("ci-root") is None

    asyncio.run(story())
