"""Credentials among which the operator's own root key is, which is stored nowhere."""

from typing import Final

from control_plane.accounts import Accounts
from control_plane.last_known import LastKnown, Seen
from data_plane.core.caller import AccessKey, Caller
from data_plane.core.root_key import RootKey
from data_plane.ports import Clock

_NAMES_MAX: Final = 1


class RootCredentials:
    """The access keys of `accounts`, and the key of the root of `operator`, while that is open."""

    def __init__(self, accounts: Accounts, clock: Clock, operator: str, root_key: RootKey) -> None:
        self._accounts = accounts
        self._clock = clock
        self._operator = operator
        self._id = root_key.id
        self._key = AccessKey(
            root_key.id, root_key.secret, Caller(operator, access_key_id=root_key.id)
        )
        self._open = LastKnown(self._read, clock, _NAMES_MAX)

    async def find_key(self, access_key_id: str) -> AccessKey | None:
        """As `Accounts.find_key`; the root key is as valid as its account is open."""
        if access_key_id != self._id:
            return await self._accounts.find_key(access_key_id)
        return await self._open.find(self._operator)

    async def _read(self, account_id: str) -> Seen[AccessKey]:
        asked_us = self._clock.now_us()
        account = await self._accounts.account(account_id)
        is_open = account is not None and account.is_open
        return Seen(self._key if is_open else None, asked_us)
