"""Checks parameters by the bounds in their shape, in the words of Kinesis (recorded from AWS).

    2 validation errors detected: Value '' at 'streamName' failed to satisfy constraint: Member
    must have length greater than or equal to 1; Value null at 'shardId' failed ...

A checker is made once of a shape, when it is first asked. It first asks whether all holds, which is
on the path of every call; what is wrong, and where, is looked for only if something is.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Any, Final, NoReturn

from data_plane.core.errors import VALIDATION, RefusedError
from data_plane.protocol.operation import Params
from data_plane.protocol.shapes import Bounds, ListOf, MapOf, Scalar, Shape, Structure

Checker = Callable[[Params], None]
"""Raises RefusedError(VALIDATION) for parameters that break a bound; their types are right."""

_TOLD_MAX: Final = 10
"""So many breaches are told at most, as AWS does."""
_SHOWN_CHARS: Final = 2_048
"""So much of a wrong value is repeated (our own: a body of 15 MiB is not answered by as much)."""
_SHOWN_MEMBERS: Final = 1_024

_Holds = Callable[[Any], bool]
_Rule = tuple[_Holds, str]


def checker(shape: Structure) -> Checker:
    """The checker of an operation's input."""
    made = cache(lambda: _holds(shape))

    def check(params: Params) -> None:
        holds = made()
        if holds is not None and not holds(params):
            refuse(_breaches(params, shape, ""))

    return check


def refuse(breaches: Iterable[str]) -> NoReturn:
    """Raise RefusedError for these breaches, of which AWS tells the first ten."""
    told = list(islice(breaches, _TOLD_MAX))
    noun = "validation error" if len(told) == 1 else "validation errors"
    raise RefusedError(VALIDATION, f"{len(told)} {noun} detected: {'; '.join(told)}")


def missing(path: str) -> str:
    """The breach of a member that must be there."""
    return f"Value null at '{path}' failed to satisfy constraint: Member must not be null"


def blob_too_long(path: str, bytes_max: int) -> str:
    """The breach of a blob that is longer than this; its value is not told."""
    return _breach("", path, _most("length", bytes_max))


def _holds(shape: Shape) -> _Holds | None:
    """Says whether a value keeps all bounds of a shape; None where there is none to keep."""
    match shape:
        case Structure():
            return _structure_holds(shape)
        case ListOf():
            return _list_holds(shape)
        case MapOf():
            return _all_hold([holds for holds, _ in _rules(shape)])
        case Scalar():
            return _scalar_holds(shape)


def _structure_holds(shape: Structure) -> _Holds | None:
    required = [(name, _holds(shape.members[name])) for name in shape.required]
    others = [
        (name, member_holds)
        for name, member in shape.members.items()
        if name not in shape.required and (member_holds := _holds(member)) is not None
    ]
    if not required and not others and not shape.one_of:
        return None
    one_of = shape.one_of

    def holds(value: Mapping[str, Any]) -> bool:
        for name, member_holds in required:
            member = value.get(name)
            if member is None or (member_holds is not None and not member_holds(member)):
                return False
        for name, member_holds in others:
            if name in value and not member_holds(value[name]):
                return False
        return not one_of or any(name in value for name in one_of)

    return holds


def _list_holds(shape: ListOf) -> _Holds | None:
    size_holds = _all_hold([holds for holds, _ in _size_rules(shape.bounds)])
    member_holds = _holds(shape.member)
    if member_holds is None:
        return size_holds
    if size_holds is None:
        return lambda value: all(map(member_holds, value))
    return lambda value: size_holds(value) and all(map(member_holds, value))


def _scalar_holds(shape: Scalar) -> _Holds | None:
    least, most = shape.bounds.least, shape.bounds.most
    is_text = bool(shape.bounds.pattern or shape.bounds.values)
    if least is not None and most is not None and not is_text:
        if shape.kind == "integer":
            return lambda value: least <= value <= most
        return lambda value: least <= len(value) <= most
    return _all_hold([holds for holds, _ in _rules(shape)])


def _all_hold(every: Sequence[_Holds]) -> _Holds | None:
    if len(every) <= 1:
        return every[0] if every else None
    return lambda value: all(holds(value) for holds in every)


