"""Accounts, users and access keys as values, and as the items that are stored (docs/storage.md)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from control_plane.core.item_field import (
    check_format,
    integer,
    octets,
    text,
)
from control_plane.core.known_actions import unknown_action
from data_plane.core.errors import (
    INVALID_PARAMETER_VALUE,
    OVER_LIMIT,
    RESOURCE_NOT_FOUND,
    RefusedError,
)
from data_plane.core.limits import (
    ACCESS_KEYS_MAX,
    SERVICES_WITH_KEYS_MAX,
    USER_POLICIES_MAX,
    USER_POLICY_CHARS_MAX,
)
from data_plane.core.quotas import UNLIMITED, QuotaError, Quotas, parse_quotas
from data_plane.core.sealing import place
from data_plane.policy.language import Kind, compile_policy
from data_plane.ports import Attributes

FORMAT: Final = 1

is_account_name: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 +=,.@_-]{0,63}").fullmatch
is_user_name: Final = re.compile(r"[A-Za-z0-9+=,.@_-]{1,64}").fullmatch
"""Source: IAM user guide, "IAM and AWS STS quotas", name requirements."""
is_service: Final = re.compile(r"[a-z0-9-]{1,40}\.amazonaws\.com").fullmatch


class HeldKey(NamedTuple):
    """An access key in the list of its principal: it is valid because it stands there."""

    id: str
    service: str
    created_s: int


HeldKeys = tuple[HeldKey, ...]
"""Oldest first."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account; `keys` are those of its root and of services. Times are seconds.

    `closed_s` is 0 while it is open. `nonce` (8 bytes) names the write that stored it.
    """

    id: str
    name: str
    created_s: int
    closed_s: int = 0
    quotas: Mapping[str, int] = field(default_factory=dict)
    keys: HeldKeys = ()
    nonce: bytes = b""

    @property
    def is_open(self) -> bool:
        """Whether its access keys are valid."""
        return self.closed_s == 0

    def stored(self, nonce: bytes) -> Self:
        """As the write with this nonce stores it."""
        return replace(self, nonce=nonce)

    def encode(self) -> Attributes:
        """The attributes of its item; the id is in the key."""
        return {
            "v": FORMAT,
            "w": self.nonce,
            "n": self.name,
            "b": self.created_s,
            "d": self.closed_s,
            "q": json.dumps(dict(self.quotas), sort_keys=True, separators=(",", ":")),
            "k": _encode_keys(self.keys),
        }

    def limits(self) -> Quotas:
        """What it may ask of a server."""
        return parse_quotas(self.quotas) if self.quotas else UNLIMITED


@dataclass(frozen=True, slots=True)
class User:
    """A user of an account, with the texts of its identity policies."""

    account: str
    name: str
    id: str
    created_s: int
    policies: tuple[str, ...] = ()
    keys: HeldKeys = ()
    nonce: bytes = b""

    def stored(self, nonce: bytes) -> Self:
        """As the write with this nonce stores it."""
        return replace(self, nonce=nonce)

    def encode(self) -> Attributes:
        """The attributes of its item; account and name are in the key."""
        return {
            "v": FORMAT,
            "w": self.nonce,
            "b": self.created_s,
            "u": self.id,
            "p": json.dumps(self.policies, separators=(",", ":")),
            "k": _encode_keys(self.keys),
        }


@dataclass(frozen=True, slots=True)
class StoredKey:
    """An access key as it is stored: of root, of a user, or of a service."""

    id: str
    account: str
    created_s: int
    sealed: bytes = field(repr=False)
    user: str = ""
    user_id: str = ""
    service: str = ""
    nonce: bytes = b""

    def encode(self) -> Attributes:
        """The attributes of its item; its id is in the key."""
        return {
            "v": FORMAT,
            "w": self.nonce,
            "b": self.created_s,
            "a": self.account,
            "u": self.user,
            "i": self.user_id,
            "s": self.service,
            "z": self.sealed,
        }


@dataclass(frozen=True, slots=True)
class NewKey:
    """An access key that was just made: the only time that its secret is shown."""

    id: str
    secret: str = field(repr=False)
    created_s: int


class ListedKey(NamedTuple):
    """An access key without its secret; `user` "" and `service` "" is the account's root."""

    id: str
    user: str
    service: str
    created_s: int


class KeyPage(NamedTuple):
    """Access keys of an account; more follow after this name, or none ("")."""

    keys: list[ListedKey]
    more_after: str


def key_binding(access_key_id: str, account: str, user_id: str, service: str) -> bytes:
    """What the secret of an access key is sealed for."""
    return place(access_key_id, account, user_id, service)


# Reading


def read_account(account_id: str, item: Attributes) -> Account:
    """The account of an item. Raises UnknownItemFormatError."""
    check_format(f"account {account_id}", item, FORMAT)
    return Account(
        id=account_id,
        name=text(item, "n"),
        created_s=integer(item, "b"),
        closed_s=integer(item, "d"),
        quotas=json.loads(text(item, "q")),
        keys=_decode_keys(item),
        nonce=octets(item, "w"),
    )


