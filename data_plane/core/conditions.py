"""Values, conditions and changes of stored items, and what they mean: pure functions.

Cells that evaluate conditions themselves call `holds` and `apply`; others translate the same types
into their store's language, and the conformance suite proves that both agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Value = int | str | bytes | frozenset[int]
Attributes = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Absent:
    """The item, or this attribute of it, does not exist."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Equals:
    """The attribute exists and has exactly this value."""

    attribute: str
    value: Value


@dataclass(frozen=True, slots=True)
class LessThan:
    """The attribute exists and is below this value of the same type (bytes compare bytewise)."""

    attribute: str
    value: int | bytes | str


@dataclass(frozen=True, slots=True)
class Lacks:
    """The attribute does not exist, or is a set without this member."""

    attribute: str
    member: int


Clause = Absent | Equals | LessThan | Lacks
AnyOf = tuple[Clause, ...]
Condition = tuple[AnyOf, ...]
"""Every element must hold; an element holds when any of its clauses does. `()` always holds."""

ALWAYS: Condition = ()
ITEM_ABSENT: Condition = ((Absent("v"),),)
"""Every stored item carries its format version in `v`."""


@dataclass(frozen=True, slots=True)
class Update:
    """Changes to single attributes of one item, which comes into being if it was absent.

    `assign` sets values. `add` unites sets and sums integers (an absent one counts as empty or 0).
    `remove` drops attributes. The three name disjoint attributes.
    """

    assign: Attributes = field(default_factory=dict)
    add: Attributes = field(default_factory=dict)
    remove: frozenset[str] = frozenset()


def holds(condition: Condition, attributes: Attributes | None) -> bool:
    """Whether the item (None: there is none) meets the condition."""
    if not condition:
        return True
    present = {} if attributes is None else attributes
    return all(any(_clause_holds(clause, present) for clause in any_of) for any_of in condition)


def _clause_holds(clause: Clause, present: Attributes) -> bool:
    value = present.get(clause.attribute)
    match clause:
        case Absent():
            return value is None
        case Equals():
            return value == clause.value
        case LessThan():
            return _below(value, clause.value)
        case Lacks():
            return value is None or (isinstance(value, frozenset) and clause.member not in value)


def _below(value: Value | None, bound: int | bytes | str) -> bool:
    # Values of different types have no order: the clause fails, as it does in DynamoDB.
    match value, bound:
        case (int(), int()) | (bytes(), bytes()) | (str(), str()):
            return value < bound  # type: ignore[operator]
    return False


def apply(change: Update, before: Attributes | None) -> dict[str, Value]:
    """The item after the change.

    Raises ValueError where the change names an attribute twice, TypeError where it adds what cannot
    be added: both are mistakes of the caller.
    """
    assigned, added = change.assign.keys(), change.add.keys()
    if assigned & added or change.remove & assigned or change.remove & added:
        raise ValueError(f"an update names an attribute twice: {change}")
    after = added_to({**(before or {}), **change.assign}, change.add)
    for name in change.remove:
        after.pop(name, None)
    return after


def added_to(before: Attributes | None, added: Mapping[str, Value]) -> dict[str, Value]:
    """The item after these amounts were added. Raises TypeError where one cannot be."""
    after = {} if before is None else dict(before)
    for name, amount in added.items():
        present = after.get(name)
        if type(present) is int and type(amount) is int:
            after[name] = present + amount
        else:
            after[name] = _sum(present, amount)
    return after


def _sum(present: Value | None, amount: Value) -> Value:
    match present, amount:
        case None, int() | frozenset():
            return amount
        case int(), int():
            return present + amount
        case frozenset(), frozenset():
            return present | amount
    raise TypeError(f"cannot add {amount!r} to {present!r}")