def _rules(shape: Shape) -> Sequence[_Rule]:
    """What must hold of a value itself: whether it does, and how a breach is told."""
    match shape:
        case Structure():
            return ()
        case ListOf(member=Scalar() as member):
            told = _told_of_members("Member must satisfy constraint", member)
            return (*_size_rules(shape.bounds), *told)
        case ListOf():
            return _size_rules(shape.bounds)
        case MapOf():
            keys = _told_of_members("Map keys must satisfy constraint", shape.key)
            values = _told_of_members("Map value must satisfy constraint", shape.value)
            of_values = [(_of_values(holds), told) for holds, told in values]
            return (*_size_rules(shape.bounds), *keys, *of_values)
        case Scalar(kind="integer"):
            return _value_rules(shape.bounds)
        case Scalar():
            return (*_text_rules(shape.bounds), *_size_rules(shape.bounds))


def _of_values(holds: _Holds) -> _Holds:
    return lambda value: holds(value.values())


def _told_of_members(before: str, member: Shape) -> Sequence[_Rule]:
    """Scalars in lists and maps are told of together, and not one by one."""
    rules = _rules(member)
    if not rules:
        return ()
    holds = _all_hold([holds for holds, _ in rules])
    told = ", ".join(told for _, told in reversed(rules))
    return ((lambda values: holds is None or all(map(holds, values)), f"{before}: [{told}]"),)


def _value_rules(bounds: Bounds) -> Sequence[_Rule]:
    least, most = bounds.least, bounds.most
    rules: list[_Rule] = []
    if least is not None:
        rules.append((lambda value: value >= least, _least("value", least)))
    if most is not None:
        rules.append((lambda value: value <= most, _most("value", most)))
    return rules


def _size_rules(bounds: Bounds) -> Sequence[_Rule]:
    least, most = bounds.least, bounds.most
    rules: list[_Rule] = []
    if least is not None:
        rules.append((lambda value: len(value) >= least, _least("length", least)))
    if most is not None:
        rules.append((lambda value: len(value) <= most, _most("length", most)))
    return rules


def _text_rules(bounds: Bounds) -> Iterator[_Rule]:
    if bounds.pattern:
        matches = re.compile(bounds.pattern, re.ASCII).fullmatch
        most = bounds.most

        def holds(value: str) -> bool:
            # One that is too long is not looked at: some patterns take the square of its length.
            return (most is not None and len(value) > most) or matches(value) is not None

        yield holds, f"Member must satisfy regular expression pattern: {bounds.pattern}"
    if bounds.values:
        values = bounds.values
        yield (
            lambda value: value in values,
            f"Member must satisfy enum value set: [{', '.join(values)}]",
        )


def _least(what: str, bound: int) -> str:
    return f"Member must have {what} greater than or equal to {bound}"


def _most(what: str, bound: int) -> str:
    return f"Member must have {what} less than or equal to {bound}"


def _breaches(value: Any, shape: Shape, path: str) -> Iterator[str]:
    for holds, told in _rules(shape):
        if not holds(value):
            # Of a blob AWS once told its size, and now tells nothing.
            yield _breach("" if isinstance(value, bytes) else f" '{_shown(value)}'", path, told)
    match shape:
        case Structure():
            yield from _breaches_within(value, shape, path)
        case ListOf(member=Structure() as member):
            for number, each in enumerate(value, 1):
                yield from _breaches(each, member, f"{path}.{number}.member")


def _breaches_within(value: Params, shape: Structure, path: str) -> Iterator[str]:
    before = f"{path}." if path else ""
    if shape.one_of and not any(name in value for name in shape.one_of):
        yield missing(before + lower_first(shape.one_of[0]))
    for name, member_shape in shape.members.items():
        where = before + lower_first(name)
        member = value.get(name)
        if member is not None:
            yield from _breaches(member, member_shape, where)
        elif name in shape.required:
            yield missing(where)


def _breach(shown: str, path: str, told: str) -> str:
    return f"Value{shown} at '{path}' failed to satisfy constraint: {told}"


def lower_first(name: str) -> str:
    """A member, as breaches name it."""
    return name[:1].lower() + name[1:]


def _shown(value: Any) -> str:
    """A wrong value as AWS, whose servers are in Java, prints it; not more of it than is needed."""
    match value:
        case str():
            text = value
        case bytes():
            text = f"java.nio.HeapByteBuffer[pos=0 lim={len(value)} cap={len(value)}]"
        case list():
            text = f"[{', '.join(map(_shown, value[:_SHOWN_MEMBERS]))}]"
        case dict():
            pairs = islice(value.items(), _SHOWN_MEMBERS)
            text = f"{{{', '.join(f'{key}={_shown(each)}' for key, each in pairs)}}}"
        case _:
            text = str(value)
    return text[:_SHOWN_CHARS]
