"""botocore's protocol vectors, translated to the shapes of this server.

A vector has a model of its own, of some service's operation. Here its shapes become ours, as far as
the vector's values use them: so vectors run although their models have types which SQS has not.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore

from data_plane.protocol import shapes
from data_plane.protocol.shapes import Shape, Structure

FOLDER = (
    Path(__file__).parents[2]
    / ".venvs/vectors"
    / f"botocore-{botocore.__version__}"
    / "tests/unit/protocols"
)
"""Where `make test` puts the vectors of the pinned version."""

_SCALARS = {
    "string": shapes.STRING,
    "character": shapes.STRING,
    "integer": shapes.INTEGER,
    "boolean": shapes.BOOLEAN,
    "blob": shapes.BLOB,
}
_TRAITS = ("jsonvalue", "eventstream", "document", "idempotencyToken")
_QUERY = "query"

Reference = Mapping[str, Any]
"""How a model points to a shape: its name, and traits of the place."""


class LeftOutError(Exception):
    """The vector is about what SQS has not; the message says what."""


@dataclass(frozen=True)
class Vector:
    """One case, and the model that it belongs to."""

    name: str
    model: Mapping[str, Any]
    case: Mapping[str, Any]

    @property
    def protocol(self) -> str:
        """`json` or `query`."""
        return str(self.model["metadata"]["protocol"])

    @property
    def operation(self) -> str:
        """The operation that the case is about."""
        return str(self.case["given"]["name"])

    def shape(self, side: str, value: Any) -> Structure:
        """Our shape of the operation's `input` or `output`, as far as `value` uses it.

        Raises LeftOutError where we have none.
        """
        reference = self.case["given"].get(side)
        translated = self._translate(reference, [value], "") if reference else Structure()
        assert isinstance(translated, Structure)
        return translated

    def value(self, side: str, value: Any) -> Any:
        """A value in the types of our shapes: bytes for blobs, names of the wire, no nulls."""
        reference = self.case["given"].get(side)
        return self._value(reference, value) if reference else {}

    def _traits(self, reference: Reference) -> dict[str, Any]:
        return {**self.model["shapes"][reference["shape"]], **reference}

    def _translate(self, reference: Reference, values: Sequence[Any], name: str) -> Shape:
        """`values` are those at this place, which may be in several members of a list."""
        traits = self._traits(reference)
        kind = traits["type"]
        for trait in _TRAITS:
            if traits.get(trait):
                raise LeftOutError(f"{trait}: SQS has none")
        if kind == "structure":
            members = {}
            for member, inner in traits["members"].items():
                inside = [value[member] for value in values if value.get(member) is not None]
                if inside:
                    wire = self._wire_name(inner, member)
                    members[wire] = self._translate(inner, inside, member)
            return Structure(members)
        if kind == "list":
            inside = [member for value in values for member in value]
            shape = self._translate(traits["member"], inside, name)
            return shapes.ListOf(shape, self._query_name(traits, name))
        if kind == "map":
            inside = [member for value in values for member in value.values()]
            shape = self._translate(traits["value"], inside, name)
            key, value = traits["key"], traits["value"]
            return shapes.MapOf(
                shape,
                self._query_name(traits, name),
                key.get("locationName", "key"),
                value.get("locationName", "value"),
            )
        if kind not in _SCALARS:
            raise LeftOutError(f"{kind}: SQS has none")
        return _SCALARS[kind]

    def _wire_name(self, reference: Reference, member: str) -> str:
        """Our name of a member; what Query calls lists and maps is in their shape."""
        traits = self._traits(reference)
        if self.protocol == _QUERY and traits["type"] in {"list", "map"}:
            return member
        return str(reference.get("locationName", member))

    def _query_name(self, traits: Mapping[str, Any], name: str) -> str:
        if self.protocol != _QUERY:
            return name
        if not traits.get("flattened"):
            raise LeftOutError(f"{traits['type']} that is not flattened: SQS has none")
        member = traits.get("member", {}).get("locationName", name)
        return str(traits.get("locationName", member))

    def _value(self, reference: Reference, value: Any) -> Any:
        traits = self._traits(reference)
        match traits["type"]:
            case "structure":
                members = traits["members"]
                return {
                    self._wire_name(members[name], name): self._value(members[name], inner)
                    for name, inner in value.items()
                    if inner is not None
                }
            case "list":
                return [self._value(traits["member"], inner) for inner in value]
            case "map":
                return {key: self._value(traits["value"], inner) for key, inner in value.items()}
            case "blob":
                return value.encode()
            case _:
                return value


def vectors(side: str, files: Sequence[str]) -> Iterator[Vector]:
    """The cases of these files; `side` is `input` or `output`."""
    for name in files:
        suites = json.loads((FOLDER / name.format(side)).with_suffix(".json").read_text())
        for number, suite in enumerate(suites):
            for position, case in enumerate(suite["cases"]):
                label = case.get("id") or f"{suite['description']} ({number}.{position})"
                yield Vector(f"{name.format(side)}: {label}", suite, case)
