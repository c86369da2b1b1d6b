"""Shapes of parameters: the type of each member, and its name in the Query protocol.

botocore's model says which members exist; it no longer says how the Query protocol spells lists and
maps (`MessageAttribute.1.Name`), so that is kept here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Scalar:
    """A leaf: `kind` is one of `string`, `integer`, `boolean`, `blob` (bytes), `timestamp`."""

    kind: str


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list. In Query its members are `<query_name>.1`, `<query_name>.2`, ... (flattened)."""

    member: "Shape"
    query_name: str


@dataclass(frozen=True, slots=True)
class MapOf:
    """A map with string keys. In Query: `<query_name>.1.<query_key>`, `.1.<query_value>`."""

    value: "Shape"
    query_name: str
    query_key: str = "Name"
    query_value: str = "Value"


@dataclass(frozen=True, slots=True)
class Structure:
    """Named members, and which of them a request must contain."""

    members: Mapping[str, "Shape"] = field(default_factory=dict)
    required: tuple[str, ...] = ()


Shape = Scalar | ListOf | MapOf | Structure

STRING = Scalar("string")
INTEGER = Scalar("integer")
BOOLEAN = Scalar("boolean")
BLOB = Scalar("blob")
