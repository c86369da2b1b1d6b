"""Conditions and changes in DynamoDB's expression language.

Attribute names and values stand in expressions as placeholders (`#0`, `:0`): names may be reserved
words, and a value never becomes text of an expression.
"""

from typing import Any, Final

from data_plane.core.conditions import Absent, AnyOf, Clause, Condition, Equals, Lacks, LessThan
from data_plane.dynamodb.items import SORT_PREFIX, TypedValue, encode_value
from data_plane.dynamodb.tables import PARTITION, SORT
from data_plane.ports import Update

_NEVER: Final = f"(attribute_exists({PARTITION}) AND attribute_not_exists({PARTITION}))"
"""What an element without clauses says: none of them holds."""


_SET: Final = ":set"
"""Stands for the type of all sets; contains() alone would hold for text, too."""


class _Placeholders:
    """Hands out placeholders and remembers what they stand for."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, TypedValue] = {}

    def name(self, attribute: str) -> str:
        return self.names.setdefault(attribute, f"#{len(self.names)}")

    def value(self, typed: TypedValue) -> str:
        placeholder = f":{len(self.values)}"
        self.values[placeholder] = typed
        return placeholder

    def parameters(self) -> dict[str, Any]:
        """What a request says of them; an empty map is refused, so it is left out."""
        said: dict[str, Any] = {}
        if self.names:
            said["ExpressionAttributeNames"] = {
                placeholder: attribute for attribute, placeholder in self.names.items()
            }
        if self.values:
            said["ExpressionAttributeValues"] = self.values
        return said


def write_parameters(condition: Condition, change: Update | None = None) -> dict[str, Any]:
    """The expressions of a write, and what their placeholders stand for."""
    placeholders = _Placeholders()
    parameters: dict[str, Any] = {}
    if change is not None:
        update = _update(change, placeholders)
        if update:
            parameters["UpdateExpression"] = update
    if condition:
        parameters["ConditionExpression"] = " AND ".join(
            _any_of(any_of, placeholders) for any_of in condition
        )
        parameters["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
    return parameters | placeholders.parameters()


def range_parameters(partition: str, after: bytes, until: bytes | None) -> dict[str, Any]:
    """The key condition `after < sort <= until` of a query; the range is not empty.

    DynamoDB takes one comparison of the sort key. The least key above `after` is `after` and a zero
    byte, so that BETWEEN, which includes both ends, says the same.
    """
    values: dict[str, TypedValue] = {":pk": {"S": partition}}
    if until is None:
        sort = f"{SORT} > :after"
        values[":after"] = {"B": SORT_PREFIX + after}
    else:
        sort = f"{SORT} BETWEEN :from AND :until"
        values[":from"] = {"B": SORT_PREFIX + after + b"\0"}
        values[":until"] = {"B": SORT_PREFIX + until}
    return {
        "KeyConditionExpression": f"{PARTITION} = :pk AND {sort}",
        "ExpressionAttributeValues": values,
    }


def _update(change: Update, placeholders: _Placeholders) -> str:
    def pairs(attributes: Any, between: str) -> str:
        return ", ".join(
            f"{placeholders.name(name)}{between}{placeholders.value(encode_value(value))}"
            for name, value in attributes.items()
        )

    parts: list[str] = []
    if change.assign:
        parts.append("SET " + pairs(change.assign, " = "))
    if change.add:
        parts.append("ADD " + pairs(change.add, " "))
    if change.remove:
        names = ", ".join(placeholders.name(name) for name in sorted(change.remove))
        parts.append("REMOVE " + names)
    return " ".join(parts)


def _any_of(clauses: AnyOf, placeholders: _Placeholders) -> str:
    if not clauses:
        return _NEVER
    return "(" + " OR ".join(_clause(clause, placeholders) for clause in clauses) + ")"


def _clause(clause: Clause, placeholders: _Placeholders) -> str:
    name = placeholders.name(clause.attribute)
    match clause:
        case Absent():
            return f"attribute_not_exists({name})"
        case Equals():
            return f"{name} = {placeholders.value(encode_value(clause.value))}"
        case LessThan():
            return f"{name} < {placeholders.value(encode_value(clause.value))}"
        case Lacks():
            member = placeholders.value(encode_value(clause.member))
            placeholders.values[_SET] = {"S": "NS"}
            return (
                f"attribute_not_exists({name})"
                f" OR (attribute_type({name}, {_SET}) AND NOT contains({name}, {member}))"
            )
