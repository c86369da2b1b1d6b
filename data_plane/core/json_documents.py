"""JSON inside attributes: strict to read, compact to store."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def json_object(text: str) -> dict[str, Any] | None:
    """The object that the text is, or None for anything else.

    None as well where an object has a name twice, since which of the two counts is anybody's guess,
    and for what JSON or UTF-8 cannot say: NaN, half a surrogate pair.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique, parse_constant=_not_json)
        compact(document).encode()
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def without_nulls(document: Mapping[str, Any]) -> dict[str, Any]:
    """The object without members that are null: as AWS has it, those were not given.

    Tools that write infrastructure write so what nobody set (hashicorp/terraform-provider-aws
    #42453).
    """
    return {name: value for name, value in document.items() if value is not None}


def compact(document: object) -> str:
    """The text that is stored for a document."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object repeats a name")
    return members


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
