"""Tags of streams."""

from collections.abc import Iterable, Mapping
from typing import Final

from control_plane.core.queue_tags import RESERVED, is_reserved
from data_plane.core.errors import INVALID_ARGUMENT, RefusedError
from data_plane.core.limits import TAGS_MAX

_PUNCTUATION: Final = frozenset("_./=+-%@:")


def check_tags(tags: Mapping[str, str], stream: str, account: str) -> None:
    """Raise RefusedError (InvalidArgument) for tags that a stream may not have, or too many."""
    check_texts(tags)
    check_count(tags, stream, account)


def check_texts(tags: Mapping[str, str]) -> None:
    """Raise RefusedError (InvalidArgument) for characters, or keys, that tags may not have."""
    if any(map(is_reserved, tags)):
        raise RefusedError(INVALID_ARGUMENT, RESERVED)
    if not all(map(_is_allowed, tags)) or not all(map(_is_allowed, tags.values())):
        raise RefusedError(
            INVALID_ARGUMENT,
            "Some tags contain invalid characters. Valid characters: Unicode letters, digits, white"
            " space, _ . / = + - % @.",
        )


def check_count(tags: Mapping[str, str], stream: str, account: str) -> None:
    """Raise RefusedError (InvalidArgument) for more tags than this stream may have."""
    if len(tags) > TAGS_MAX:
        raise RefusedError(
            INVALID_ARGUMENT,
            f"Failed to add tags to stream {stream} under account {account} because a given stream"
            f" cannot have more than {TAGS_MAX} tags associated with it.",
        )


def without(tags: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """The tags but for those with these keys."""
    gone = set(keys)
    return {key: value for key, value in tags.items() if key not in gone}


def _is_allowed(text: str) -> bool:
    return all(one.isalnum() or one == " " or one in _PUNCTUATION for one in text)
