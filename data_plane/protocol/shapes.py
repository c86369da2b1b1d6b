"""Shapes of parameters: the type of each member, and its name in the Query protocol.

botocore's model says which members exist; it no longer says how the Query protocol spells lists and
maps (`MessageAttribute.1.Name`), so that is kept here. A service whose requests are checked by
their shapes alone has Bounds in them (constraints.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from data_plane.core.limits import INTEGER_MAX, INTEGER_MIN, LONG_MAX, LONG_MIN


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a value may be: all that is given must hold, both ends included.

    `least` and `most` are of an integer's value, of a text's characters, of a blob's bytes, of the
    members of a list or map. A text matches `pattern` as a whole, or is one of `values`, which are
    told in this order.
    """

    least: int | None = None
    most: int | None = None
    pattern: str = ""
    values: tuple[str, ...] = ()


ANYTHING = Bounds()


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf: `kind` is one of `string`, `integer`, `boolean`, `blob` (bytes), `timestamp`.

    A timestamp is a number of milliseconds since 1970, whatever the protocol writes.
    """

    kind: str
    bounds: Bounds = ANYTHING

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the most that an integer is read as; what is beyond counts as these.

        It has 32 bits, as AWS has it, or 64 where its bounds need them.
        """
        most = self.bounds.most
        if most is not None and most > INTEGER_MAX:
            return LONG_MIN, LONG_MAX
        return INTEGER_MIN, INTEGER_MAX


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list. In Query its members are `<query_name>.1`, `<query_name>.2`, ... (flattened)."""

    member: "Shape"
    query_name: str = ""
    bounds: Bounds = ANYTHING


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map with string keys. In Query: `<query_name>.1.<query_key>`, `.1.<query_value>`."""

    value: "Shape"
    query_name: str = ""
    query_key: str = "Name"
    query_value: str = "Value"
    key: Scalar = Scalar("string")
    bounds: Bounds = ANYTHING


@dataclass(frozen=True, slots=True)
class Structure:
    """Named members, and which of them a request must contain.

    Of those in `one_of` it must contain one; the first is what is told to be missing.
    """

    members: Mapping[str, "Shape"] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()


Shape = Scalar | ListOf | MapOf | Structure

STRING = Scalar("string")
INTEGER = Scalar("integer")
BOOLEAN = Scalar("boolean")
BLOB = Scalar("blob")
TIMESTAMP = Scalar("timestamp")
