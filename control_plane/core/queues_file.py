"""The file of queues that a server makes at its start: what it may say (docs/operations.md).

It is TOML, with a table for each queue. Attributes have SQS's names; what is not an attribute is
written in lower case.
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_TAGS: Final = "tags"
_DEAD_LETTERS: Final = "dead_letters"
_DEAD_LETTERS_KEYS: Final = {"queue", "max_receive_count"}


class QueuesFileError(ValueError):
    """The file says something wrong; the message is one line."""


@dataclass(frozen=True, slots=True)
class DeclaredQueue:
    """A queue as the file has it: attributes as a request would give them.

    `dead_letter_queue` is a queue's name ("": none), in the same account and region.
    """

    name: str
    attributes: Mapping[str, str]
    tags: Mapping[str, str] = field(default_factory=dict)
    dead_letter_queue: str = ""
    receive_count_max: str = ""


def parse(text: str) -> list[DeclaredQueue]:
    """The queues of a file, in its order. Raises QueuesFileError.

    Whether names, attributes and tags may have these values is not looked at.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise QueuesFileError(str(error)) from error
    for key in document.keys() - {"queues"}:
        raise QueuesFileError(f"{key} means nothing here; a queue is a table [queues.NAME]")
    queues = document.get("queues", {})
    if not isinstance(queues, dict):
        raise QueuesFileError("queues has no tables; a queue is a table [queues.NAME]")
    return [_declared(name, table) for name, table in queues.items()]


def _declared(name: str, table: object) -> DeclaredQueue:
    if not isinstance(table, dict):
        raise QueuesFileError(f"queue {name}: it is not a table [queues.NAME]")
    tags = _table(name, table, _TAGS)
    dead_letters = _table(name, table, _DEAD_LETTERS)
    if dead_letters and dead_letters.keys() != _DEAD_LETTERS_KEYS:
        raise QueuesFileError(f"queue {name}: dead_letters has queue and max_receive_count")
    attributes = {
        key: _text(name, key, value)
        for key, value in table.items()
        if key not in (_TAGS, _DEAD_LETTERS)
    }
    if dead_letters and "RedrivePolicy" in attributes:
        raise QueuesFileError(f"queue {name}: it has dead_letters and a RedrivePolicy")
    return DeclaredQueue(
        name,
        attributes,
        {key: _text(name, f"tag {key}", value) for key, value in tags.items()},
        _text(name, "dead_letters.queue", dead_letters.get("queue", "")),
        _text(name, "dead_letters.max_receive_count", dead_letters.get("max_receive_count", "")),
    )


def _table(queue: str, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise QueuesFileError(f"queue {queue}: {key} is not a table")
    return value


def _text(queue: str, key: str, value: object) -> str:
    """A value as a request would have it; a table is a document."""
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
        case dict():
            return json.dumps(value, default=str)
    raise QueuesFileError(
        f"queue {queue}: {key} is neither a text, a whole number, true or false, nor a table"
    )
