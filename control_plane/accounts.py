"""Accounts, their users and access keys, in the registry's cell.

Whatever ends an access key is one conditional write of one item, that of its principal, and every
such write recognises itself by its nonce (docs/storage.md). Requests are answered from a cache.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from control_plane.core.account import (
    Account,
    HeldKey,
    HeldKeys,
    KeyPage,
    ListedKey,
    NewKey,
    StoredKey,
    User,
    account_is_closed,
    check_account_name,
    check_policies,
    check_quotas,
    check_service,
    check_user_name,
    key_binding,
    no_such_account,
    no_such_key,
    no_such_user,
    read_account,
    read_key,
    read_user,
    with_first_key,
    with_key,
    without_key,
)
from control_plane.core.credential_ids import (
    ACCOUNT_RANDOM_BYTES,
    KEY_RANDOM_BYTES,
    SECRET_RANDOM_BYTES,
    USER_RANDOM_BYTES,
    AccessKeyIds,
    new_account_id,
    new_secret,
    new_user_id,
)
from control_plane.last_known import LastKnown, Seen
from control_plane.recent_items import FromCell, RecentItems
from control_plane.registry_secret import ACCOUNTS
from data_plane.core.caller import AccessKey, Caller
from data_plane.core.errors import (
    INVALID_PARAMETER_VALUE,
    SERVICE_UNAVAILABLE,
    RefusedError,
)
from data_plane.core.quotas import DEFAULT_QUOTAS, UNLIMITED, Quotas, render_quotas
from data_plane.core.sealing import TokenSeal
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    Cell,
    Clock,
    Condition,
    Entropy,
    Equals,
    Item,
    Key,
)

CACHED_KEYS_MAX: Final = 10_000
CACHED_ACCOUNTS_MAX: Final = 10_000
ATTEMPTS_MAX: Final = 8

_NONCE_BYTES: Final = 8
_SEAL_PURPOSE: Final = "access keys"

_Principal = TypeVar("_Principal", Account, User)


class Accounts:
    """All accounts of a registry. Access keys are sealed under its `secret`.

    It implements the data plane's `Credentials` and `AccountQuotas`. Methods raise
    CellUnavailableError; those that change something raise RefusedError, too: for what is not
    there (ResourceNotFoundException), wrong values (InvalidParameterValue) and too many keys
    (OverLimit). What requests need is read from `recent`.
    """

    def __init__(
        self,
        cell: Cell,
        clock: Clock,
        entropy: Entropy,
        secret: bytes,
        recent: RecentItems | None = None,
    ) -> None:
        self._cell = cell
        self._clock = clock
        self._entropy = entropy
        self._ids = AccessKeyIds(secret)
        self._seal = TokenSeal(secret, _SEAL_PURPOSE)
        self._recent = recent or FromCell(cell, clock)
        refresh_after_us = self._recent.refresh_after_us
        self._keys = LastKnown(
            self._read_access_key, clock, CACHED_KEYS_MAX, refresh_after_us=refresh_after_us
        )
        self._quotas = LastKnown(
            self._read_quotas, clock, CACHED_ACCOUNTS_MAX, refresh_after_us=refresh_after_us
        )

    # What requests need

    async def find_key(self, access_key_id: str) -> AccessKey | None:
        """The access key as of at most 5 s ago, or None where it is not valid.

        While the cell does not answer, what was known last serves for 10 minutes. Ids that this
        registry did not make cost no look at the cell, others that are not valid one a second.
        """
        if not self._ids.is_own(access_key_id):
            return None
        return await self._keys.find(access_key_id)

    async def find_quotas(self, account: str) -> Quotas:
        """The account's quotas as of at most 5 s ago; without limits where there is no account."""
        return await self._quotas.find(account) or UNLIMITED

    async def _read_access_key(self, access_key_id: str) -> Seen[AccessKey]:
        stored = _access_key_key(access_key_id)
        items, asked_us = await self._recent.recent([stored])
        if stored not in items:
            return Seen(None, asked_us)
        key = read_key(access_key_id, items[stored])
        account, user = _account_key(key.account), _user_key(key.account, key.user)
        owners = await self._recent.recent([account, *([user] if key.user else [])])
        valid = self._valid_key(key, owners.items.get(account), owners.items.get(user))
        return Seen(valid, min(asked_us, owners.asked_us))

    def _valid_key(
        self, key: StoredKey, account_item: Attributes | None, user_item: Attributes | None
    ) -> AccessKey | None:
        """The access key, unless its principal or account has ended it."""
        if account_item is None:
            return None
        account = read_account(key.account, account_item)
        held = account.keys
        policies: tuple[str, ...] = ()
        if key.user:
            user = read_user(key.account, key.user, user_item) if user_item else None
            if user is None or user.id != key.user_id:
                return None
            held, policies = user.keys, user.policies
        if not account.is_open or (key.id, key.service) not in {one[:2] for one in held}:
            return None
        binding = key_binding(key.id, key.account, key.user_id, key.service)
        return AccessKey(
            key.id,
            self._seal.unseal(key.sealed, binding).decode(),
            Caller(key.account, key.user, key.service, key.id, policies, key.user_id),
        )

    async def _read_quotas(self, account_id: str) -> Seen[Quotas]:
        key = _account_key(account_id)
        items, asked_us = await self._recent.recent([key])
        limits = read_account(account_id, items[key]).limits() if key in items else None
        return Seen(limits, asked_us)

    # Accounts

    async def account(self, account_id: str) -> Account | None:
        """The account as it is stored now."""
        item = await self._cell.get(_account_key(account_id))
        return read_account(account_id, item) if item is not None else None

    async def accounts(self, *, after: str = "", limit: int) -> list[Account]:
        """Accounts in order of their ids, those past `after`, at most `limit`."""
        items = await self._page(ACCOUNTS, after, limit)
        return [read_account(item.key.sort.decode(), item.attributes) for item in items]

    async def create_account(
        self, name: str, account_id: str = "", quotas: Mapping[str, int] | None = None
    ) -> Account:
        """A new account, with a random id where none is given, and with the usual quotas."""
        check_account_name(name)
        given = render_quotas(DEFAULT_QUOTAS) if quotas is None else quotas
        check_quotas(given)
        for _ in range(ATTEMPTS_MAX):
            new = Account(
                id=account_id or new_account_id(self._random(ACCOUNT_RANDOM_BYTES)),
                name=name,
                created_s=self._now_s(),
                quotas=given,
                nonce=self._random(_NONCE_BYTES),
            )
            if await self._put_new(_account_key(new.id), new.encode()):
                self._quotas.changed(new.id)
                return new
            if account_id:
                raise _taken(f"There is an account {account_id} already.")
        raise RefusedError(SERVICE_UNAVAILABLE, "No free account id was found. Try again.")

    async def set_quotas(self, account_id: str, quotas: Mapping[str, int]) -> Account:
        """Replace the account's quotas by these."""
        check_quotas(quotas)
        changed = await self._change_account(
            account_id, lambda account: replace(account, quotas=dict(quotas))
        )
        self._quotas.changed(account_id)
        return changed

    async def close_account(self, account_id: str) -> Account:
        """Close it for good: none of its access keys is valid any more. Its queues stay."""
        now_s = self._now_s()
        closed = await self._change_account(
            account_id, lambda account: replace(account, closed_s=now_s)
        )
        await self._forget_keys(closed.keys)
        after = ""
        while users := await self.users(account_id, after=after, limit=100):
            for user in users:
                await self._forget_keys(user.keys)
            after = users[-1].name
        return closed

    async def _change_account(
        self, account_id: str, edit: Callable[[Account], Account], *, closed_too: bool = False
    ) -> Account:
        def edited(item: Attributes | None) -> Account:
            if item is None:
                raise no_such_account(account_id)
            account = read_account(account_id, item)
            if not (account.is_open or closed_too):
                raise account_is_closed(account_id)
            return edit(account)

        return await self._compare_and_set(_account_key(account_id), edited)

    # Users

    async def user(self, account_id: str, name: str) -> User | None:
        """The user as it is stored now."""
        check_user_name(name)
        item = await self._cell.get(_user_key(account_id, name))
        return read_user(account_id, name, item) if item is not None else None

    async def users(self, account_id: str, *, after: str = "", limit: int) -> list[User]:
        """Users of an account in order of their names, those past `after`, at most `limit`."""
        items = await self._page(_users_partition(account_id), after, limit)
        return [read_user(account_id, item.key.sort.decode(), item.attributes) for item in items]

    async def create_user(self, account_id: str, name: str, policies: Sequence[str] = ()) -> User:
        """A new user with these identity policies (JSON texts)."""
        check_user_name(name)
        check_policies(policies)
        await self._open_account(account_id)
        new = User(
            account=account_id,
            name=name,
            id=new_user_id(self._random(USER_RANDOM_BYTES)),
            created_s=self._now_s(),
            policies=tuple(policies),
            nonce=self._random(_NONCE_BYTES),
        )
        if not await self._put_new(_user_key(account_id, name), new.encode()):
            raise _taken(f"There is a user {name} in account {account_id} already.")
        return new

    async def delete_user(self, account_id: str, name: str) -> User:
        """Remove the user; its access keys are not valid any more."""
        key = _user_key(account_id, name)
        for _ in range(ATTEMPTS_MAX):
            user = await self.user(account_id, name)
            if user is None:
                raise no_such_user(account_id, name)
            written = await self._cell.delete(key, _unchanged_since(user.nonce))
            if written.applied or written.before is None:
                await self._forget_keys(user.keys)
                return user
        raise _too_many_changes(key)

    # Access keys

    async def create_key(self, account_id: str, *, user: str = "", service: str = "") -> NewKey:
        """A new access key of the account's root, of a user, or of a service."""
        new = await self._create_key(account_id, user, service, with_key)
        assert new is not None  # noqa: S101 - `with_key` refuses where it adds none
        return new

    async def create_first_key(self, account_id: str) -> NewKey | None:
        """The first access key of the account's root, or None where there is one already."""
        return await self._create_key(account_id, "", "", with_first_key)

    async def _create_key(
        self,
        account_id: str,
        user: str,
        service: str,
        with_new: Callable[[HeldKeys, HeldKey], HeldKeys],
    ) -> NewKey | None:
        if service:
            check_service(service)
        owner = await self._owner(account_id, user)
        user_id = owner.id if isinstance(owner, User) else ""
        new = await self._store_key(account_id, user, user_id, service)
        held = HeldKey(new.id, service, new.created_s)
        try:
            after = await self._change_keys(
                account_id, user, user_id, lambda keys: with_new(keys, held)
            )
        except RefusedError:
            await self._cell.delete(_access_key_key(new.id))
            raise
        if held in after.keys:
            self._keys.changed(new.id)
            return new
        await self._cell.delete(_access_key_key(new.id))
        return None

    async def keys(self, account_id: str, *, after: str = "", limit: int) -> KeyPage:
        """The access keys of an account: those of its root and of services, then those of users.

        Of users those past `after`, in order of their names, at most `limit`; the others only
        without `after`.
        """
        found: list[ListedKey] = []
        if not after:
            account = await self.account(account_id)
            if account is None:
                raise no_such_account(account_id)
            found += _listed("", account.keys)
        users = await self.users(account_id, after=after, limit=limit + 1)
        for user in users[:limit]:
            found += _listed(user.name, user.keys)
        return KeyPage(found, users[limit - 1].name if len(users) > limit else "")

    async def revoke_key(self, account_id: str, access_key_id: str) -> ListedKey:
        """End the access key: on this server at once, on others within 5 seconds."""
        item = (
            await self._cell.get(_access_key_key(access_key_id))
            if self._ids.is_own(access_key_id)
            else None
        )
        key = read_key(access_key_id, item) if item is not None else None
        if key is None or key.account != account_id:
            raise no_such_key(account_id, access_key_id)
        await self._change_keys(
            account_id,
            key.user,
            key.user_id,
            lambda keys: without_key(keys, access_key_id),
            closed_too=True,
        )
        await self._forget_keys([HeldKey(key.id, key.service, key.created_s)])
        return ListedKey(key.id, key.user, key.service, key.created_s)

    async def _owner(self, account_id: str, user: str) -> Account | User:
        account = await self._open_account(account_id)
        if not user:
            return account
        found = await self.user(account_id, user)
        if found is None:
            raise no_such_user(account_id, user)
        return found

    async def _open_account(self, account_id: str) -> Account:
        account = await self.account(account_id)
        if account is None:
            raise no_such_account(account_id)
        if not account.is_open:
            raise account_is_closed(account_id)
        return account

    async def _store_key(self, account: str, user: str, user_id: str, service: str) -> NewKey:
        """Store a key that nothing names yet, so that it is not valid."""
        secret = new_secret(self._random(SECRET_RANDOM_BYTES))
        for _ in range(ATTEMPTS_MAX):
            access_key_id = self._ids.new(self._random(KEY_RANDOM_BYTES))
            binding = key_binding(access_key_id, account, user_id, service)
            stored = StoredKey(
                id=access_key_id,
                account=account,
                created_s=self._now_s(),
                sealed=self._seal.seal(secret.encode(), binding),
                user=user,
                user_id=user_id,
                service=service,
                nonce=self._random(_NONCE_BYTES),
            )
            if await self._put_new(_access_key_key(access_key_id), stored.encode()):
                return NewKey(access_key_id, secret, stored.created_s)
        raise RefusedError(SERVICE_UNAVAILABLE, "No free access key id was found. Try again.")

    async def _change_keys(
        self,
        account_id: str,
        user: str,
        user_id: str,
        edit: Callable[[HeldKeys], HeldKeys],
        *,
        closed_too: bool = False,
    ) -> Account | User:
        if not user:
            return await self._change_account(
                account_id,
                lambda account: replace(account, keys=edit(account.keys)),
                closed_too=closed_too,
            )

        def edited(item: Attributes | None) -> User:
            found = read_user(account_id, user, item) if item is not None else None
            if found is None or found.id != user_id:
                raise no_such_user(account_id, user)
            return replace(found, keys=edit(found.keys))

        return await self._compare_and_set(_user_key(account_id, user), edited)

    async def _forget_keys(self, keys: Sequence[HeldKey]) -> None:
        """Remove what is stored of keys that are not valid any more."""
        for key in keys:
            self._keys.changed(key.id)
            await self._cell.delete(_access_key_key(key.id))
            self._keys.changed(key.id)

    async def _page(self, partition: str, after: str, limit: int) -> list[Item]:
        """A query may end early: read on until the page is full or nothing follows."""
        found: list[Item] = []
        position = after.encode()
        while len(found) < limit:
            items = await self._cell.query(partition, after=position, limit=limit - len(found))
            if not items:
                break
            found += items
            position = items[-1].key.sort
        return found

    # Writing

    async def _put_new(self, key: Key, item: Attributes) -> bool:
        """Put an item where none is; whether this write did it."""
        written = await self._cell.put(key, item, ITEM_ABSENT)
        return written.applied or (written.before or {}).get("w") == item["w"]

    async def _compare_and_set(
        self, key: Key, edit: Callable[[Attributes | None], _Principal]
    ) -> _Principal:
        """Store what `edit` makes of the stored item, and answer it; a no-op is not written."""
        nonce = self._random(_NONCE_BYTES)
        occupant = await self._cell.get(key)
        for _ in range(ATTEMPTS_MAX):
            wanted = edit(occupant)
            if occupant is not None and wanted.encode() == occupant:
                return wanted
            before = wanted.nonce
            wanted = wanted.stored(nonce)
            written = await self._cell.put(key, wanted.encode(), _unchanged_since(before))
            if written.applied or (written.before or {}).get("w") == nonce:
                return wanted
            occupant = written.before
        raise _too_many_changes(key)

    def _random(self, count: int) -> bytes:
        return self._entropy.random_bytes(count)

    def _now_s(self) -> int:
        return self._clock.now_us() // 1_000_000


def _account_key(account_id: str) -> Key:
    return Key(ACCOUNTS, account_id.encode())


def _users_partition(account_id: str) -> str:
    return f"I|{account_id}"


def _user_key(account_id: str, name: str) -> Key:
    return Key(_users_partition(account_id), name.encode())


def _access_key_key(access_key_id: str) -> Key:
    return Key(f"N|{access_key_id}", b"k")


def _unchanged_since(nonce: bytes) -> Condition:
    return ((Equals("w", nonce),),)


def _listed(user: str, keys: HeldKeys) -> list[ListedKey]:
    return [ListedKey(key.id, user, key.service, key.created_s) for key in keys]


def _taken(message: str) -> RefusedError:
    return RefusedError(INVALID_PARAMETER_VALUE, message)


def _too_many_changes(key: Key) -> RefusedError:
    what = key.sort.decode() or key.partition
    return RefusedError(SERVICE_UNAVAILABLE, f"Too many concurrent changes of {what}.")
