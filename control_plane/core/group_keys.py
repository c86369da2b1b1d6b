"""Where consumer groups, their members and their offsets lie (docs/storage.md)."""

from typing import Final

from data_plane.ports import Key

_SHARD_DIGITS: Final = 8


def groups(account: str, region: str) -> str:
    """The partition of an account's groups in a region, by their names."""
    return f"O|{account}|{region}"


def group(account: str, region: str, name: str) -> Key:
    """The key of a group."""
    return Key(groups(account, region), name.encode())


def members(uid: str) -> str:
    """The partition of a group's members, by their ids."""
    return f"O|{uid}|m"


def member(uid: str, member_id: str) -> Key:
    """The key of a member."""
    return Key(members(uid), member_id.encode())


def offsets(uid: str) -> str:
    """The partition of a group's offsets, by stream and shard."""
    return f"O|{uid}|o"


def offset(uid: str, stream_uid: str, shard: int) -> Key:
    """The key of the offset in a shard of a stream."""
    return Key(offsets(uid), f"{stream_uid}|{shard:0{_SHARD_DIGITS}x}".encode())
