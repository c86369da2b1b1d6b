"""Texts of policies that match texts of requests: wildcards, policy variables, ARNs.

`*` stands for any characters, `?` for one. In a document of version 2012-10-17 `${key}` stands for
what the request says of a condition key, `${key, 'text'}` has a default, and `${*}`, `${?}`, `${$}`
are these characters themselves. Source: IAM user guide, "Variables and tags" and "Resource".

A regular expression is built so that it never backtracks: what stands between two wildcards is
looked for once, in an atomic group, so a policy cannot make a comparison slow.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, Protocol

from data_plane.core.partitions import without_partition

Values = tuple[str, ...]


class Keys(Protocol):
    """What is known of a request, by condition key in lower case; () is as good as absent."""

    def get(self, key: str, default: Values, /) -> Values:
        """The values of a key, or the default."""
        ...


Test = Callable[[str, Keys], bool | None]
"""Whether a request's value matches; None where nobody can tell."""

ARN_SEGMENTS: Final = 6
NO_ARN: Final = "an ARN begins with arn: and has six parts"
_RESOLVED_MAX: Final = 16
"""With so many callers' variables a pattern is kept compiled."""

_variable_parts: Final = re.compile(r"\s*([^',\s][^',]*?)\s*(?:,\s*'([^']*)'\s*)?").fullmatch
_variable: Final = re.compile(r"\$\{([^{}]*)\}")


class MalformedPatternError(ValueError):
    """The text breaks the rules of patterns."""


class Wildcard(Enum):
    """A part of a pattern that stands for other characters."""

    MANY = "*"
    ONE = "?"


@dataclass(frozen=True, slots=True)
class Variable:
    """A part of a pattern that stands for the request's value of a key, or for a default."""

    key: str
    default: str | None

    def value(self, keys: Keys) -> str | None:
        """The text it stands for; None where the request has not exactly one and no default."""
        values = keys.get(self.key, ())
        if not values:
            return self.default
        return values[0] if len(values) == 1 else None


Part = str | Wildcard | Variable


def read_parts(text: str, *, wildcards: bool, variables: bool) -> list[Part]:
    """The parts of a pattern. Raises MalformedPatternError for a variable that is none."""
    parts: list[Part] = []
    position = 0
    for found in _variable.finditer(text) if variables else ():
        parts += _plain(text[position : found.start()], wildcards=wildcards, variables=variables)
        parts.append(_read_variable(found[1]))
        position = found.end()
    return parts + _plain(text[position:], wildcards=wildcards, variables=variables)


def _plain(text: str, *, wildcards: bool, variables: bool) -> list[Part]:
    if variables and "${" in text:
        raise MalformedPatternError(f"a variable in {text!r} does not end")
    if not wildcards:
        return [text] if text else []
    pieces = re.split(r"([*?])", text)
    return [Wildcard(piece) if piece in ("*", "?") else piece for piece in pieces if piece]


def _read_variable(content: str) -> Part:
    if content in ("*", "?", "$"):
        return content
    named = _variable_parts(content)
    if named is None:
        raise MalformedPatternError(f"${{{content}}} is no variable")
    return Variable(named[1].lower(), named[2])


def variables_of(parts: Sequence[Part]) -> list[str]:
    """The keys that variables of a pattern name, in lower case."""
    return [part.key for part in parts if isinstance(part, Variable)]


def text_test(parts: Sequence[Part]) -> Test:
    """Compare a whole text."""
    return _test([list(parts)])


def folded_test(parts: Sequence[Part]) -> Test:
    """Compare a whole text without regard to case."""
    test = _test(
        [[part.casefold() if isinstance(part, str) else part for part in parts]], str.casefold
    )
    return lambda value, keys: test(value.casefold(), keys)


def arn_test(parts: Sequence[Part]) -> Test:
    """Compare an ARN segment by segment. Raises MalformedPatternError for what is no ARN.

    A pattern for the partition `aws` matches what has another one by its region, too: policies of
    before 0.2 say so, when there was no other partition, and a Deny among them must go on to hold.
    """
    segments = split_arn(parts)
    if len(segments) != ARN_SEGMENTS or segments[0] != ["arn"]:
        raise MalformedPatternError(NO_ARN)
    test = _test(segments)

    def matches(value: str, keys: Keys) -> bool | None:
        if not _is_arn(value):
            return None
        matched = test(value, keys)
        of_before = without_partition(value)
        return matched if matched or of_before == value else test(of_before, keys)

    return matches


def split_arn(parts: Sequence[Part]) -> list[list[Part]]:
    """The parts of each segment; the sixth has all that remains, colons too."""
    segments: list[list[Part]] = [[]]
    for part in parts:
        if not isinstance(part, str):
            segments[-1].append(part)
            continue
        first, *others = part.split(":", ARN_SEGMENTS - len(segments))
        segments[-1] += [first] if first else []
        segments += [[other] if other else [] for other in others]
    return segments


def _is_arn(value: str) -> bool:
    return value.startswith("arn:") and value.count(":") >= ARN_SEGMENTS - 1


def _test(segments: Sequence[Sequence[Part]], adapt: Callable[[str], str] = str) -> Test:
    """A test of texts whose segments are joined by colons; values of variables are adapted."""
    parts = [part for segment in segments for part in segment]
    if any(isinstance(part, Variable) for part in parts):
        return _variable_test(segments, adapt)
    if all(isinstance(part, str) for part in parts):
        literal = ":".join("".join(map(str, segment)) for segment in segments)
        return lambda value, _keys: value == literal
    matches = _matcher(segments)
    return lambda value, _keys: matches(value) is not None


def _variable_test(segments: Sequence[Sequence[Part]], adapt: Callable[[str], str]) -> Test:
    variables = [part for segment in segments for part in segment if isinstance(part, Variable)]

    @lru_cache(maxsize=_RESOLVED_MAX)
    def resolved(*values: str) -> Callable[[str], object]:
        rest = iter(values)
        return _matcher(
            [
                [adapt(next(rest)) if isinstance(part, Variable) else part for part in segment]
                for segment in segments
            ]
        )

    def test(value: str, keys: Keys) -> bool | None:
        values = [variable.value(keys) for variable in variables]
        known = [text for text in values if text is not None]
        return resolved(*known)(value) is not None if len(known) == len(values) else None

    return test


def _matcher(segments: Sequence[Sequence[Part]]) -> Callable[[str], object]:
    return re.compile(_expression(segments), re.DOTALL).fullmatch


def _expression(segments: Sequence[Sequence[Part]]) -> str:
    """A regular expression; wildcards of all segments but the last stop at a colon."""
    last = len(segments) - 1
    return ":".join(
        _segment_expression(segment, "." if number == last else "[^:]")
        for number, segment in enumerate(segments)
    )


def _segment_expression(segment: Sequence[Part], any_one: str) -> str:
    runs = [""]
    for part in segment:
        if part is Wildcard.MANY:
            runs.append("")
        elif part is Wildcard.ONE:
            runs[-1] += any_one
        elif isinstance(part, str):
            runs[-1] += re.escape(part)
    if len(runs) == 1:
        return runs[0]
    first, *between, last = runs
    found = "".join(f"(?>{any_one}*?{run})" for run in between if run)
    return f"{first}{found}{any_one}*{last}"
