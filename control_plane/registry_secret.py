"""The registry secret: made once, stored wrapped, and what all other secrets are derived from.

docs/storage.md describes its item. Several servers may make it at once: one of them wins, and all
of them have the same one.
"""

from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from data_plane.core.sealing import SECRET_BYTES
from data_plane.ports import (
    ITEM_ABSENT,
    Attributes,
    Cell,
    CellUnavailableError,
    Clock,
    Condition,
    Entropy,
    Equals,
    Key,
    MasterKeys,
    Value,
    WrappedKey,
)

NUMBER: Final = 0
"""Of the secret, the only one so far."""

ITEM: Final = Key("M|secrets", bytes((NUMBER,)))

ACCOUNTS: Final = "A|"
"""Partition of all accounts: the first one is made after the secret."""

_FORMAT: Final = 1
_NONCE_BYTES: Final = 8
_ATTEMPTS_MAX: Final = 8


class UnreadableSecretError(Exception):
    """The stored item has a format that this version does not know, or is missing."""


def context(number: int = NUMBER) -> Mapping[str, str]:
    """What a registry secret is wrapped for."""
    return {"tidegate:purpose": "registry secret", "tidegate:number": str(number)}


async def sealed_under(cell: Cell) -> str:
    """The master key of the secret that the registry in this cell has; "" where it has none.

    Raises UnreadableSecretError, CellUnavailableError.
    """
    item = await cell.get(ITEM)
    return "" if item is None else wrapped_secret(item).master_key


async def check_opens(item: Attributes, master_keys: MasterKeys) -> None:
    """Raise MasterKeysError where these keys do not open what is stored as the secret.

    Or UnreadableSecretError.
    """
    await master_keys.unwrap(wrapped_secret(item), context())


def master_key_of(item: Attributes) -> str:
    """The master key of what is stored as the secret. Raises UnreadableSecretError."""
    return wrapped_secret(item).master_key


async def read_or_make(
    cell: Cell, master_keys: MasterKeys, clock: Clock, entropy: Entropy
) -> bytes:
    """The secret of the registry in this cell: 32 bytes.

    It is wrapped anew where its master key is not the newest any more. Raises MasterKeysError where
    it cannot be opened, UnreadableSecretError (also where it is lost), CellUnavailableError.
    """
    nonce = entropy.random_bytes(_NONCE_BYTES)
    secret = b""
    occupant = await cell.get(ITEM)
    if occupant is None and (await cell.query(ACCOUNTS, limit=1) or _has_items(cell)):
        occupant = await cell.get(ITEM)  # which another server may have made meanwhile
        if occupant is None:
            raise UnreadableSecretError(
                "the registry secret is missing beside what it sealed: restore a backup, for"
                " nothing that is sealed opens without it"
            )
    for _ in range(_ATTEMPTS_MAX):
        made: Value
        condition: Condition
        if occupant is None:
            secret = secret or entropy.random_bytes(SECRET_BYTES)
            made, condition = clock.now_us() // 1_000_000, ITEM_ABSENT
        else:
            stored = wrapped_secret(occupant)
            secret = await master_keys.unwrap(stored, context())
            if occupant["w"] == nonce or master_keys.is_current(stored):
                return secret
            made, condition = occupant["b"], ((Equals("w", occupant["w"]),),)
        wrapped = await master_keys.wrap(secret, context())
        item: Attributes = {
            "v": _FORMAT,
            "w": nonce,
            "b": made,
            "k": wrapped.master_key,
            "z": wrapped.wrapped,
        }
        written = await cell.put(ITEM, item, condition)
        if written.applied:
            return secret
        occupant = written.before
    raise CellUnavailableError("others change the registry secret all the time")


@runtime_checkable
class _Listed(Protocol):
    """A cell that can say which partitions it has."""

    def partitions(self, after: str, limit: int) -> list[str]: ...


def _has_items(cell: Cell) -> bool:
    """Whether a cell that can be listed has anything: the secret is the first that it gets."""
    return isinstance(cell, _Listed) and bool(cell.partitions("", 1))


def wrapped_secret(item: Attributes) -> WrappedKey:
    """The secret that lies under ITEM, wrapped. Raises UnreadableSecretError."""
    master_key, wrapped = item.get("k"), item.get("z")
    if (
        item.get("v") != _FORMAT
        or not isinstance(master_key, str)
        or not isinstance(wrapped, bytes)
    ):
        raise UnreadableSecretError(f"registry secret of format {item.get('v')!r}")
    return WrappedKey(master_key, wrapped)
