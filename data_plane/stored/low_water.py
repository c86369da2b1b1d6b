"""Low-water marks of both engines: a place, and by which eras it was decided (docs/storage.md)."""

from typing import NamedTuple

from data_plane.core.eras import Eras
from data_plane.ports import Absent, Attributes, Clause, Condition, Equals, LessThan, Update


class LowWaterMark(NamedTuple):
    """A low-water mark as it was read.

    `place` is b"" where there is none, and where it was `doubted`: decided by other eras, the
    version of which this is. What lies below it may have been taken for expired, and is not.
    """

    place: bytes = b""
    doubted: int | None = None


def read_mark(mark: Attributes | None, eras: Eras) -> LowWaterMark:
    """What the item of a mark says."""
    place = (mark or {}).get("w", b"")
    version = (mark or {}).get("u", 0)
    if not isinstance(place, bytes) or not isinstance(version, int) or not place:
        return LowWaterMark()
    return LowWaterMark(place) if version == eras.version else LowWaterMark(doubted=version)


def new_mark(mark: Attributes, eras: Eras) -> Update:
    """A mark that takes the place of another, and says by which eras it was decided.

    Version 0 is said by no `u`, whatever the mark before was decided by.
    """
    if eras.version:
        return Update(assign={**mark, "u": eras.version})
    return Update(assign=mark, remove=frozenset(("u",)))


def may_follow(above: bytes, doubted: int | None) -> Condition:
    """That a mark below `above` takes the place of what is there, or of one that is in doubt."""
    clauses: list[Clause] = [Absent("w"), LessThan("w", above)]
    if doubted is not None:
        clauses.append(Equals("u", doubted) if doubted else Absent("u"))
    return (tuple(clauses),)
