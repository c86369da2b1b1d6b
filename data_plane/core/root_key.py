"""An access key of the root account that the operator chose, rather than one that was made."""

import re
from dataclasses import dataclass, field
from typing import Final

SECRET_CHARS_MIN: Final = 8

_is_id: Final = re.compile(r"[A-Za-z0-9_.-]{3,128}").fullmatch
_is_secret: Final = re.compile(r"[!-~]{8,128}").fullmatch


class RootKeyError(ValueError):
    """The key cannot be used: its `part`, `access-key-id` or `secret-access-key`, is wrong."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"root-{part}: {reason}")


@dataclass(frozen=True, slots=True)
class RootKey:
    """Its id and its secret. Raises RootKeyError."""

    id: str
    secret: str = field(repr=False)

    def __post_init__(self) -> None:
        if _is_id(self.id) is None:
            raise RootKeyError("access-key-id", "it has 3 to 128 of the characters A-Z a-z 0-9 _.-")
        if _is_secret(self.secret) is None:
            what = f"it has {SECRET_CHARS_MIN} to 128 characters of ASCII, and no space"
            raise RootKeyError("secret-access-key", what)