def read_user(account: str, name: str, item: Attributes) -> User:
    """The user of an item. Raises UnknownItemFormatError."""
    check_format(f"user {name} of account {account}", item, FORMAT)
    return User(
        account=account,
        name=name,
        id=text(item, "u"),
        created_s=integer(item, "b"),
        policies=tuple(json.loads(text(item, "p"))),
        keys=_decode_keys(item),
        nonce=octets(item, "w"),
    )


def read_key(access_key_id: str, item: Attributes) -> StoredKey:
    """The access key of an item. Raises UnknownItemFormatError."""
    check_format(f"access key {access_key_id}", item, FORMAT)
    return StoredKey(
        id=access_key_id,
        account=text(item, "a"),
        created_s=integer(item, "b"),
        sealed=octets(item, "z"),
        user=text(item, "u"),
        user_id=text(item, "i"),
        service=text(item, "s"),
        nonce=octets(item, "w"),
    )


def _encode_keys(keys: HeldKeys) -> str:
    return json.dumps(keys, separators=(",", ":"))


def _decode_keys(item: Attributes) -> HeldKeys:
    return tuple(HeldKey(*key) for key in json.loads(text(item, "k")))


# The lists of access keys


def with_key(keys: HeldKeys, new: HeldKey) -> HeldKeys:
    """With one more. Raises RefusedError (OverLimit): two for each principal, as in AWS."""
    if sum(key.service == new.service for key in keys) >= ACCESS_KEYS_MAX:
        raise RefusedError(
            OVER_LIMIT,
            f"There are {ACCESS_KEYS_MAX} access keys already, which is the limit: revoke one.",
        )
    services = {key.service for key in (*keys, new)} - {""}
    if len(services) > SERVICES_WITH_KEYS_MAX:
        raise RefusedError(
            OVER_LIMIT, f"There are access keys of {SERVICES_WITH_KEYS_MAX} services already."
        )
    return (*keys, new)


def with_first_key(keys: HeldKeys, new: HeldKey) -> HeldKeys:
    """With this one if the principal has none yet."""
    return keys if any(key.service == new.service for key in keys) else with_key(keys, new)


def without_key(keys: HeldKeys, access_key_id: str) -> HeldKeys:
    """Without one; that it is not there does not matter."""
    return tuple(key for key in keys if key.id != access_key_id)


# Rules, and what is not there


def no_such_account(account_id: str) -> RefusedError:
    """No account has this id."""
    return RefusedError(RESOURCE_NOT_FOUND, f"There is no account {account_id}.")


def account_is_closed(account_id: str) -> RefusedError:
    """A closed account stays as it is."""
    return _invalid(f"The account {account_id} is closed.")


def no_such_user(account: str, name: str) -> RefusedError:
    """No user of the account has this name."""
    return RefusedError(RESOURCE_NOT_FOUND, f"There is no user {name} in account {account}.")


def no_such_key(account: str, access_key_id: str) -> RefusedError:
    """The account has no such access key, or it was revoked."""
    return RefusedError(
        RESOURCE_NOT_FOUND, f"There is no access key {access_key_id} in account {account}."
    )


def check_account_name(name: str) -> None:
    """Raise RefusedError (InvalidParameterValue)."""
    if is_account_name(name) is None:
        raise _invalid(
            "The name of an account has 1 to 64 characters: letters, digits, spaces and +=,.@_-"
        )


def check_user_name(name: str) -> None:
    """Raise RefusedError (InvalidParameterValue)."""
    if is_user_name(name) is None:
        raise _invalid("The name of a user has 1 to 64 characters: letters, digits and +=,.@_-")


def check_service(service: str) -> None:
    """Raise RefusedError (InvalidParameterValue)."""
    if is_service(service) is None:
        raise _invalid("A service has a name like sns.amazonaws.com.")


def check_policies(policies: Sequence[str]) -> None:
    """Raise RefusedError (InvalidParameterValue) for what is not wholly understood."""
    if len(policies) > USER_POLICIES_MAX:
        raise _invalid(f"A user has {USER_POLICIES_MAX} policies at most.")
    for number, policy in enumerate(policies, start=1):
        if len(policy) > USER_POLICY_CHARS_MAX:
            raise _invalid(f"Policy {number} is longer than {USER_POLICY_CHARS_MAX} characters.")
        doubts = compile_policy(policy, Kind.IDENTITY).doubts
        doubt = doubts[0] if doubts else unknown_action(policy)
        if doubt is not None:
            raise _invalid(f"Policy {number} is not valid: {doubt}.")


def check_quotas(quotas: Mapping[str, object]) -> None:
    """Raise RefusedError (InvalidParameterValue) that names the wrong quota."""
    try:
        parse_quotas(quotas)
    except QuotaError as error:
        raise _invalid(f"Quota {error}") from error


def _invalid(message: str) -> RefusedError:
    return RefusedError(INVALID_PARAMETER_VALUE, message)
