"""What tags of a queue may be. Source: SQS developer guide (cost allocation tags)."""

from collections.abc import Mapping
from typing import Any, Final

from data_plane.core.errors import INVALID_PARAMETER_VALUE, RefusedError
from data_plane.core.limits import TAG_KEY_CHARS_MAX, TAG_VALUE_CHARS_MAX, TAGS_MAX

RESERVED: Final = "Tag keys cannot start with the reserved prefix aws:."

_RESERVED_PREFIX: Final = "aws:"
_SYMBOLS: Final = frozenset("_.:/=+-@")
_NO_SPACES: Final = frozenset("\x0b\x0c\x1c\x1d\x1e\x1f\x85")
"""Control characters that `str.isspace` takes for spaces; XML has no way to write most of them."""


def is_reserved(key: str) -> bool:
    """Whether only AWS itself gives tags with such a key."""
    return key.lower().startswith(_RESERVED_PREFIX)


def check_tags(tags: Mapping[str, Any]) -> None:
    """Raise RefusedError (InvalidParameterValue) for a tag that AWS would refuse.

    A value may be empty, but not null.
    """
    for key, value in tags.items():
        if not 1 <= len(key) <= TAG_KEY_CHARS_MAX:
            raise _refused("Tag keys must be between 1 and 128 characters in length.")
        if is_reserved(key):
            raise _refused(RESERVED)
        _check_characters("keys", key)
        if not isinstance(value, str):
            raise _refused("the parameter 'value' may not be null")
        if len(value) > TAG_VALUE_CHARS_MAX:
            raise _refused("Tag values must be at most 256 characters in length.")
        _check_characters("values", value)


def merged(current: Mapping[str, str], added: Mapping[str, str], queue: str) -> dict[str, str]:
    """The tags of `queue` after adding some.

    Raises RefusedError (InvalidParameterValue) when that makes too many.
    """
    tags = {**current, **added}
    if len(tags) > TAGS_MAX:
        raise _refused(f"Too many tags added for queue {queue}.")
    return tags


def _check_characters(what: str, text: str) -> None:
    if not all(map(_is_allowed, text)):
        raise _refused(
            f"Tag {what} may only contain unicode letters, digits, whitespace, "
            "or one of these symbols: _ . : / = + - @"
        )


def _is_allowed(char: str) -> bool:
    if char.isspace():
        return char not in _NO_SPACES
    return char.isalnum() or char in _SYMBOLS


def _refused(message: str) -> RefusedError:
    return RefusedError(INVALID_PARAMETER_VALUE, message)
