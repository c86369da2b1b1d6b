"""How accounts, users and access keys are named, and how secrets look: from random bytes.

Source: IAM user guide, "IAM identifiers" (the alphabet, AKIA and AIDA) and "Manage access keys"
(secrets of 40 characters).
"""

import base64
import hashlib
import hmac
import re
from typing import Final

from data_plane.core.sealing import derive

SECRET_RANDOM_BYTES: Final = 30
KEY_RANDOM_BYTES: Final = 10
USER_RANDOM_BYTES: Final = 15
ACCOUNT_RANDOM_BYTES: Final = 16

_RANDOM_CHARS: Final = 10
_DIGEST_BYTES: Final = 5
_DIGEST_CHARS: Final = 6
_USER_CHARS: Final = 17
_ACCOUNT_MIN: Final = 10**11
_ACCOUNTS: Final = 9 * 10**11

_is_key_id: Final = re.compile(r"AKIA[A-Z2-7]{16}").fullmatch


class AccessKeyIds:
    """Access key ids of one registry.

    AKIA, ten random characters, and six of a digest of those that is keyed with the registry's
    secret. So ids that somebody guesses are told apart without a look at the store.
    """

    __slots__ = ("_key",)

    def __init__(self, secret: bytes) -> None:
        self._key = derive(secret, "access key ids")

    def new(self, random: bytes) -> str:
        """An id from 10 random bytes."""
        return self._completed(f"AKIA{_base32(random)[:_RANDOM_CHARS]}")

    def is_own(self, access_key_id: str) -> bool:
        """Whether this registry has made it, revoked or not."""
        if _is_key_id(access_key_id) is None:
            return False
        return hmac.compare_digest(self._completed(access_key_id[:-_DIGEST_CHARS]), access_key_id)

    def _completed(self, prefix: str) -> str:
        digest = hashlib.blake2b(prefix.encode(), key=self._key, digest_size=_DIGEST_BYTES).digest()
        return prefix + _base32(digest)[:_DIGEST_CHARS]


def new_secret(random: bytes) -> str:
    """A secret access key of 40 characters from 30 random bytes."""
    return base64.b64encode(random).decode()


def new_user_id(random: bytes) -> str:
    """The unique id of a user, 21 characters, from 15 random bytes."""
    return f"AIDA{_base32(random)[:_USER_CHARS]}"


def new_account_id(random: bytes) -> str:
    """An account id from 16 random bytes: 12 digits, the first of which is not 0."""
    return str(_ACCOUNT_MIN + int.from_bytes(random, "big") % _ACCOUNTS)


def _base32(data: bytes) -> str:
    return base64.b32encode(data).decode()
